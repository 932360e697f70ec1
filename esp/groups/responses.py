"""The answers of a coordinator. The shell leaves out fields that a version lacks; beside an error stand the defaults."""

import uuid
from dataclasses import dataclass
from typing import Final, NamedTuple

from esp.groups.share.requests import ShareResult
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.schemas.consumer_group_records import MemberValue, TopicIdPartition

NO_OFFSET: Final = -1
"""The offset of a partition for which none is committed."""


class JoinedMember(NamedTuple):
    """A member as the leader sees it, to assign partitions to it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinResult:
    """The new generation, or why there is none for this client."""

    error: ErrorCode = ErrorCode.none
    member_id: str = ""
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    """Before version 7 an absent name is written as an empty one."""
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()
    """For the leader only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """A member's assignment."""

    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResult:
    """The answer to a heartbeat: the member goes on, or the reason why not."""

    error: ErrorCode = ErrorCode.none


class ConsumerGroupHeartbeatResult(NamedTuple):
    """The place of a member in its consumer group, or why it has none."""

    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: frozenset[TopicIdPartition] | None = None
    """The partitions that it may use; None if it knows them."""


class LeftMember(NamedTuple):
    """The result for one member that was to leave."""

    member_id: str
    group_instance_id: str | None
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveResult:
    """The results for the members that were to leave. Before version 3 the one member's error is the answer's."""

    error: ErrorCode = ErrorCode.none
    members: tuple[LeftMember, ...] = ()


class PartitionError(NamedTuple):
    """The result for one partition of a request."""

    partition: TopicPartition
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResult:
    """The result for each offset, in the order of the request. An error of the whole request stands at each."""

    partitions: tuple[PartitionError, ...] = ()


class FetchedOffset(NamedTuple):
    """A committed offset; NO_OFFSET if there is none."""

    partition: TopicPartition
    offset: int = NO_OFFSET
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.none
    topic_id: uuid.UUID | None = None
    """The topic for which it was committed, as far as its record says so: another one may have the name by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResult:
    """Committed offsets, in the order of the request, or of all partitions ordered by topic."""

    error: ErrorCode = ErrorCode.none
    offsets: tuple[FetchedOffset, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResult:
    """The result for each partition; with an error of the whole request there are none."""

    error: ErrorCode = ErrorCode.none
    partitions: tuple[PartitionError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupResult:
    """The result for one group that was to be deleted."""

    error: ErrorCode = ErrorCode.none


class ListedGroup(NamedTuple):
    """A group in a listing."""

    group_id: str
    protocol_type: str
    """Empty for a group of nothing but offsets."""
    state: str
    """``GroupState.value``: Kafka's name of the state."""
    group_type: str
    """``classic``, ``consumer`` or ``share``."""


class DescribedMember(NamedTuple):
    """A member in the description of its group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A group. One that is not there has GROUP_ID_NOT_FOUND and the state Dead; before version 6 the error is left out (KIP-1043)."""

    group_id: str
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()


class DescribedConsumer(NamedTuple):
    """A member in the description of its consumer group."""

    member_id: str
    about: MemberValue
    epoch: int
    assigned: frozenset[TopicIdPartition]
    target: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerGroup:
    """A consumer group; one that is not there has GROUP_ID_NOT_FOUND."""

    group_id: str
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    state: str = ""
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()


Result = (
    JoinResult
    | ConsumerGroupHeartbeatResult
    | SyncResult
    | HeartbeatResult
    | LeaveResult
    | OffsetCommitResult
    | OffsetDeleteResult
    | DeleteGroupResult
    | ShareResult
)
"""The possible answers to a ticket: the result type of the request to which the ticket belongs."""
