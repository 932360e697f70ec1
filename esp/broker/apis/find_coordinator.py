"""FindCoordinator (10), versions 0-6: the broker that coordinates a group, a transactional id, or the state of a share partition.

The first request for a group creates ``__consumer_offsets``, that for a transactional id ``__transaction_state``, and is answered when that
exists. As with leaders of topics, a client is sent to a node that was probed just then (FAST-2): a client asks within a millisecond of
losing its coordinator. While ``transaction.version`` is 0 transactional ids are refused by the one code that every client takes for final
(decision 38). Share partitions are a type of keys from version 6 on, where ``share.version`` is 1 or more; only brokers ask for them.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest as RequestUpTo3
from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse as ResponseUpTo3
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.types import BrokerId
from kio.static.primitive import i32

from esp.broker.answer_fields import NO_THROTTLE, NO_TRANSACTIONS, NO_TRANSACTIONS_MESSAGE
from esp.broker.auto_create import create_missing_topics
from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.share_states.coordinators import is_coordinator_key
from esp.groups.partitioning import partition_for
from esp.model.acl import CLUSTER_NAME, AclOperation, Permission, ResourceType
from esp.model.errors import ErrorCode
from esp.model.ids import NO_NODE, OFFSETS_TOPIC, SHARE_STATES_TOPIC, TRANSACTIONS_TOPIC, NodeId

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
"""States of share partitions; the keys name group, topic id and partition."""
SHARE_FROM: Final = 6
MANY_FROM: Final = 4
MESSAGE_FROM: Final = 1

_NOWHERE: Final = ("", -1)
_MESSAGES: Final = {
    ErrorCode.none: "NONE",
    ErrorCode.coordinator_not_available: "The coordinator is not available.",
    ErrorCode.invalid_request: (
        "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible "
        "broker. See the broker logs for more details."
    ),
}
"""Kafka's words beside the error of an answer about one key."""

_NEEDS: Final[Mapping[int, Callable[[str], Permission]]] = {
    GROUP: lambda key: Permission(AclOperation.DESCRIBE, ResourceType.GROUP, key),
    TRANSACTION: lambda key: Permission(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key),
    SHARE: lambda _key: Permission(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME),
}
_DENIED: Final = {
    ResourceType.GROUP: (ErrorCode.group_authorization_failed, "Group authorization failed."),
    ResourceType.TRANSACTIONAL_ID: (
        ErrorCode.transactional_id_authorization_failed,
        "Transactional Id authorization failed.",
    ),
    ResourceType.CLUSTER: (ErrorCode.cluster_authorization_failed, "Cluster authorization failed."),
}

AnyRequest = FindCoordinatorRequest | RequestUpTo3
AnyResponse = FindCoordinatorResponse | ResponseUpTo3


def handle(services: Services, request: Request, message: AnyRequest) -> AnyResponse | Coroutine[Any, Any, AnyResponse]:
    """Answer from memory, if there is nothing to be created and no broker to be probed."""
    keys = (message.key,) if isinstance(message, RequestUpTo3) else message.coordinator_keys
    topic = _topic(services, request, message.key_type)
    allowed = [
        key
        for key in keys
        if _has_form(message.key_type, key) and _denial(services, request, message.key_type, key) is None
    ]
    if topic is not None and allowed:
        elsewhere = {leader for leader in _leaders(services, topic, allowed) if leader != services.node_id}
        if elsewhere:
            return _ask_and_answer(services, request, message, topic, keys, elsewhere)
    return _answer(services, request, message, keys)


async def _ask_and_answer(
    services: Services, request: Request, message: AnyRequest, topic: str, keys: Iterable[str], leaders: set[NodeId]
) -> AnyResponse:
    if topic not in services.metadata.image.topics_by_name:
        await create_missing_topics(services, (topic,))
        leaders = set(_leaders(services, topic, keys))
    await services.liveness.confirm(leaders)
    return _answer(services, request, message, keys)


def _topic(services: Services, request: Request, key_type: int) -> str | None:
    """The topic whose partitions have the coordinators of such keys; None if there are none."""
    if key_type == TRANSACTION and services.transactions.feature_level > 0:
        return TRANSACTIONS_TOPIC
    if key_type == SHARE and request.api_version >= SHARE_FROM and services.share_states.feature_level > 0:
        return SHARE_STATES_TOPIC
    return OFFSETS_TOPIC if key_type == GROUP else None


def _has_form(key_type: int, key: str) -> bool:
    return key_type != SHARE or is_coordinator_key(key)


def _leaders(services: Services, name: str, keys: Iterable[str]) -> Iterable[NodeId]:
    """The leaders of the keys' partitions in the metadata; none for a partition without a leader."""
    topic = services.metadata.image.topics_by_name.get(name)
    if topic is None:
        return (NO_NODE,)
    return (topic.partitions[partition_for(key, len(topic.partitions))].leader for key in keys)


def _answer(services: Services, request: Request, message: AnyRequest, keys: Iterable[str]) -> AnyResponse:
    coordinators = tuple(_coordinator(services, request, message.key_type, key) for key in keys)
    if isinstance(message, RequestUpTo3):
        (only,) = coordinators
        return ResponseUpTo3(
            throttle_time=NO_THROTTLE,
            error_code=only.error_code,
            error_message=(only.error_message or _MESSAGES[only.error_code])
            if request.api_version >= MESSAGE_FROM
            else None,
            node_id=only.node_id,
            host=only.host,
            port=only.port,
        )
    return FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=coordinators)


def _denial(services: Services, request: Request, key_type: int, key: str) -> tuple[ErrorCode, str] | None:
    """The error of a key whose coordinator the client may not know, and Kafka's text."""
    if key_type not in _NEEDS or (key_type == SHARE and _topic(services, request, key_type) is None):
        return None
    permission = _NEEDS[key_type](key)
    return _DENIED[permission.resource_type] if services.access.refuses(request.client, permission) else None


def _coordinator(services: Services, request: Request, key_type: int, key: str) -> Coordinator:
    denial = _denial(services, request, key_type, key)
    if denial is not None:
        return Coordinator(
            key=key,
            node_id=BrokerId(NO_NODE),
            host="",
            port=i32(-1),
            error_code=denial[0],
            error_message=denial[1],
        )
    node_id, (host, port), error = NO_NODE, _NOWHERE, ErrorCode.coordinator_not_available
    topic = _topic(services, request, key_type)
    if topic is not None and _has_form(key_type, key):
        (leader,) = _leaders(services, topic, (key,))
        if leader in services.metadata.alive:
            address = dict(services.metadata.endpoints(request.client.listener)).get(leader)
            if address is not None:
                node_id, (host, port), error = leader, address, ErrorCode.none
    else:
        error = NO_TRANSACTIONS if key_type == TRANSACTION else ErrorCode.invalid_request
    return Coordinator(
        key=key,
        node_id=BrokerId(node_id),
        host=host,
        port=i32(port),
        error_code=error,
        error_message=NO_TRANSACTIONS_MESSAGE if error is NO_TRANSACTIONS else "",
    )
