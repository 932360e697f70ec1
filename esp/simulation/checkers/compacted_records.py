"""All records of a compacted partition that were ever committed: the model against which compacted replicas are held."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from esp.records.batch import iterate_records
from esp.records.batch_header import BatchHeader, read_header
from esp.records.builder import Record
from esp.simulation.checkers.replica_view import BatchView


class _Known(NamedTuple):
    header: BatchHeader
    records: dict[int, Record]


class CompactedRecords:
    """Filled when records are committed, from the bytes that stand there then.

    Args:
        now_s: the simulated time.
        tombstones_stay_s: for how long a tombstone stays at least after its commit, by the clock of any node.
        drift: by how many seconds a second the clocks of two nodes part: one sets the horizon, and another one finds it reached.
    """

    def __init__(self, now_s: Callable[[], float], tombstones_stay_s: float, drift: float = 0.0) -> None:
        self._now_s = now_s
        self._tombstones_stay_s = tombstones_stay_s
        self._drift = drift
        self._batches: dict[int, _Known] = {}
        self._records: dict[int, Record] = {}
        self._offsets: list[int] = []
        self._committed_s: dict[int, float] = {}
        self._latest: dict[bytes | None, int] = {}
        self._read: dict[tuple[int, int, int], tuple[int, ...]] = {}
        """The offsets of the records of batches that were opened before, by base offset, leader epoch and checksum."""

    def on_commit(self, batch: BatchView) -> None:
        """A batch is committed, with the bytes that its producer sent."""
        data = batch.written()
        header = read_header(data)
        records = {} if header.is_control else {record.offset: record for record in iterate_records(data)}
        self._batches[batch.base_offset] = _Known(header, records)
        self._records.update(records)
        self._offsets += records
        for offset, record in records.items():
            self._latest[record.key] = offset
            self._committed_s[offset] = self._now_s()

    def find_difference(self, data: bytes) -> str | None:
        """The difference between a whole batch and the committed one at its place, as a sentence; None if it has just fewer records."""
        header = read_header(data)
        known = self._batches.get(header.base_offset)
        if known is None:
            return f"no batch that begins at {header.base_offset} was committed"
        if _place(header) != _place(known.header):
            return f"{_place(header)} stands in the header where {_place(known.header)} was written"
        if header.is_control:
            return None if header.crc == known.header.crc else "a marker has changed"
        found = list(iterate_records(data)) if header.record_count else []
        offsets = [record.offset for record in found]
        if offsets != sorted(set(offsets)):
            return f"its records have the offsets {offsets}"
        changed = [record.offset for record in found if known.records.get(record.offset) != record]
        return f"the records at {changed} differ from the written ones" if changed else None

    def find_lost(self, start_offset: int, end_offset: int, found: Collection[int]) -> str | None:
        """The first committed record of an interval that should be there, as a sentence.

        A record may be gone if a later one of its key is committed, or if it is a tombstone that has stayed long enough.

        Args:
            start_offset: the first offset.
            end_offset: the offset after the last one.
            found: the offsets of the records that are there.
        """
        now_s = self._now_s()
        gone_s = now_s - max(0.0, self._tombstones_stay_s - now_s * self._drift)
        for offset in self._offsets[bisect_left(self._offsets, start_offset) : bisect_left(self._offsets, end_offset)]:
            record = self._records[offset]
            if offset in found or self._latest[record.key] > offset:
                continue
            if record.value is None and self._committed_s[offset] <= gone_s:
                continue
            what = "tombstone" if record.value is None else "record"
            return f"the latest {what} of {record.key!r}, at {offset}, is gone"
        return None

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
            if offset in self._records:
                key = self._records[offset].key
                first.setdefault(key, offset)
                last[key] = offset
        for offset in lost:
            record = self._records.get(offset)
            if record is None or record.value is not None or record.key not in last:
                continue
            if first[record.key] < offset and last[record.key] < offset:
                return f"{record.key!r} was deleted at {offset}, and is back with {last[record.key]}"
        return None


def _place(header: BatchHeader) -> tuple[int, int, int, int, int, int]:
    return (
        header.base_offset,
        header.last_offset,
        header.leader_epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    )
