"""A simulated node with an authorizer, and clients that speak to it as users.

Listeners that find out who a client is are no matter here: the principal is put into the connection's context.
"""

import asyncio
from functools import partial

from esp.model.acl import AclOperation, AclPermission, PatternType, ResourceType
from esp.model.features import SHARE_VERSION, TRANSACTION_VERSION
from esp.protocol.registry import ApiKey
from esp.settings.subjects.access import STANDARD_AUTHORIZER
from esp.simulation.workload.survey_requests import build
from tests.unit.broker.simulated_node import simulated

ROOT = "User:root"

guarded = partial(
    simulated,
    authorizer_class_name=STANDARD_AUTHORIZER,
    super_users=(ROOT,),
    offsets_topic_num_partitions=1,
    transaction_state_log_num_partitions=1,
)


async def client_of(node, principal, **address):
    """A connection of a user."""
    return await _known_as(principal, node.server, node.client(**address))


async def client_of_controller(node, principal):
    """A connection of a user, or of a broker, to the controller's listener."""
    controller = node.node.controller
    return await _known_as(principal, controller.server, node.client(controller.listening[0]))


async def _known_as(principal, server, connecting):
    before = set(server._sessions)
    client = await connecting
    while not (new := set(server._sessions) - before):  # noqa: ASYNC110  # virtual time
        await asyncio.sleep(0.001)
    (session,) = new
    session.client.principal = principal
    return client


async def ask(client, key, version, /, **content):
    """Send a request with these fields, the others at their defaults, and return the answer."""
    return await client.call(key, version, build(key, version, content))


async def until_coordinated(root):
    """Have transactions and share groups served, and wait until the coordinators of groups and transactions have loaded."""
    levels = [
        {"feature": feature, "max_version_level": level, "upgrade_type": 1}
        for feature, level in ((TRANSACTION_VERSION, 2), (SHARE_VERSION, 1))
    ]
    answer = await ask(root, ApiKey.UPDATE_FEATURES, 2, feature_updates=levels, timeout=1000)
    assert not answer.error_code, answer
    for key, (lookup, content) in enumerate(
        (
            (ApiKey.DESCRIBE_GROUPS, {"groups": ["g"]}),
            (ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": ["x"]}),
        )
    ):
        await ask(root, ApiKey.FIND_COORDINATOR, 4, key_type=key, coordinator_keys=["g"])
        while _LOADING & {int(each.error_code) for each in _elements(await ask(root, lookup, 0, **content))}:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


_LOADING = {14, 15, 16}


def _elements(answer):
    return getattr(answer, "groups", None) or answer.transaction_states


async def allow(
    root,
    principal,
    operation,
    resource_type=ResourceType.TOPIC,
    name="t",
    *,
    pattern=PatternType.LITERAL,
    permission=AclPermission.ALLOW,
    host="*",
):
    """Put a rule in force."""
    answer = await ask(
        root,
        ApiKey.CREATE_ACLS,
        3,
        creations=[
            {
                "resource_type": resource_type,
                "resource_name": name,
                "resource_pattern_type": pattern,
                "principal": principal,
                "host": host,
                "operation": operation,
                "permission_type": permission,
            }
        ],
    )
    (result,) = answer.results
    assert not result.error_code, result
    return answer


async def deny(root, principal, operation, *where, **options):
    """Put a rule in force that denies."""
    return await allow(root, principal, operation, *where, permission=AclPermission.DENY, **options)


async def withdraw(root, principal):
    """Take all rules of a principal out of force."""
    return await ask(
        root,
        ApiKey.DELETE_ACLS,
        3,
        filters=[
            {
                "resource_type_filter": 1,
                "resource_name_filter": None,
                "pattern_type_filter": 1,
                "principal_filter": principal,
                "host_filter": None,
                "operation": 1,
                "permission_type": 1,
            }
        ],
    )


__all__ = ["ROOT", "AclOperation", "ResourceType", "allow", "ask", "client_of", "deny", "guarded", "withdraw"]
