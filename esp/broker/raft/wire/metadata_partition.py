"""The common parts of the quorum's messages: their one partition, the leader and its address, and keys and endpoints of voters."""

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32, i32Timedelta, u16

from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import METADATA_TOPIC, NO_NODE, ZERO_UUID, DirectoryId, LeaderEpoch, NodeId
from esp.raft.messages import Response
from esp.raft.voters import VoterEndpoint, VoterKey, find_address

TopicData = TypeVar("TopicData")

TOPIC: Final = TopicName(METADATA_TOPIC)
PARTITION: Final = i32(0)

_PORT_MAX: Final = 65_535

TOP_LEVEL: Final = frozenset({ErrorCode.inconsistent_cluster_id})
"""Refusals of a request as a whole; all others are about the partition."""


class RefusedCallError(Exception):
    """The other side refused a request as a whole, and said no epoch with it."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class _NodeEndpoint(Protocol):
    node_id: Any
    host: str
    port: int


# --- partitions ----------------------------------------------------------------------------------------------------------------------


def only_topic(topic_data: Callable[..., TopicData], partition: Any) -> tuple[TopicData]:
    """The topics of a message that is about one partition, the metadata log's."""
    return (topic_data(topic_name=TOPIC, partitions=(partition,)),)


def asked_partition(message: Any) -> Any:
    """The one partition that a request is about.

    Raises:
        ApiError: INVALID_REQUEST: the request is not about the metadata log alone.
    """
    if [topic.topic_name for topic in message.topics] != [METADATA_TOPIC] or len(message.topics[0].partitions) != 1:
        raise ApiError(ErrorCode.invalid_request)
    partition = message.topics[0].partitions[0]
    require_partition(partition.partition_index)
    return partition


def require_partition(index: int) -> None:
    """Refuse a request about a partition that the metadata log does not have. Raises ApiError: INVALID_REQUEST."""
    if index != PARTITION:
        raise ApiError(ErrorCode.invalid_request)


def answered_partition(answer: Any) -> Any:
    """The one partition that an answer is about. Raises RefusedCallError."""
    require_served(answer.error_code)
    return only_partition(answer.topics)


def require_served(error: ErrorCode) -> None:
    """Raise RefusedCallError if the request was refused as a whole."""
    if error is not ErrorCode.none:
        raise RefusedCallError(error)


def only_partition(topics: Sequence[Any]) -> Any:
    """The one partition of an answer's topics. Raises RefusedCallError."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise RefusedCallError(ErrorCode.invalid_request)
    return topics[0].partitions[0]


# --- the leader ----------------------------------------------------------------------------------------------------------------------


def leadership(answer: Any, error: ErrorCode, leader: Any, listener: str) -> dict[str, Any]:
    """The fields that the core's answers have in common.

    Args:
        answer: of a member that was asked.
        error: of the request.
        leader: has ``leader_id`` and ``leader_epoch``.
        listener: the one that was asked, of which the leader's address is.

    Raises:
        RefusedCallError: the leader's address is none.
    """
    return {
        "error": error,
        "leader_epoch": LeaderEpoch(leader.leader_epoch),
        "leader_id": NodeId(leader.leader_id),
        "leader_endpoints": _endpoints_of(answer.node_endpoints, leader.leader_id, listener),
    }


def _endpoints_of(endpoints: Sequence[_NodeEndpoint], leader_id: int, listener: str) -> tuple[VoterEndpoint, ...]:
    if leader_id == NO_NODE:
        return ()
    return tuple(told_endpoint(listener, end.host, end.port) for end in endpoints if end.node_id == leader_id)[:1]


def told_endpoint(listener: str, host: str, port: int) -> VoterEndpoint:
    """An endpoint as an answer tells it. Raises RefusedCallError: its field for the port has room for more, and this is no port."""
    if not 0 <= port <= _PORT_MAX:
        raise RefusedCallError(ErrorCode.invalid_request)
    return VoterEndpoint(listener, host, int(port))


def node_endpoints(type_: Any, response: Response, listener: str, port: Callable[[int], int] = u16) -> tuple[Any, ...]:
    """The address of the leader's listener that the asking member calls, if it is known, as ``type_``.

    Args:
        type_: the kind of the answer's endpoints.
        response: the answer.
        listener: the one that was asked: the leader's one of that name speaks the same protocol (KIP-853).
        port: the type of the field for the port.
    """
    address = find_address(response.leader_endpoints, listener)
    if address is None:
        return ()
    return (type_(node_id=BrokerId(response.leader_id), host=address.host, port=port(address.port)),)


# --- voters --------------------------------------------------------------------------------------------------------------------------


def voter_key(node_id: int, directory_id: Any) -> VoterKey:
    """A voter as a message names it; one without a directory has the id 0."""
    return VoterKey(NodeId(node_id), DirectoryId(directory_id or ZERO_UUID))


def encode_endpoints(type_: Any, endpoints: Sequence[VoterEndpoint]) -> tuple[Any, ...]:
    """Endpoints as ``type_``, which has ``name``, ``host`` and ``port``."""
    return tuple(type_(name=endpoint.listener, host=endpoint.host, port=u16(endpoint.port)) for endpoint in endpoints)


def decode_endpoints(listeners: Sequence[Any]) -> tuple[VoterEndpoint, ...]:
    """The reverse of :func:`encode_endpoints`."""
    return tuple(VoterEndpoint(listener.name, listener.host, int(listener.port)) for listener in listeners)


# --- time ----------------------------------------------------------------------------------------------------------------------------


def encode_ms(count: int) -> i32Timedelta:
    """Milliseconds."""
    return i32Timedelta.parse(dt.timedelta(milliseconds=count))


def decode_ms(duration: dt.timedelta) -> int:
    """The reverse of :func:`encode_ms`."""
    return duration // dt.timedelta(milliseconds=1)
