"""Answers of ListOffsets that need a look into the log (KIP-79, KIP-734).

Batches are opened off the loop: their content was never checked, so they may take long to decompress, or hold no records at all.

A search passes a batch for what its header says, and a header may have rotted. So each batch that is passed has a proof (REC-4,
[decision 47](../../docs/decisions/0047-searches-prove-what-they-pass.md)): an entry of the time index, which is another copy of the largest
timestamp of all batches up to its own, or the batch's checksum. Entries stand ``index.interval.bytes`` apart where timestamps rise, so that
a search reads that many bytes more than the headers.
"""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from esp.model.buffers import Buffer
from esp.model.errors import ApiError, CorruptionError, ErrorCode
from esp.ports.cpu import Cpu
from esp.records.batch import check_batch, find_offset_by_timestamp
from esp.records.batch_header import HEADER_SIZE, MAGIC, BatchHeader, read_header
from esp.records.compression import Allocate, TooLargeError
from esp.storage.segment import Segment
from esp.storage.segments import Segments
from esp.storage.steps import Reading, read

OPENED_BYTES_MAX: Final = 16 * 1024 * 1024
"""The most bytes of a batch, decompressed, that is opened for its records' timestamps. Within a larger one a search ends at its beginning:
a client that reads from there gets all the records that it asked for, and some before."""
_WALK_BYTES: Final = 8192
"""Read at first: more than stands between two index entries, as long as batches are smaller than that."""
_ON_LOOP_BYTES: Final = 16 * 1024
"""Checked on the loop: some microseconds. More than that is checked in a thread."""
_STEP_BYTES: Final = 1024 * 1024
"""Read and checked at a time where no index entry is near: a millisecond of a thread."""


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

    An entry of a time index file is compared with the batch that it names before the search relies on it (REC-4).

    Raises:
        CorruptionError: a segment is broken where it stands, or a batch has rotted before the one that would be found.
        ApiError: CORRUPT_MESSAGE, a batch holds no records.
    """

    for segment in list(segments):
        if segment.base_offset >= end_offset:
            break
        if segment.is_older_than(timestamp):
            await _check_time(cpu, segments, segment, prove)
            if segment.is_older_than(timestamp):
                continue
        segment.suspect()
        start = await read(_find_start(segments, segment, timestamp))
        if start is None:
            await prove(segment)
            start = await read(_find_start(segments, segment, timestamp))
        position, proven_end = start or (0, segment.base_offset)
        wanted = _Wanted(timestamp, start_offset, end_offset, proven_end)
        while True:
            found = await _find_candidate(cpu, segment, position, wanted)
            if found is None:
                break
            position, header = found
            if header.base_offset >= end_offset:
                return None
            record = await _find_in(cpu, segment, position, header, timestamp, start_offset)
            if record is not None:
                return record if record.offset < end_offset else None
            position += header.size
        segment.require_known_times()
    return None


async def search_max_timestamp(
    cpu: Cpu, segments: Segments, start_offset: int, prove: Prove
) -> TimestampAndOffset | None:
    """The first record that carries the largest timestamp of the log; None if none has a timestamp.

    What every time index file says is compared with the batch that it names, once (REC-4).

    Raises:
        CorruptionError, ApiError: as :func:`search_timestamp`.
    """
    for each in list(segments):
        await _check_time(cpu, segments, each, prove)
        each.require_known_times()
    segment: Segment = max(segments, key=lambda candidate: candidate.max_timestamp)
    timestamp, holder = segment.max_timestamp, segment.max_timestamp_offset
    if timestamp < 0:
        return None
    segment.suspect()
    indexes = await read(segments.load_indexes(segment))
    place = await read(segment.find_place(indexes, holder))
    position = await read(segment.find_entry(place, timestamp, holder))
    if position is None:  # the header has rotted: a proof finds that, unless the log is cut meanwhile
        await prove(segment)
        raise CorruptionError(f"{segment.file.path} holds no batch with the timestamp {timestamp} at offset {holder}")
    header = read_header(await read(_bytes_at(segment, position, HEADER_SIZE)))
    return await _find_in(cpu, segment, position, header, timestamp, start_offset)


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


def _find_start(segments: Segments, segment: Segment, timestamp: int) -> Reading[tuple[int, int] | None]:
    """The position of a batch to begin at, and the offset after the last batch that is known to be older than ``timestamp``.

    None if the index entry that says so is wrong, or nothing vouches for it. In a segment of which not all times are known a search begins
    at the first batch.
    """
    if segment.time_rot is not None:
        return 0, segment.base_offset
    indexes = yield from segments.load_indexes(segment)
    if indexes.is_unproven:
        return None
    entry = indexes.times.floor_entry(timestamp)
    if entry is None:
        return 0, segment.base_offset
    place = yield from segment.find_place(indexes, entry[1])
    if not indexes.is_from_file:
        return place, entry[1] + 1
    position = yield from segment.find_entry(place, *entry)
    return None if position is None else (position, entry[1] + 1)


class _Wanted(NamedTuple):
    """The batch that a search looks for, and what it may pass unchecked."""

    timestamp: int
    """The batch has this one or a later one."""
    start_offset: int
    """The batch ends at or after it."""
    end_offset: int
    """The search ends at a batch that begins there."""
    proven_end: int
    """Batches that end before this offset are older: their checksums are not looked at."""


class _Scanned(NamedTuple):
    """The result of one look at some batches."""

    position: int
    """The place of the batch that was found, or of the next one to look at."""
    header: BatchHeader | None
    """The header of the batch that was found."""
    needed: int
    """Bytes without which the next batch cannot be passed; 0 if any number will do."""


async def _find_candidate(cpu: Cpu, segment: Segment, position: int, wanted: _Wanted) -> tuple[int, BatchHeader] | None:
    """Position and header of the first batch from ``position`` on that may hold the record, or begins at the end of the search.

    Every batch before it is proven not to; long stretches are read off the loop.

    Raises:
        CorruptionError: a batch does not match its checksum, or the bytes there are no batch.
    """
    size = _WALK_BYTES
    while position < segment.size:
        end = segment.size
        chunk = await read(_bytes_at(segment, position, min(size, end - position)))
        if size <= _ON_LOOP_BYTES:
            scanned = _scan(segment.file.path, chunk, position, end, wanted)
        else:
            scanned = await cpu.run(_scan, segment.file.path, chunk, position, end, wanted)
        if scanned.header is not None:
            return scanned.position, scanned.header
        if scanned.position == position and scanned.needed <= len(chunk):
            raise CorruptionError(f"{segment.file.path} ends in the middle of the batch at {position}")
        position = scanned.position
        size = max(min(2 * size, _STEP_BYTES), scanned.needed)
    return None


def _scan(path: str, chunk: Buffer, start: int, end: int, wanted: _Wanted) -> _Scanned:
    """Look at the batches of ``chunk``, which begins with one at position ``start`` of a segment that ends at ``end``.

    Raises:
        CorruptionError: see :func:`_find_candidate`.
    """
    view = memoryview(chunk)
    timestamp, start_offset, end_offset, proven_end = wanted
    index = 0
    while index + HEADER_SIZE <= len(view):
        header = read_header(view, index)
        size = header.size
        position = start + index
        if size < HEADER_SIZE or header.magic != MAGIC or position + size > end or header.last_offset_delta < 0:
            raise CorruptionError(f"{path} holds no batch at {position}")
        last_offset = header.last_offset
        if (header.max_timestamp >= timestamp and last_offset >= start_offset) or header.base_offset >= end_offset:
            return _Scanned(position, header, 0)
        if last_offset >= proven_end:
            if index + size > len(view):
                return _Scanned(position, None, size)
            _check_passed(path, view[index : index + size], position, header)
        index += size
    return _Scanned(start + index, None, 0)


def _check_passed(path: str, batch: Buffer, position: int, header: BatchHeader) -> None:
    """Make sure of a header for which a batch is passed; raise CorruptionError."""
    try:
        check_batch(batch, header)
    except CorruptionError as error:
        raise CorruptionError(f"{path} is corrupt at {position}: {error}") from error


async def _find_in(
    cpu: Cpu, segment: Segment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> TimestampAndOffset | None:
    batch = await read(_bytes_at(segment, position, header.size))
    return await cpu.run(_open, batch, timestamp, start_offset, cpu.allocate)


def _bytes_at(segment: Segment, position: int, size: int) -> Reading[Buffer]:
    return (yield segment.file, position, size)


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
