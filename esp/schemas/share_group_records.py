"""The records of share groups (KIP-932) in the log of the group coordinator: each says what one key of a group is from now on.

The bytes are in :mod:`esp.schemas.share_group_record_codec`.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from esp.model.ids import TopicId
from esp.schemas.consumer_group_records import GroupEpochValue, TargetEpochValue, TargetValue, TopicIdPartition


class ShareGroupRecordType(IntEnum):
    """The first field of a key."""

    MEMBER = 10
    GROUP_EPOCH = 11
    TARGET_EPOCH = 12
    TARGET = 13
    CURRENT = 14
    PARTITIONS = 15
    """Kafka's ``ShareGroupStatePartitionMetadata``."""


class ShareGroupKey(NamedTuple):
    """The part of a group that a value is of."""

    type: ShareGroupRecordType
    group_id: str
    name: str = ""
    """The member's id; empty where the value is the whole group's."""


class ShareMemberValue(NamedTuple):
    """A member as it told of itself."""

    rack_id: str | None
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]


class ShareCurrentValue(NamedTuple):
    """The partitions of a member, and where it stands. Its bytes hold a state as well, which is always 0."""

    epoch: int
    previous_epoch: int
    assigned: frozenset[TopicIdPartition]


class KnownPartitions(NamedTuple):
    """The partitions of one topic that a group has initialised, or is about to."""

    topic_name: str
    partitions: frozenset[int]
    from_start: frozenset[int] = frozenset()
    """The partitions, of those that are about to be initialised, that begin at offset 0, as they were added to a topic that the group knew.
    In a tagged field of our own, which Kafka skips."""


_NO_PARTITIONS: Final[Mapping[TopicId, KnownPartitions]] = MappingProxyType({})
_NO_TOPICS: Final[Mapping[TopicId, str]] = MappingProxyType({})


class SharePartitionsValue(NamedTuple):
    """The partitions of which there is a share state, by topic id."""

    initialising: Mapping[TopicId, KnownPartitions] = _NO_PARTITIONS
    """The share coordinator is to make their state, or was asked to; it may have."""
    initialised: Mapping[TopicId, KnownPartitions] = _NO_PARTITIONS
    """They have a state, and may be assigned."""
    deleting: Mapping[TopicId, str] = _NO_TOPICS
    """The names of topics whose states are being deleted."""


ShareValue = (
    GroupEpochValue | ShareMemberValue | TargetEpochValue | TargetValue | ShareCurrentValue | SharePartitionsValue
)


class ShareGroupRecord(NamedTuple):
    """A part of a group is this from now on; without a value it is gone."""

    key: ShareGroupKey
    value: ShareValue | None
