"""What counts at a node is what it describes, also while its replicas have not come as far as its metadata."""

import asyncio
from types import SimpleNamespace

from esp.model.acl import AclOperation
from esp.model.delegation_passwords import token_hmac
from esp.protocol.registry import ApiKey
from tests.unit.broker.apis.test_alter_user_scram_credentials import added
from tests.unit.broker.apis.test_delegation_tokens import SETTINGS, client_of, gets_in, told
from tests.unit.broker.guarded_node import allow, ask, guarded

USER = [{"entity_type": "user", "entity_name": "alice"}]
CHANGES = (
    (ApiKey.CREATE_DELEGATION_TOKEN, 3, {"max_lifetime": -1, "renewers": []}),
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": [], "upsertions": [added("alice")]}),
    (
        ApiKey.ALTER_CLIENT_QUOTAS,
        1,
        {"entries": [{"entity": USER, "ops": [{"key": "request_percentage", "value": 9.0}]}]},
    ),
)
ALL_RULES = dict.fromkeys(("resource_type_filter", "pattern_type_filter", "operation", "permission_type"), 1)
ALL_QUOTAS = {"components": [{"entity_type": "user", "match_type": 0, "match": "alice"}]}


def hold_replicas(node):
    """Let the replicas of a node follow its metadata no further."""
    replicas = node.node.broker.running.replicas

    async def wait(*_change):
        await asyncio.Event().wait()

    replicas.apply = wait


@guarded(**SETTINGS)
async def test_what_counts_is_described_while_replicas_do_not_follow_yet(node):
    root, *others = [await client_of(node, "root") for _ in range(5)]
    hold_replicas(node)
    asked = [ask(client, *change[:2], **change[2]) for client, change in zip(others[:3], CHANGES, strict=True)]
    asked.append(allow(others[3], "User:alice", AclOperation.READ))
    changing = asyncio.gather(*asked)
    await asyncio.sleep(1)
    assert not changing.done(), "clients see older metadata yet"

    (token_id,) = node.node.running.metadata.image.delegation_tokens
    token = SimpleNamespace(token_id=token_id, hmac=token_hmac(node.settings.delegation_terms, token_id))
    assert await gets_in(node, token)
    assert await told(root) == {token_id}
    users = (await ask(root, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None)).results
    assert [user.user for user in users] == ["alice"]
    quotas = (await ask(root, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, **ALL_QUOTAS)).entries
    assert [quota.values[0].value for quota in quotas] == [9.0]
    rules = (await ask(root, ApiKey.DESCRIBE_ACLS, 3, **ALL_RULES)).resources
    assert [rule.acls[0].principal for rule in rules] == ["User:alice"]
    changing.cancel()
