"""Reads through segments at start and after truncations: finds where a segment ends, and makes its indexes complete (REC-3, REC-4)."""

import logging
import struct
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from crc32c import crc32c

from esp.model.errors import CorruptionError
from esp.ports.disk import Disk, File
from esp.records.batch_header import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE,
    MAGIC,
    SIZE_BEFORE_LENGTH_ENDS,
    BatchHeader,
    read_header,
)
from esp.settings.setting import LONG_MAX
from esp.storage.layout import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from esp.storage.leader_epochs import LeaderEpochs
from esp.storage.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from esp.storage.offset_index import OffsetIndex
from esp.storage.segment import Segment, UncheckedTime, noted_timestamp
from esp.storage.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from esp.storage.time_index import TimeIndex, decode_entry

_logger = logging.getLogger(__name__)

_CHUNK_BYTES: Final = 8 * 1024 * 1024
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")


class IndexTrust(Enum):
    """The entries of a segment's index files that are trusted."""

    NOTHING = "nothing"
    FLUSHED = "flushed"
    """Entries of flushed batches; the ends of the files may be missing."""
    EVERYTHING = "everything"
    """The files were completed in a clean shutdown: no batch before the last entry needs a look."""


class SegmentEnd(NamedTuple):
    """The end of a segment's whole batches: the offset after the last, the last leader epoch that was read (-1: none), and the reason why
    the bytes behind them, if there are any, are no batch.
    """

    next_offset: int
    leader_epoch: int
    reason: str | None


NoteRot = Callable[[CorruptionError], None]


