"""The records of consumer groups (KIP-848) in the log of the group coordinator: each says what one key of a group is from now on.

One shape for all versions of a record: fields that an old version lacks have their defaults. The bytes are in
:mod:`esp.schemas.consumer_group_record_codec`.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from esp.model.ids import TopicId

NO_EPOCH: Final = -1
"""The assignment epoch of a partition in a record of a release that did not write it (before KIP-1251)."""

NO_ASSIGNMENT_TIME_MS: Final = 0
"""``TargetEpochValue.timestamp_ms`` of an assignment whose time is not known: the next one may be computed at once."""

NO_METADATA_HASH: Final = 0
"""The hash of a group of which no topic was looked at yet."""


class TopicIdPartition(NamedTuple):
    """A partition by the id of its topic."""

    topic_id: TopicId
    partition: int


class ConsumerGroupRecordType(IntEnum):
    """The first field of a key."""

    GROUP_EPOCH = 3
    PARTITION_METADATA = 4
    """A record of early releases; it is tombstoned only."""
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    REGEX = 16


class ConsumerGroupKey(NamedTuple):
    """The part of a group that a value is of."""

    type: ConsumerGroupRecordType
    group_id: str
    name: str = ""
    """The member's id, or the regular expression; empty where the value is the whole group's."""


class GroupEpochValue(NamedTuple):
    """The group's epoch: it rises when the assignment must be computed anew."""

    epoch: int
    metadata_hash: int = NO_METADATA_HASH
    """The hash of the metadata of the topics to which members are subscribed; only its change counts."""


class ClassicProtocol(NamedTuple):
    """A way to assign partitions that a member of the classic protocol knows."""

    name: str
    metadata: bytes


class ClassicMemberValue(NamedTuple):
    """The part of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]


class MemberValue(NamedTuple):
    """A member as it told of itself."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    topic_regex: str | None
    rebalance_timeout_ms: int
    assignor: str | None
    """The assignor that it wants; None for any."""
    classic: ClassicMemberValue | None = None
    """None for a member that speaks the consumer protocol."""


class TargetEpochValue(NamedTuple):
    """The group epoch for which the target assignment was computed."""

    epoch: int
    timestamp_ms: int = NO_ASSIGNMENT_TIME_MS


class TargetValue(NamedTuple):
    """The partitions that a member is to have."""

    partitions: frozenset[TopicIdPartition]


class MemberState(IntEnum):
    """A member on its way to its target, by Kafka's numbers."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It must give partitions back first; it keeps its epoch."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members have."""


class CurrentValue(NamedTuple):
    """The partitions that a member has, and where it stands."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Mapping[TopicIdPartition, int]
    """Its partitions, each with the member epoch in which it got it (KIP-1251); NO_EPOCH if that was not written."""
    pending_revocation: Mapping[TopicIdPartition, int]
    """The partitions that it must give back, as above."""


class RegexValue(NamedTuple):
    """The topics that a regular expression matches."""

    topics: tuple[str, ...]
    version: int
    """The offset of the metadata with which it was resolved."""
    timestamp_ms: int


Value = GroupEpochValue | MemberValue | TargetEpochValue | TargetValue | CurrentValue | RegexValue


class ConsumerGroupRecord(NamedTuple):
    """A part of a group is this from now on; without a value it is gone."""

    key: ConsumerGroupKey
    value: Value | None
