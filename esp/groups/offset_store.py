"""Committed offsets of all groups, and changes of them that are not committed yet.

Clients see committed offsets (:meth:`OffsetStore.committed`); the next change rests on the newest state (:meth:`OffsetStore.newest`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from esp.model.ids import TopicPartition
from esp.schemas.group_records import OffsetCommitValue

_NONE: Final[Mapping[TopicPartition, OffsetCommitValue]] = MappingProxyType({})


class OffsetChange(NamedTuple):
    """The offset of one partition is committed, or with None forgotten."""

    group_id: str
    partition: TopicPartition
    value: OffsetCommitValue | None


class OffsetStore:
    """Offsets by group and partition. Changes end in the order in which they begin, except changes that fail."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[TopicPartition, OffsetCommitValue]] = {}
        self._pending: dict[int, tuple[OffsetChange, ...]] = {}
        self._last_pending = 0
        self._pending_counts: Counter[str] = Counter()

    def committed(self, group_id: str) -> Mapping[TopicPartition, OffsetCommitValue]:
        """The group's committed offsets, in the order in which partitions were first committed."""
        return self._committed.get(group_id, _NONE)

    def newest(self, group_id: str) -> Mapping[TopicPartition, OffsetCommitValue]:
        """The group's offsets as they will be once all changes are committed."""
        committed = self.committed(group_id)
        if not self._pending_counts[group_id]:
            return committed
        changes = [change for pending in self._pending.values() for change in pending if change.group_id == group_id]
        newest = dict(committed)
        for change in changes:
            _change(newest, change)
        return newest

    def committed_groups(self) -> list[str]:
        """All groups with committed offsets."""
        return list(self._committed)

    def newest_groups(self) -> list[str]:
        """All groups with offsets, committed or not."""
        return list(dict.fromkeys([*self._committed, *self._pending_counts]))

    def apply(self, changes: Iterable[OffsetChange]) -> None:
        """These changes are committed: later ones win."""
        for change in changes:
            offsets = self._committed.setdefault(change.group_id, {})
            _change(offsets, change)
            if not offsets:
                del self._committed[change.group_id]

    def begin(self, changes: tuple[OffsetChange, ...]) -> int:
        """These changes are on their way into the log; returns the key for :meth:`end`."""
        self._last_pending += 1
        self._pending[self._last_pending] = changes
        for change in changes:
            self._pending_counts[change.group_id] += 1
        return self._last_pending

    def end(self, pending: int, *, is_committed: bool) -> None:
        """The changes of :meth:`begin` are committed, or will never be."""
        changes = self._pending.pop(pending)
        for change in changes:
            self._pending_counts[change.group_id] -= 1
            if not self._pending_counts[change.group_id]:
                del self._pending_counts[change.group_id]
        if is_committed:
            self.apply(changes)


def _change(offsets: dict[TopicPartition, OffsetCommitValue], change: OffsetChange) -> None:
    if change.value is None:
        offsets.pop(change.partition, None)
    else:
        offsets[change.partition] = change.value
