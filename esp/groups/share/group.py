"""A share group (KIP-932): the values of its keys, and what follows from them. It makes no decisions.

Invariants, after each whole operation: no member is beyond the assignment epoch, which is not beyond the group epoch; targets hold
partitions only that were initialised when they were computed.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from esp.groups.assigned_group import FIRST_EPOCH, AssignedGroup
from esp.model.ids import TopicId
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.schemas.share_group_records import (
    ShareCurrentValue,
    ShareGroupKey,
    ShareGroupRecord,
    ShareGroupRecordType,
    ShareMemberValue,
    SharePartitionsValue,
    ShareValue,
)

NOTHING: Final = ShareCurrentValue(0, 0, frozenset())
"""The place of a member that has just joined."""

_Type = ShareGroupRecordType


class ShareGroupState(Enum):
    """The state of a group, which follows from its members; the values are the names that clients see."""

    EMPTY = "Empty"
    """It has no members; what it has done with stays known."""
    STABLE = "Stable"
    """It has members."""


class ShareMember(NamedTuple):
    """A member of a share group."""

    member_id: str
    about: ShareMemberValue
    current: ShareCurrentValue


class ShareGroup(AssignedGroup[ShareGroupKey, ShareValue]):
    """A group, which comes about by :meth:`apply`.

    Args:
        group_id: its name.
        first_epoch: the group epoch before a record names one.
    """

    def __init__(self, group_id: str, first_epoch: int = FIRST_EPOCH) -> None:
        super().__init__(group_id, first_epoch)
        self._about: Final[dict[str, ShareMemberValue]] = {}
        self._current: Final[dict[str, ShareCurrentValue]] = {}
        self._partitions = SharePartitionsValue()
        self._partitions_version = 0

    def apply(self, record: ShareGroupRecord) -> ShareGroupRecord:
        """Let one key have this value, or none; returns the record that undoes it."""
        key, value = record
        before = self._remember(key, value)
        match key.type:
            case _Type.GROUP_EPOCH:
                self._set_epoch(value)
            case _Type.TARGET_EPOCH:
                self._set_target_epoch(value)
            case _Type.TARGET:
                self._set_target(key.name, value)
            case _Type.MEMBER:
                self._set_about(key.name, value if isinstance(value, ShareMemberValue) else None)
            case _Type.CURRENT:
                if isinstance(value, ShareCurrentValue):
                    self._current[key.name] = value
                else:
                    self._current.pop(key.name, None)
            case _Type.PARTITIONS:
                self._partitions = value if isinstance(value, SharePartitionsValue) else SharePartitionsValue()
                self._partitions_version += 1
        return ShareGroupRecord(key, before)

    @property
    def state(self) -> ShareGroupState:
        """The state of the group."""
        return ShareGroupState.STABLE if self._about else ShareGroupState.EMPTY

    # Members.

    def __len__(self) -> int:
        return len(self._about)

    def __iter__(self) -> Iterator[ShareMember]:
        for member_id, about in self._about.items():
            yield ShareMember(member_id, about, self._current.get(member_id, NOTHING))

    def find(self, member_id: str) -> ShareMember | None:
        """The member with this id."""
        about = self._about.get(member_id)
        return None if about is None else ShareMember(member_id, about, self._current.get(member_id, NOTHING))

    @property
    def topic_names(self) -> frozenset[str]:
        """The names of the topics to which any member is subscribed."""
        return frozenset(self._name_counts)

    def _set_about(self, member_id: str, about: ShareMemberValue | None) -> None:
        before = self._about.pop(member_id, None)
        if before is not None:
            self._count_names(before.topic_names, -1)
        if about is not None:
            self._about[member_id] = about
            self._count_names(about.topic_names, 1)

    # Partitions.

    @property
    def partitions(self) -> SharePartitionsValue:
        """The partitions that have a share state, or are about to."""
        return self._partitions

    @property
    def partitions_version(self) -> int:
        """Another number after each change of :attr:`partitions`."""
        return self._partitions_version

    def has_initialised(self, partition: TopicIdPartition) -> bool:
        """True if the partition has a share state."""
        known = self._partitions.initialised.get(partition.topic_id)
        return known is not None and partition.partition in known.partitions

    def is_initialising(self, partition: TopicIdPartition) -> bool:
        """True if the share coordinator is to make a state for the partition."""
        known = self._partitions.initialising.get(partition.topic_id)
        return known is not None and partition.partition in known.partitions

    def knows(self, topic_id: TopicId) -> bool:
        """True if the group has, or is about to have, share states of the topic."""
        return topic_id in self._partitions.initialised or topic_id in self._partitions.initialising
