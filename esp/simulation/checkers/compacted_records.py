"""All records of a compacted partition that were ever committed: the model against which compacted replicas are held.

Records of a transaction count from its marker on, or never.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from esp.records.batch import iterate_records
from esp.records.batch_header import BatchHeader, read_header
from esp.records.builder import Record
from esp.records.transaction_marker import Marker, read_marker
from esp.simulation.checkers.replica_view import BatchView
from esp.simulation.excuses import Excuse, note


class _Known(NamedTuple):
    header: BatchHeader
    records: dict[int, Record]


class _Ended(NamedTuple):
    """A transaction that has ended."""

    offsets: frozenset[int]
    """The offsets of its records."""
    ended_s: float


class CompactedRecords:
    """Filled when records are committed, from the bytes that stand there then.

    Args:
        now_s: the simulated time.
        tombstones_stay_s: for how long a tombstone stays at least after its commit, by the clock of any node.
        drift: by how many seconds a second the clocks of two nodes part: one sets the horizon, and another one finds it reached.
        leap_s: by how many seconds the wall clocks of two nodes were apart at most since a time, because some have jumped.
    """

    def __init__(
        self,
        now_s: Callable[[], float],
        tombstones_stay_s: float,
        drift: float = 0.0,
        leap_s: Callable[[float], float] = lambda _since_s: 0.0,
    ) -> None:
        self._now_s = now_s
        self._tombstones_stay_s = tombstones_stay_s
        self._drift = drift
        self._leap_s = leap_s
        self._batches: dict[int, _Known] = {}
        self._records: dict[int, Record] = {}
        self._offsets: list[int] = []
        self._counts_s: dict[int, float] = {}
        """The time from which on a record counts; of the others the transaction has not ended, or was aborted."""
        self._latest: dict[bytes | None, int] = {}
        self._open: dict[int, list[int]] = {}
        """The records of each producer whose transaction has not ended."""
        self._aborted: set[int] = set()
        self._ended: dict[int, _Ended] = {}
        """By the offset of the marker, ascending."""
        self._markers: list[int] = []
        """The same offsets."""
        self._bare_s: dict[int, float] = {}
        """The time from which on some replica had the marker, and no record of its transaction."""
        self._read: dict[tuple[int, int, int], tuple[int, ...]] = {}
        """The offsets of the records of batches that were opened before, by base offset, leader epoch and checksum."""

    def on_commit(self, batch: BatchView) -> None:
        """A batch is committed, with the bytes that its producer sent."""
        data = batch.written()
        header = read_header(data)
        records = {record.offset: record for record in iterate_records(data)}
        self._batches[batch.base_offset] = _Known(header, records)
        if header.is_control:
            self._on_marker(header, read_marker(data))
            return
        self._records.update(records)
        self._offsets += records
        if header.is_transactional:
            self._open.setdefault(header.producer_id, []).extend(records)
        else:
            self._count(records)

    def _on_marker(self, header: BatchHeader, marker: Marker) -> None:
        """A transaction is over: its records count, or never will."""
        ended = self._open.pop(header.producer_id, [])
        self._ended[header.base_offset] = _Ended(frozenset(ended), self._now_s())
        self._markers.append(header.base_offset)
        if marker.is_commit:
            self._count(ended)
        else:
            self._aborted.update(ended)

    def _count(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            key = self._records[offset].key
            self._latest[key] = max(offset, self._latest.get(key, offset))
            self._counts_s[offset] = self._now_s()

    def find_difference(self, data: bytes) -> str | None:
        """The difference between a whole batch and the committed one at its place, as a sentence; None if it has just fewer records."""
        header = read_header(data)
        known = self._batches.get(header.base_offset)
        if known is None:
            return f"no batch that begins at {header.base_offset} was committed"
        if _place(header) != _place(known.header):
            return f"{_place(header)} stands in the header where {_place(known.header)} was written"
        found = list(iterate_records(data)) if header.record_count else []
        offsets = [record.offset for record in found]
        if offsets != sorted(set(offsets)):
            return f"its records have the offsets {offsets}"
        changed = [record.offset for record in found if known.records.get(record.offset) != record]
        return f"the records at {changed} differ from the written ones" if changed else None

    def find_lost(self, start_offset: int, end_offset: int, found: Collection[int]) -> str | None:
        """The first committed record of an interval that should be there, as a sentence.

        A record may be gone if its transaction was aborted, if a later one of its key counts, or if it is a tombstone that has stayed long
        enough.

        Args:
            start_offset: the first offset.
            end_offset: the offset after the last one.
            found: the offsets of the records that are there.
        """
        for offset in _within(self._offsets, start_offset, end_offset):
            if offset in found or offset in self._aborted:
                continue
            record = self._records[offset]
            counts_s = self._counts_s.get(offset)
            if counts_s is None:
                return f"the record of {record.key!r} at {offset} is gone, and its transaction has not ended"
            if self._latest[record.key] > offset or (record.value is None and self._is_old(counts_s)):
                continue
            what = "tombstone" if record.value is None else "record"
            return f"the latest {what} of {record.key!r}, at {offset}, is gone"
        return None

    def _is_old(self, since_s: float) -> bool:
        """True if what has been a tombstone, or a marker without records, since a time may be gone by now."""
        now_s = self._now_s()
        lacking_s = self._tombstones_stay_s - now_s * self._drift - (now_s - since_s)
        if lacking_s <= 0:
            return True
        if self._leap_s(since_s) < lacking_s:
            return False
        note(Excuse.LEAPT_CLOCKS)
        return True

    def note_bare(self, found: Collection[int], markers: Collection[int]) -> None:
        """A replica has these records and these markers: of some transactions the markers alone.

        Args:
            found: the offsets of its records.
            markers: the offsets of its markers.
        """
        for marker in markers:
            ended = self._ended.get(marker)
            if ended is not None and marker not in self._bare_s and ended.offsets.isdisjoint(found):
                self._bare_s[marker] = self._now_s()

    def find_lost_marker(
        self, start_offset: int, end_offset: int, found: Collection[int], markers: Collection[int]
    ) -> str | None:
        """The first marker of an interval that should be there, as a sentence (CLEAN-3).

        A marker goes after all records of its transaction, in a later round, and when its time is over. Where the log start hides a part of
        the transaction, it counts from its end.

        Args:
            start_offset: the first offset.
            end_offset: the offset after the last one.
            found: the offsets of the records that are there.
            markers: the offsets of the markers that are there.
        """
        for marker in _within(self._markers, start_offset, end_offset):
            if marker in markers:
                continue
            offsets, ended_s = self._ended[marker]
            left = [offset for offset in sorted(offsets) if offset >= start_offset and offset in found]
            if left:
                return f"the marker at {marker} is gone, and records of its transaction are at {left}"
            is_hidden = any(offset < start_offset for offset in offsets)
            bare_s = self._bare_s.get(marker, ended_s if is_hidden or not offsets else None)
            if bare_s is None:
                return f"the marker at {marker} is gone in one round with records of its transaction"
            if not self._is_old(bare_s):
                return f"the marker at {marker} is gone too early, {self._now_s() - bare_s:.3f} s after the records"
        return None

    @staticmethod
    def markers_in(batches: Iterable[BatchView]) -> frozenset[int]:
        """The offsets of the markers among batches; the header that is left of one is none."""
        return frozenset(
            batch.base_offset for batch in batches if batch.is_control and read_header(batch.written()).record_count
        )

    def offsets_in(self, batches: Iterable[BatchView]) -> frozenset[int]:
        """The offsets of the records of batches."""
        found: list[int] = []
        for batch in batches:
            offsets = self._read.get((batch.base_offset, batch.leader_epoch, batch.crc))
            if offsets is None:
                data = batch.written()
                is_empty = batch.is_control or not read_header(data).record_count
                offsets = () if is_empty else tuple(record.offset for record in iterate_records(data))
                self._read[batch.base_offset, batch.leader_epoch, batch.crc] = offsets
            found += offsets
        return frozenset(found)

    def find_returned(self, lost: Iterable[int], found: Iterable[int]) -> str | None:
        """A key that is back, as a sentence: its tombstone has gone from a replica since, and an earlier record is there still.

        Args:
            lost: offsets of records that have gone.
            found: the offsets of the records that are left.
        """
        last: dict[bytes | None, int] = {}
        first: dict[bytes | None, int] = {}
        for offset in found:
            if offset in self._counts_s:
                key = self._records[offset].key
                first.setdefault(key, offset)
                last[key] = offset
        for offset in lost:
            record = self._records.get(offset)
            if record is None or record.value is not None or record.key not in last or offset not in self._counts_s:
                continue
            if first[record.key] < offset and last[record.key] < offset:
                return f"{record.key!r} was deleted at {offset}, and is back with {last[record.key]}"
        return None


def _within(offsets: list[int], start_offset: int, end_offset: int) -> list[int]:
    return offsets[bisect_left(offsets, start_offset) : bisect_left(offsets, end_offset)]


def _place(header: BatchHeader) -> tuple[int, int, int, int, int, int]:
    return (
        header.base_offset,
        header.last_offset,
        header.leader_epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    )
