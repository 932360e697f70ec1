"""Answers of ListOffsets that need a look into the log (KIP-79, KIP-734).

Batches are opened off the loop: their content was never checked, so they may take long to decompress, or hold no records at all.
"""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from esp.model.buffers import Buffer
from esp.model.errors import ApiError, CorruptionError, ErrorCode
from esp.ports.cpu import Cpu
from esp.records.batch import check_batch, find_offset_by_timestamp
from esp.records.batch_header import BatchHeader, read_header
from esp.records.compression import Allocate, TooLargeError
from esp.storage.segment import Segment, find_batch
from esp.storage.segments import Segments
from esp.storage.steps import Reading, read

OPENED_BYTES_MAX: Final = 16 * 1024 * 1024
"""The most bytes of a batch, decompressed, that is opened for its records' timestamps. Within a larger one a search ends at its beginning:
a client that reads from there gets all the records that it asked for, and some before."""


class TimestampAndOffset(NamedTuple):
    """A record's timestamp in milliseconds since the Unix epoch, its offset, and the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


Prove = Callable[[Segment], Awaitable[None]]
"""Reads a segment whose time index does not match its batches, and corrects what is in memory."""


async def search_timestamp(
    cpu: Cpu, segments: Segments, timestamp: int, start_offset: int, end_offset: int, prove: Prove
) -> TimestampAndOffset | None:
    """The first record in ``[start_offset, end_offset)`` with this timestamp or a later one.

    The word of a time index file is held against the batch that it names before the search relies on it (REC-4).

    Raises:
        CorruptionError: a segment is broken where it stands.
        ApiError: CORRUPT_MESSAGE, a batch holds no records.
    """

    def accept(_position: int, header: BatchHeader) -> bool:
        return header.max_timestamp >= timestamp and header.last_offset >= start_offset

    for segment in list(segments):
        if segment.base_offset >= end_offset:
            break
        if segment.max_timestamp < timestamp:
            await _check_time(cpu, segments, segment, prove)
            if segment.max_timestamp < timestamp:
                continue
        segment.suspect()
        position = await read(_find_start(segments, segment, timestamp))
        if position is None:
            await prove(segment)
            indexes = await read(segments.load_indexes(segment))
            position = await read(segment.find_place(indexes, indexes.times.floor(timestamp)))
        while True:
            found = await read(find_batch(segment.file, position, segment.size, accept))
            if found is None:
                break
            position, header = found
            if header.base_offset >= end_offset:
                return None
            record = await _find_in(cpu, segment, position, header, timestamp, start_offset)
            if record is not None:
                return record if record.offset < end_offset else None
            position += header.size
    return None


async def search_max_timestamp(
    cpu: Cpu, segments: Segments, start_offset: int, prove: Prove
) -> TimestampAndOffset | None:
    """The first record that carries the largest timestamp of the log; None if none has a timestamp.

    The word of every time index file is held against the batch that it names, once (REC-4).

    Raises:
        CorruptionError, ApiError: as :func:`search_timestamp`.
    """
    for each in list(segments):
        await _check_time(cpu, segments, each, prove)
    segment: Segment = max(segments, key=lambda candidate: candidate.max_timestamp)
    if segment.max_timestamp < 0:
        return None
    holder = segment.max_timestamp_offset
    segment.suspect()
    indexes = await read(segments.load_indexes(segment))
    place = await read(segment.find_place(indexes, holder))
    found = await read(
        find_batch(segment.file, place, segment.size, lambda _position, header: header.last_offset >= holder)
    )
    if found is None:
        return None
    position, header = found
    return await _find_in(cpu, segment, position, header, header.max_timestamp, start_offset)


async def _check_time(cpu: Cpu, segments: Segments, segment: Segment, prove: Prove) -> None:
    """Make sure of the largest timestamp of a segment, which rests on its time index file; done once in the life of the segment."""
    if segment.unchecked_time is None:
        return
    segment.suspect()
    if not await read(segments.check_time(segment)):
        await prove(segment)
    await cpu.run(_give_way)


def _give_way() -> None:
    """Nothing: the loop has its turn meanwhile, also if thousands of segments are checked from the page cache."""


def _find_start(segments: Segments, segment: Segment, timestamp: int) -> Reading[int | None]:
    """The position of a batch before which every record is older than ``timestamp``; None if the entry that says so is wrong."""
    indexes = yield from segments.load_indexes(segment)
    entry = indexes.times.floor_entry(timestamp)
    if entry is None:
        return (yield from segment.find_place(indexes, segment.base_offset))
    position = yield from segment.find_place(indexes, entry[1])
    if indexes.is_from_file and not (yield from segment.is_right_entry(position, *entry)):
        return None
    return position


async def _find_in(
    cpu: Cpu, segment: Segment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> TimestampAndOffset | None:
    batch = await read(_whole_batch(segment, position, header))
    return await cpu.run(_open, batch, timestamp, start_offset, cpu.allocate)


def _whole_batch(segment: Segment, position: int, header: BatchHeader) -> Reading[Buffer]:
    return (yield segment.file, position, header.size)


def _open(batch: Buffer, timestamp: int, start_offset: int, allocate: Allocate) -> TimestampAndOffset | None:
    """The first record at or after ``start_offset`` with this timestamp or a later one; the first of all if there is too much to open.

    Raises:
        CorruptionError: the batch is damaged.
        ApiError: CORRUPT_MESSAGE; it is sound, but its producer wrote no valid records. The log has not rotted for that.
    """
    header = read_header(batch)
    check_batch(batch, header)
    try:
        found = find_offset_by_timestamp(batch, timestamp, start_offset, OPENED_BYTES_MAX, allocate)
    except TooLargeError:
        return TimestampAndOffset(header.base_timestamp, max(header.base_offset, start_offset), header.leader_epoch)
    except CorruptionError as error:
        raise ApiError(ErrorCode.corrupt_message, str(error)) from error
    return None if found is None else TimestampAndOffset(*found, header.leader_epoch)
