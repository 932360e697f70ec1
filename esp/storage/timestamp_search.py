"""Answers of ListOffsets that need a look into the log (KIP-79, KIP-734)."""

from typing import Final, NamedTuple

from esp.ports.network import Buffer
from esp.records.batch import TimestampedOffset, find_offset_by_timestamp
from esp.records.batch_header import BatchHeader
from esp.records.compression import TooLargeError
from esp.storage.segment import Segment, find_batch
from esp.storage.segments import Segments
from esp.storage.steps import Reading

OPENED_BYTES_MAX: Final = 16 * 1024 * 1024
"""How much a batch may hold, decompressed, to be opened for its records' timestamps, which holds up the loop. Within a larger one a search
ends at its beginning: whoever reads from there gets nothing less."""


class TimestampAndOffset(NamedTuple):
    """A record's timestamp in milliseconds since the Unix epoch, its offset, and the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


def search_timestamp(
    segments: Segments, timestamp: int, start_offset: int, end_offset: int
) -> Reading[TimestampAndOffset | None]:
    """The first record in ``[start_offset, end_offset)`` with this timestamp or a later one.

    Raises:
        CorruptionError: a segment is broken where it stands.
    """

    def accept(_position: int, header: BatchHeader) -> bool:
        return header.max_timestamp >= timestamp and header.last_offset >= start_offset

    for segment in list(segments):
        if segment.base_offset >= end_offset:
            break
        if segment.max_timestamp < timestamp:
            continue
        segment.suspect()
        indexes = yield from segments.load_indexes(segment)
        position = yield from segment.find_place(indexes, indexes.times.floor(timestamp))
        while True:
            found = yield from find_batch(segment.file, position, segment.size, accept)
            if found is None:
                break
            position, header = found
            if header.base_offset >= end_offset:
                return None
            batch = yield segment.file, position, header.size
            record = _find_in(batch, header, timestamp, start_offset)
            if record is not None:
                if record.offset >= end_offset:
                    return None
                return TimestampAndOffset(record.timestamp, record.offset, header.leader_epoch)
            position += header.size
    return None


def search_max_timestamp(segments: Segments, start_offset: int) -> Reading[TimestampAndOffset | None]:
    """The first record that carries the largest timestamp of the log; None if none has a timestamp.

    Raises:
        CorruptionError: a segment is broken where it stands.
    """
    segment: Segment = max(segments, key=lambda candidate: candidate.max_timestamp)
    if segment.max_timestamp < 0:
        return None
    holder = segment.max_timestamp_offset
    segment.suspect()
    indexes = yield from segments.load_indexes(segment)
    place = yield from segment.find_place(indexes, holder)
    found = yield from find_batch(
        segment.file,
        place,
        segment.size,
        lambda _position, header: header.last_offset >= holder,
    )
    if found is None:
        return None
    position, header = found
    batch = yield segment.file, position, header.size
    record = _find_in(batch, header, header.max_timestamp, start_offset)
    if record is None:
        return None
    return TimestampAndOffset(record.timestamp, record.offset, header.leader_epoch)


def _find_in(batch: Buffer, header: BatchHeader, timestamp: int, start_offset: int) -> TimestampedOffset | None:
    """The first record at or after ``start_offset`` with this timestamp or a later one; the first of all if there is too much to open."""
    try:
        return find_offset_by_timestamp(batch, timestamp, start_offset, OPENED_BYTES_MAX)
    except TooLargeError:
        return TimestampedOffset(header.base_timestamp, max(header.base_offset, start_offset))
