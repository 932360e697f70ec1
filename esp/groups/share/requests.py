"""The requests of share groups to a coordinator, and their answers, free of the wire's versions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.schemas.share_group_records import ShareMemberValue
from esp.schemas.share_state_records import NO_COMPLETE_COUNT, NO_START_OFFSET

JOIN_EPOCH: Final = 0
"""The member epoch of a client that joins."""

LEAVE_EPOCH: Final = -1
"""The member epoch of a member that leaves."""

MEMBER_ID_MAX: Final = 36
"""Characters of a member's id. No share partition gives records to a member with a longer one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupHeartbeat:
    """A member of a share group is alive, or joins, or leaves. What is None it has told before."""

    group_id: str
    member_id: str
    """Made by the client."""
    member_epoch: int
    rack_id: str | None = None
    topic_names: tuple[str, ...] | None = None
    client_id: str = ""
    client_host: str = ""


class ShareGroupHeartbeatResult(NamedTuple):
    """The place of a member in its share group, or why it has none."""

    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: frozenset[TopicIdPartition] | None = None
    """The partitions that it is to read; None if it knows them."""


class DescribedShareMember(NamedTuple):
    """A member in the description of its share group."""

    member_id: str
    about: ShareMemberValue
    epoch: int
    assigned: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedShareGroup:
    """A share group; one that is not there has GROUP_ID_NOT_FOUND."""

    group_id: str
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    state: str = ""
    epoch: int = 0
    assignment_epoch: int = 0
    members: tuple[DescribedShareMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsets:
    """The start offsets of a share group are asked for."""

    group_id: str
    partitions: tuple[TopicPartition, ...] | None
    """None for all that the group has initialised."""


class DescribedShareOffset(NamedTuple):
    """The start offset of one partition; NO_START_OFFSET if the group has none there."""

    partition: TopicPartition
    start_offset: int = NO_START_OFFSET
    leader_epoch: int = 0
    complete_count: int = NO_COMPLETE_COUNT
    """The number of records at or above it that are done with, for the lag."""
    error: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsResult:
    """The start offsets, in the order of the request, or of all partitions in order."""

    error: ErrorCode = ErrorCode.none
    offsets: tuple[DescribedShareOffset, ...] = ()


class AlteredOffset(NamedTuple):
    """The offset at which a share group is to begin a partition."""

    partition: TopicPartition
    start_offset: int
    """NO_START_OFFSET to begin by ``share.auto.offset.reset``."""
    end_offset: int | None = None
    """The end of the partition's log, as its leader told it; None if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareGroupOffsets:
    """A share group without members is to begin elsewhere."""

    group_id: str
    offsets: tuple[AlteredOffset, ...]


class SharePartitionError(NamedTuple):
    """The result for one partition of a request."""

    partition: TopicPartition
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareGroupOffsetsResult:
    """The result for each partition, in the order of the request; with an error of the whole request there are none."""

    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    partitions: tuple[SharePartitionError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupOffsets:
    """A share group without members is to forget topics."""

    group_id: str
    topics: tuple[str, ...]


class ShareTopicError(NamedTuple):
    """The result for one topic of a request."""

    topic: str
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupOffsetsResult:
    """The result for each topic, in the order of the request; with an error of the whole request there are none."""

    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    topics: tuple[ShareTopicError, ...] = ()


ShareResult = (
    ShareGroupHeartbeatResult
    | DescribeShareGroupOffsetsResult
    | AlterShareGroupOffsetsResult
    | DeleteShareGroupOffsetsResult
)
"""The possible answers to a ticket."""


class ShareStateResult(NamedTuple):
    """The share coordinator's answer for one partition."""

    error: ErrorCode = ErrorCode.none
    start_offset: int = NO_START_OFFSET
    leader_epoch: int = 0
    complete_count: int = NO_COMPLETE_COUNT


ShareStateResults = Mapping[TopicIdPartition, ShareStateResult]
"""The share coordinators' answers; a partition that is not there was not answered for."""
