"""A group whose coordinator assigns (KIP-848, KIP-932), as far as that is the same for all protocols: its epochs, targets and topics.

A group is the values of its keys, and comes about by applying records. They may come in any order, and tombstones of things that never
were: a compacted log holds the last record of each key, and they stand where they were written.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Generic, TypeVar

from esp.model.now import Now
from esp.schemas.consumer_group_records import (
    NO_ASSIGNMENT_TIME_MS,
    GroupEpochValue,
    TargetEpochValue,
    TargetValue,
    TopicIdPartition,
)

FIRST_EPOCH: Final = 1
"""The epoch of a group and of its assignment before a record names one."""

_NO_TARGET: Final[frozenset[TopicIdPartition]] = frozenset()

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class AssignedGroup(Generic[_Key, _Value]):
    """The part of a group that all protocols share.

    Args:
        group_id: its name.
        first_epoch: the group epoch before a record names one.
    """

    def __init__(self, group_id: str, first_epoch: int = FIRST_EPOCH) -> None:
        self.group_id: Final = group_id
        self._first_epoch: Final = first_epoch
        self._values: Final[dict[_Key, _Value]] = {}
        self._epoch = GroupEpochValue(first_epoch)
        self._target_epoch = TargetEpochValue(FIRST_EPOCH)
        self._targets: Final[dict[str, frozenset[TopicIdPartition]]] = {}
        self._name_counts: Final[Counter[str]] = Counter()

    @property
    def is_forgotten(self) -> bool:
        """True if no key of it has a value: there is no such group."""
        return not self._values

    @property
    def keys(self) -> Collection[_Key]:
        """The keys that have a value."""
        return tuple(self._values)

    def value_of(self, key: _Key) -> _Value | None:
        """The value of a key; None if it has none."""
        return self._values.get(key)

    @property
    def is_at_target(self) -> bool:
        """True if the target assignment is that of the group epoch."""
        return self._epoch.epoch == self._target_epoch.epoch

    @property
    def epoch(self) -> int:
        """The group epoch."""
        return self._epoch.epoch

    @property
    def metadata_hash(self) -> int:
        """The hash of the topics for which the group epoch stands."""
        return self._epoch.metadata_hash

    @property
    def assignment_epoch(self) -> int:
        """The group epoch for which the target assignment was computed."""
        return self._target_epoch.epoch

    @property
    def assigned_ms(self) -> int:
        """The time at which the target assignment was computed; NO_ASSIGNMENT_TIME_MS if that is not known."""
        return self._target_epoch.timestamp_ms

    def is_assigned_within(self, interval_ms: int, now: Now) -> bool:
        """True if the target assignment is younger than ``interval_ms``; not one of an unknown time, or of a time ahead of the clock."""
        return self.assigned_ms != NO_ASSIGNMENT_TIME_MS and 0 <= now.wall_ms - self.assigned_ms < interval_ms

    def takes_assignment_of(self, epoch: int) -> bool:
        """True if targets that were computed for a group epoch replace the present ones; not those of an epoch that was undone."""
        return self.assignment_epoch < epoch <= self.epoch

    def target_of(self, member_id: str) -> frozenset[TopicIdPartition]:
        """The partitions that a member is to have."""
        return self._targets.get(member_id, _NO_TARGET)

    @property
    def targets(self) -> Mapping[str, frozenset[TopicIdPartition]]:
        """The target assignment, by member id."""
        return self._targets

    # Values.

    def _remember(self, key: _Key, value: _Value | None) -> _Value | None:
        """Let a key have this value, or none; returns the one that it had."""
        before = self._values.get(key)
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value
        return before

    def _set_epoch(self, value: object) -> None:
        self._epoch = value if isinstance(value, GroupEpochValue) else GroupEpochValue(self._first_epoch)

    def _set_target_epoch(self, value: object) -> None:
        self._target_epoch = value if isinstance(value, TargetEpochValue) else TargetEpochValue(FIRST_EPOCH)

    def _set_target(self, member_id: str, value: object) -> None:
        if isinstance(value, TargetValue):
            self._targets[member_id] = value.partitions
        else:
            self._targets.pop(member_id, None)

    def _count_names(self, names: Iterable[str], step: int) -> None:
        """A member more, or less, is subscribed to these topics."""
        for name in names:
            self._name_counts[name] += step
            if not self._name_counts[name]:
                del self._name_counts[name]