def iterate_headers_blocking(
    file: File,
    position: int,
    end: int,
    verify_from: int = LONG_MAX,
    note_rot: NoteRot | None = None,
    note_flushed_rot: NoteRot | None = None,
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each batch in ``[position, end)``; checksums are verified from offset ``verify_from`` on.

    Args:
        file: the segment's file.
        position: the position at which a batch begins.
        end: the position at which the last one ends.
        verify_from: an offset.
        note_rot: told of batches that do not match their checksums, which are passed over then; None: they are an error.
        note_flushed_rot: told of batches before ``verify_from`` that do not match their checksums, which are yielded all the same; None:
            their checksums are not looked at.

    Raises:
        CorruptionError: the next bytes are no whole batch that follows the previous ones.
    """
    next_offset = 0
    chunk = memoryview(b"")
    start = position
    unpack = _HEADER.unpack_from
    while position < end:
        index = position - start
        if index + HEADER_SIZE > len(chunk):
            chunk = memoryview(file.read_blocking(position, min(_CHUNK_BYTES, end - position)))
            start, index = position, 0
            if len(chunk) < HEADER_SIZE:
                raise CorruptionError(f"{len(chunk)} bytes are less than a batch header")
        header = BatchHeader._make(unpack(chunk, index))
        base_offset = header[0]
        size = header[1] + SIZE_BEFORE_LENGTH_ENDS
        if size < HEADER_SIZE or position + size > end:
            raise CorruptionError(f"a batch of {size} bytes where {end - position} are left")
        if header[3] != MAGIC:
            raise CorruptionError(f"a batch of format {header[3]}")
        if base_offset < next_offset or header[6] < 0:
            raise CorruptionError(
                f"a batch of offsets {base_offset} to {base_offset + header[6]} where {next_offset} comes next"
            )
        is_verified = base_offset >= verify_from
        if is_verified or note_flushed_rot is not None:
            if index + size > len(chunk):
                chunk = memoryview(file.read_blocking(position, max(_CHUNK_BYTES, size)))
                start, index = position, 0
            if crc32c(chunk[index + ATTRIBUTES_OFFSET : index + size]) != header[4]:
                error = CorruptionError(
                    f"{file.path} is corrupt at {position}: a batch that does not match its checksum"
                )
                if is_verified:
                    if note_rot is None:
                        raise CorruptionError("a batch that does not match its checksum")
                    note_rot(error)
                    next_offset = base_offset + 1
                    position += size
                    continue
                if note_flushed_rot is not None:
                    note_flushed_rot(error)
        next_offset = base_offset + header[6] + 1
        yield position, header
        position += size


def iterate_known_headers_blocking(
    file: File, position: int, end: int, note_rot: NoteRot | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """Positions and headers of the batches in ``[position, end)``, where batches are known to stand.

    With ``note_rot`` their checksums are verified: see :func:`iterate_headers_blocking`.

    Raises:
        CorruptionError: they do not.
    """
    try:
        yield from iterate_headers_blocking(file, position, end, LONG_MAX if note_rot is None else 0, note_rot)
    except CorruptionError as error:
        raise CorruptionError(f"{file.path} is broken: {error}") from error


def check_batch_blocking(file: File, position: int) -> None:
    """Hold the batch at ``position`` against its checksum.

    Raises:
        CorruptionError: it is not what was written.
    """
    header = read_header(file.read_blocking(position, HEADER_SIZE))
    batch = memoryview(file.read_blocking(position, header.size))
    if crc32c(batch[ATTRIBUTES_OFFSET:]) != header.crc:
        raise CorruptionError(f"{file.path} is corrupt at {position}: a batch that does not match its checksum")


def restore_segment_blocking(
    segment: Segment,
    disk: Disk,
    *,
    trusted_end: int,
    trust: IndexTrust,
    next_offset: int,
    epochs: LeaderEpochs | None = None,
) -> SegmentEnd:
    """Bring a segment's size, timestamps and indexes into memory, as they were when its last whole batch was appended.

    Afterwards ``segment.size`` is where that batch ends; the file may be longer, which the caller cuts.

    Args:
        segment: as it was made from its name; its file is there.
        disk: where it lives.
        trusted_end: batches below this offset were flushed: one that does not match its checksum is noted (``segment.time_rot``), and no
            error, unless it is the last one.
        trust: the trusted entries of the index files.
        next_offset: no batch has a smaller offset.
        epochs: gets the epochs of batches that it does not know yet (LOG-10).

    Raises:
        CorruptionError: a batch below ``trusted_end`` is broken or missing.
    """
    segment.start_over()

    def note_flushed_rot(error: CorruptionError) -> None:
        segment.time_rot = segment.time_rot or error

    leader_epoch = -1
    file = segment.file
    file_size = file.size()
    start = 0 if trust is IndexTrust.NOTHING else _resume(segment, disk, file_size, trusted_end, trust)
    reason = None
    note = segment.note
    try:
        headers = iterate_headers_blocking(file, start, file_size, trusted_end, note_flushed_rot=note_flushed_rot)
        for position, header in headers:
            epoch = header[2]
            if header[0] < next_offset or header[0] + header[6] > segment.last_offset_max:
                raise CorruptionError(f"offset {header[0]} where {next_offset} comes next")
            if epoch != leader_epoch:
                if epoch < leader_epoch:
                    raise CorruptionError(f"leader epoch {epoch} after {leader_epoch}")
                if epochs is not None and (epochs.latest is None or epoch > epochs.latest):
                    epochs.assign(epoch, header[0])
            last_offset = header[0] + header[6]
            note(position, header[1] + SIZE_BEFORE_LENGTH_ENDS, last_offset, noted_timestamp(header))
            next_offset = last_offset + 1
            leader_epoch = epoch
    except CorruptionError as error:
        reason = str(error)
    if leader_epoch >= 0 and header[0] < trusted_end:  # the log end is what the last batch says
        check_batch_blocking(file, position)
    if reason is not None and next_offset < trusted_end:
        flushed = "closed cleanly" if trusted_end == LONG_MAX else f"flushed up to offset {trusted_end}"
        raise CorruptionError(f"{file.path} is broken at {segment.size}, although it was {flushed}: {reason}")
    if segment.size:
        segment.first_timestamp = noted_timestamp(read_header(file.read_blocking(0, HEADER_SIZE)))
    return SegmentEnd(next_offset, leader_epoch, reason)


def open_sealed_blocking(segment: Segment, disk: Disk) -> None:
    """Take in a flushed segment that is not the last; its indexes are rebuilt if their files cannot be right (REC-4).

    Raises:
        CorruptionError: the batches themselves are broken.
    """
    size = disk.stat(segment.path(LOG_SUFFIX)).size
    try:
        times = _last_times_blocking(segment, disk, size)
    except (CorruptionError, FileNotFoundError) as error:
        _logger.warning("%s: the indexes are rebuilt: %s", segment.path(LOG_SUFFIX), error)
        end = restore_segment_blocking(
            segment, disk, trusted_end=LONG_MAX, trust=IndexTrust.NOTHING, next_offset=segment.base_offset
        )
        assert end.reason is None
        segment.seal()
        segment.save_indexes()
        return
    segment.indexes = None
    segment.size = size
    segment.max_timestamp = times.timestamp
    segment.max_timestamp_offset = times.offset
    segment.has_unproven_time = True
    segment.unchecked_time = times


def require_nothing_missing_blocking(segment: Segment, disk: Disk) -> None:
    """Hold the end of a sealed segment against the beginning of the next one: batches between them are lost (REC-11).

    Only headers behind the last entry of the offset index are read. What is broken there is not judged here (REC-4).

    Raises:
        CorruptionError: batches that were flushed are missing.
    """
    position = _last_indexed_position(segment, disk)
    found = None
    try:
        for each in iterate_headers_blocking(segment.file, position, segment.size):
            found = each
    except CorruptionError:
        return
    end_offset = segment.base_offset
    if found is not None:
        batch = memoryview(segment.file.read_blocking(found[0], found[1].size))
        if crc32c(batch[ATTRIBUTES_OFFSET:]) != found[1].crc:
            return
        end_offset = found[1].next_offset
    if end_offset < segment.next_base_offset:
        raise CorruptionError(
            f"{segment.path(LOG_SUFFIX)} ends at offset {end_offset}, and the next segment begins at {segment.next_base_offset}: "
            "the records between them are missing"
        )


def _last_indexed_position(segment: Segment, disk: Disk) -> int:
    """The position of the batch in the last entry of the offset index file; 0 if there is none, or none that can be right."""
    try:
        size = disk.stat(segment.path(INDEX_SUFFIX)).size
        file = disk.open(segment.path(INDEX_SUFFIX))
        try:
            data = file.read_blocking(size - OFFSET_ENTRY_SIZE, OFFSET_ENTRY_SIZE) if size else b""
        finally:
            file.close()
        tail = OffsetIndex.decode(segment.base_offset, data)
    except (CorruptionError, FileNotFoundError):
        return 0
    if not len(tail):
        return 0
    last_offset, position = tail.entry(0)
    header = segment.file.read_blocking(position, HEADER_SIZE)
    return position if len(header) == HEADER_SIZE and read_header(header).last_offset == last_offset else 0


def _resume(segment: Segment, disk: Disk, file_size: int, trusted_end: int, trust: IndexTrust) -> int:
    """Load the entries of the index files, as far as they are trusted, and return the position from which on headers must be read.

    A power loss may have taken the end of either file. Time index entries are written together with offset index entries, as the largest
    timestamp rises; so both are complete up to the last offset entry that does not exceed the last time entry.
    """
    indexes = segment.indexes
    assert indexes is not None
    try:
        offset_data = disk.read_file(segment.path(INDEX_SUFFIX))
        time_data = disk.read_file(segment.path(TIME_INDEX_SUFFIX))
        offsets = OffsetIndex.decode(segment.base_offset, offset_data)
        times = TimeIndex.decode(segment.base_offset, time_data)
    except (CorruptionError, FileNotFoundError):
        return 0
    if trust is IndexTrust.EVERYTHING:
        count = offsets.count_within(LONG_MAX, file_size)
        is_whole = count * OFFSET_ENTRY_SIZE == len(offset_data) and len(times) * TIME_ENTRY_SIZE == len(time_data)
        if not is_whole or (time_data and not any(time_data)):
            return 0
    else:
        times.truncate(times.count_within(trusted_end))
        count = offsets.count_within(trusted_end, file_size)
        count = min(count, offsets.count_within(times.last()[1] + 1, file_size)) if len(times) else 0
    if not count:
        return 0
    last_offset, position = offsets.entry(count - 1)
    header = segment.file.read_blocking(position, HEADER_SIZE)
    if len(header) < HEADER_SIZE or read_header(header).last_offset != last_offset:
        return 0
    offsets.truncate(count)
    if trust is IndexTrust.FLUSHED:
        times.truncate(times.count_within(last_offset + 1))
    indexes.offsets = offsets
    indexes.times = times
    indexes.is_from_file = True
    segment.resume(position)
    return position


def _last_times_blocking(segment: Segment, disk: Disk, size: int) -> UncheckedTime:
    """The largest timestamp and its batch's last offset, from the time index file; a look at the offset index file, too.

    Raises:
        CorruptionError: one of the files cannot belong to the segment.
        FileNotFoundError: one is missing.
    """
    index_size = disk.stat(segment.path(INDEX_SUFFIX)).size
    if index_size:
        file = disk.open(segment.path(INDEX_SUFFIX))
        try:
            tail = OffsetIndex.decode(
                segment.base_offset, file.read_blocking(max(0, index_size - OFFSET_ENTRY_SIZE), OFFSET_ENTRY_SIZE)
            )
        finally:
            file.close()
        if index_size % OFFSET_ENTRY_SIZE or not len(tail) or tail.entry(0)[1] >= size:
            raise CorruptionError("the offset index does not match the segment")
    file = disk.open(segment.path(TIME_INDEX_SUFFIX))
    try:
        times_size = file.size()
        if times_size % TIME_ENTRY_SIZE:
            raise CorruptionError(f"a time index of {times_size} bytes")
        if not times_size:
            return UncheckedTime(-1, segment.base_offset, None)
        last = file.read_blocking(times_size - TIME_ENTRY_SIZE, TIME_ENTRY_SIZE)
    finally:
        file.close()
    timestamp, offset = decode_entry(segment.base_offset, last)
    if timestamp < 0 or not any(last) or offset < segment.base_offset or offset >= segment.next_base_offset:
        raise CorruptionError("the time index does not match the segment")
    if not index_size:
        place: int | None = 0
    else:
        indexed, position = tail.entry(0)
        place = position if indexed <= offset else None
    return UncheckedTime(timestamp, offset, place)
