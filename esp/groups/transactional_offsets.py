"""Offsets that open transactions have committed: pending until a marker applies them or drops them (TXN-10, KIP-98).

The latest record of a partition's offset wins, wherever the marker of its transaction stands: a compacted log keeps that record alone. So a
pending offset is gone as soon as a later record of the same partition is applied, be that an offset, the tombstone of one, or an offset of
another transaction.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from esp.model.ids import TopicPartition
from esp.schemas.group_records import OffsetCommitValue


class OffsetChange(NamedTuple):
    """The offset of one partition is committed, or with None forgotten."""

    group_id: str
    partition: TopicPartition
    value: OffsetCommitValue | None


_Key = tuple[str, TopicPartition]
_Write = dict[_Key, OffsetChange]


class TransactionalOffsets:
    """Pending offsets by producer id, of which a partition's log has one open transaction at most. Orders rise as records in the log do."""

    def __init__(self) -> None:
        self._writes: dict[int, dict[int, _Write]] = {}
        """By producer id and order."""
        self._counts: dict[str, Counter[TopicPartition]] = {}
        """The number of pending changes by group and partition."""

    def add(self, producer_id: int, order: int, changes: Iterable[OffsetChange]) -> None:
        """Remember changes that stand in one batch of an open transaction."""
        write = {(change.group_id, change.partition): change for change in changes}
        self._writes.setdefault(producer_id, {})[order] = write
        for group_id, partition in write:
            self._counts.setdefault(group_id, Counter())[partition] += 1

    def remove(self, producer_id: int, order: int) -> None:
        """Forget a batch that is not in the log and never will be."""
        writes = self._writes[producer_id]
        self._uncount(writes.pop(order))
        if not writes:
            del self._writes[producer_id]

    def end(self, producer_id: int, end_order: int) -> list[tuple[int, list[OffsetChange]]]:
        """Forget a producer's changes with orders below ``end_order``; return them with their orders, in these orders."""
        ended: list[tuple[int, list[OffsetChange]]] = []
        writes = self._writes.get(producer_id, {})
        for order in [order for order in writes if order < end_order]:
            write = writes.pop(order)
            self._uncount(write)
            ended.append((order, list(write.values())))
        if not writes:
            self._writes.pop(producer_id, None)
        return ended

    def supersede(self, change: OffsetChange, order: int) -> None:
        """A record of this partition's offset, with this order, is applied: earlier pending ones are dropped."""
        if change.partition not in self._counts.get(change.group_id, ()):
            return
        key = (change.group_id, change.partition)
        for writes in self._writes.values():
            for written, write in writes.items():
                if written < order and key in write:
                    self._uncount({key: write.pop(key)})

    def has(self, group_id: str, partition: TopicPartition) -> bool:
        """True if an open transaction has committed an offset of this partition."""
        return partition in self._counts.get(group_id, ())

    def partitions(self, group_id: str) -> Iterator[TopicPartition]:
        """The partitions of a group with pending offsets."""
        return iter(self._counts.get(group_id, ()))

    def groups(self) -> Iterator[str]:
        """All groups with pending offsets."""
        return iter(self._counts)

    def _uncount(self, keys: Iterable[_Key]) -> None:
        for group_id, partition in keys:
            counts = self._counts[group_id]
            counts[partition] -= 1
            if not counts[partition]:
                del counts[partition]
                if not counts:
                    del self._counts[group_id]
