"""Committed offsets of all groups, and changes of them that are not committed yet.

Clients see committed offsets (:meth:`OffsetStore.committed`); the next change rests on the newest state (:meth:`OffsetStore.newest`).
Offsets of open transactions are neither, until their transaction commits (:class:`TransactionalOffsets`).
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from esp.groups.transactional_offsets import OffsetChange, TransactionalOffsets
from esp.model.ids import TopicPartition
from esp.schemas.group_records import OffsetCommitValue

_NONE: Final[Mapping[TopicPartition, OffsetCommitValue]] = MappingProxyType({})


class OffsetStore:
    """Offsets by group and partition. Changes end in the order in which they begin, except changes that fail."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[TopicPartition, OffsetCommitValue]] = {}
        self._pending: dict[int, tuple[OffsetChange, ...]] = {}
        self._last_pending = 0
        self._pending_of: dict[str, dict[int, list[OffsetChange]]] = {}
        """The same by group: a look at one group must not take longer because others have much on its way."""
        self.transactional = TransactionalOffsets()
        """The offsets of open transactions."""

    def committed(self, group_id: str) -> Mapping[TopicPartition, OffsetCommitValue]:
        """The group's committed offsets, in the order in which partitions were first committed."""
        return self._committed.get(group_id, _NONE)

    def newest(self, group_id: str) -> Mapping[TopicPartition, OffsetCommitValue]:
        """The group's offsets as they will be once all changes are committed."""
        committed = self.committed(group_id)
        pending = self._pending_of.get(group_id)
        if pending is None:
            return committed
        newest = dict(committed)
        for changes in pending.values():
            for change in changes:
                _change(newest, change)
        return newest

    def committed_groups(self) -> list[str]:
        """All groups with committed offsets."""
        return list(self._committed)

    def newest_groups(self) -> list[str]:
        """All groups with offsets, committed or not."""
        return list(dict.fromkeys([*self._committed, *self._pending_of]))

    def pending(self) -> Iterator[OffsetChange]:
        """The changes that are on their way into the log, outside of transactions."""
        for changes in self._pending.values():
            yield from changes

    def apply(self, changes: Iterable[OffsetChange], order: int = 0) -> None:
        """These changes are committed: later ones win.

        Args:
            changes: in the order of their records.
            order: of their batch among those of this process; 0 while the log is loaded.
        """
        for change in changes:
            self.transactional.supersede(change, order)
            offsets = self._committed.setdefault(change.group_id, {})
            _change(offsets, change)
            if not offsets:
                del self._committed[change.group_id]

    def begin(self, changes: tuple[OffsetChange, ...]) -> int:
        """These changes are on their way into the log; returns the key for :meth:`end`."""
        self._last_pending += 1
        self._pending[self._last_pending] = changes
        for change in changes:
            self._pending_of.setdefault(change.group_id, {}).setdefault(self._last_pending, []).append(change)
        return self._last_pending

    def end(self, pending: int, *, is_committed: bool) -> None:
        """The changes of :meth:`begin` are committed, or will never be."""
        changes = self._pending.pop(pending)
        for group_id in dict.fromkeys(change.group_id for change in changes):
            pending_of = self._pending_of[group_id]
            del pending_of[pending]
            if not pending_of:
                del self._pending_of[group_id]
        if is_committed:
            self.apply(changes, pending)

    def begin_transactional(self, producer_id: int, changes: tuple[OffsetChange, ...]) -> int:
        """These changes of an open transaction are in the log, or on their way; returns the key for :meth:`fail_transactional`."""
        self._last_pending += 1
        self.transactional.add(producer_id, self._last_pending, changes)
        return self._last_pending

    def fail_transactional(self, producer_id: int, pending: int) -> None:
        """The changes of :meth:`begin_transactional` will never be in the log."""
        self.transactional.remove(producer_id, pending)

    def begin_end(self) -> int:
        """A marker is in the log, not committed yet, and ends what stands before it; returns the key for :meth:`end_transaction`."""
        self._last_pending += 1
        return self._last_pending

    def end_transaction(self, producer_id: int, pending: int, *, is_commit: bool) -> list[str]:
        """A marker of this producer is committed: apply its pending changes, or drop them; returns the groups that have changed."""
        changed: dict[str, None] = {}
        for order, changes in self.transactional.end(producer_id, pending):
            if is_commit:
                self.apply(changes, order)
                changed.update((change.group_id, None) for change in changes)
        return list(changed)


def _change(offsets: dict[TopicPartition, OffsetCommitValue], change: OffsetChange) -> None:
    if change.value is None:
        offsets.pop(change.partition, None)
    else:
        offsets[change.partition] = change.value
