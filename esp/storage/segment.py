"""A segment of a log: a file of batches, and the two sparse indexes over it.

A segment keeps its indexes in memory while it is active. The indexes of a sealed segment are read when a search first needs them and may be
let go again once they stand in their files. A batch adds the same entries to the indexes whether it is appended, recovered or searched
through: :meth:`Segment.note`.

Kafka maps its index files and pads them; here entries are kept in memory and appended to the files when a segment is flushed, rolled or
closed, and a file is never longer than its entries. Nothing depends on it: missing or wrong entries are rebuilt from the segment (REC-3,
REC-4).
"""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError
from esp.ports.disk import Disk, File
from esp.records.batch_header import HEADER_SIZE, MAGIC, BatchHeader, HeaderFields, read_header
from esp.settings.setting import LONG_MAX
from esp.settings.topic import TopicSettings
from esp.storage.layout import (
    INDEX_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_file_name,
)
from esp.storage.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from esp.storage.offset_index import OffsetIndex
from esp.storage.steps import Reading
from esp.storage.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from esp.storage.time_index import TimeIndex
from esp.storage.transaction_index import TransactionIndex

_logger = logging.getLogger(__name__)


class SavedIndex(Protocol):
    """An index that knows how many of its entries stand in its file."""

    saved: int

    @property
    def entry_size(self) -> int:
        """Bytes of one entry in the file."""

    def __len__(self) -> int: ...

    def encode(self, start: int) -> bytes:
        """The entries from number ``start`` on, as they stand in the file."""


def save_index(disk: Disk, path: str, index: SavedIndex) -> None:
    """Bring the file up to date with the entries, in the page cache.

    Raises:
        OSError: the device failed or is full; the next call tries again.
    """
    file = disk.open(path, create=True)
    try:
        saved_size = index.saved * index.entry_size
        size = file.size()
        if size < saved_size:
            index.saved = saved_size = 0
        if size > saved_size:
            file.truncate(saved_size)
        if len(index) > index.saved:
            file.append((index.encode(index.saved),))
            index.saved = len(index)
    finally:
        file.close()


RELATIVE_OFFSET_MAX: Final = 2**31 - 1
"""The index files hold offsets and positions as int32."""
_WALK_BYTES: Final = 8192
"""The bytes that a search reads at a time: the headers between two index entries, as long as batches are smaller than that."""


def noted_timestamp(header: HeaderFields) -> int:
    """The largest timestamp of a batch's records, in milliseconds since the Unix epoch.

    It is -1 if there is none, also of a batch that compaction has left without records: its header goes on saying when its producer wrote.
    """
    return header[8] if header[12] else -1


class SegmentIndexes:
    """Both indexes of one segment."""

    __slots__ = ("is_from_file", "is_unproven", "offsets", "times")

    def __init__(self, base_offset: int) -> None:
        self.offsets = OffsetIndex(base_offset)
        self.times = TimeIndex(base_offset)
        self.is_from_file = False
        """True if entries were read from the files: they have no checksum, so each is compared with its batch before it is used (REC-4)."""
        self.is_unproven = False
        """True if the entries were made from headers whose checksums were not verified: no search by time relies on them."""

    @property
    def unsaved(self) -> int:
        """Entries that do not stand in the files yet."""
        return len(self.offsets) - self.offsets.saved + len(self.times) - self.times.saved


class UncheckedTime(NamedTuple):
    """The last entry of a time index file, with a place in the segment from which its batch is near."""

    timestamp: int
    """-1 if the file has no entry."""
    offset: int
    place: int | None
    """The position of a batch at or before the entry's, by the word of the offset index file; None if that is unknown."""


class Segment:
    """A segment's file, size and indexes. Sizes and positions in bytes, timestamps in milliseconds since the Unix epoch.

    Args:
        disk: where it lives.
        directory: the replica's directory.
        base_offset: names the files; no record in it has a smaller offset.
        settings: the topic's when the segment is opened; the index settings hold for its life.
        created_ms: when it became active, for rolls of segments without timestamps.
    """

    __slots__ = (
        "_bytes_since_entry",
        "_directory",
        "_disk",
        "_file",
        "_index_interval_bytes",
        "_offset_entries_max",
        "_settings",
        "_time_entries_max",
        "aborted",
        "aborted_checksum",
        "base_offset",
        "checked_end",
        "checked_start",
        "created_ms",
        "first_timestamp",
        "has_unproven_time",
        "index_is_full",
        "indexes",
        "last_offset_max",
        "max_timestamp",
        "max_timestamp_offset",
        "next_base_offset",
        "oldest_open_offset",
        "size",
        "suspect_end",
        "time_rot",
        "unchecked_time",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, settings: TopicSettings, created_ms: int) -> None:
        self._disk = disk
        self._directory = directory
        self._file: File | None = None
        self.base_offset = base_offset
        self.last_offset_max = base_offset + RELATIVE_OFFSET_MAX
        """The largest offset that the indexes can name."""
        self.next_base_offset = LONG_MAX
        """The following segment's base offset; larger than any offset while there is none."""
        self.created_ms = created_ms
        self._settings = settings
        self._index_interval_bytes = settings.index_interval_bytes
        self._offset_entries_max = settings.segment_index_bytes // OFFSET_ENTRY_SIZE
        self._time_entries_max = settings.segment_index_bytes // TIME_ENTRY_SIZE - 1  # one is kept for the roll
        self.indexes: SegmentIndexes | None = None
        self.suspect_end = 0
        """Bytes below this position may have come from the device since they were written (:mod:`esp.storage.log_reader`)."""
        self.checked_start = self.checked_end = 0
        """The range of such bytes whose checksums were verified since."""
        self.aborted: TransactionIndex | None = TransactionIndex()
        """The aborted transactions whose markers stand here; None: the file was not read yet."""
        self.aborted_checksum: int | None = 0
        """The checksum of the index that was let go; None: the index is from a file that was not compared with the batches yet
        (:mod:`esp.storage.transaction_proof`)."""
        self.oldest_open_offset: int | None = None
        """The first offset of the oldest transaction that was open at the base, larger than any offset if there was none; None: unknown."""
        self.start_over()

    def start_over(self) -> None:
        """Take the segment for empty, with empty indexes; the file is left alone."""
        self.indexes = SegmentIndexes(self.base_offset)
        self.size = 0
        self.first_timestamp = -1
        """The first batch's largest timestamp, from which the time of a roll counts; -1 if there is none."""
        self.max_timestamp = -1
        self.max_timestamp_offset = self.base_offset
        """The last offset of the batch that holds it."""
        self.has_unproven_time = False
        """True if the largest timestamp rests on the time index file, which has no checksum (:mod:`esp.storage.time_proof`)."""
        self.unchecked_time: UncheckedTime | None = None
        """The largest timestamp by the time index file, until a search has held it against its batch."""
        self.time_rot: CorruptionError | None = None
        """A rotten batch that may have had a larger timestamp than the segment is known to have: no search by time passes it."""
        self._bytes_since_entry = 0
        self.index_is_full = False

    def path(self, suffix: str) -> str:
        """The path of one of the segment's files."""
        return f"{self._directory}/{offset_file_name(self.base_offset, suffix)}"

    def relocate(self, directory: str) -> None:
        """The directory of the segment's files has another name now."""
        self._directory = directory
        if self._file is not None:
            self._file.path = self.path(LOG_SUFFIX)

    @property
    def file(self) -> File:
        """The open log file; opened on first use."""
        return self._file or self.open()

    def open(self) -> File:
        """Open the log file. Raises FileNotFoundError."""
        self._file = self._disk.open(self.path(LOG_SUFFIX))
        return self._file

    def create(self) -> None:
        """Make the files, empty; ones that are there are emptied.

        Raises:
            OSError: the device failed or is full.
        """
        self._file = self._disk.open(self.path(LOG_SUFFIX), create=True)
        if self._file.size():
            self._file.truncate(0)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            self._disk.write_file(self.path(suffix), b"")

    def append(self, batch: Buffer, last_offset: int, max_timestamp: int) -> None:
        """Write a batch at the end, into the page cache.

        Raises:
            OSError: :attr:`size` is unchanged; bytes may stand behind it.
        """
        (self._file or self.file).append((batch,))
        position = self.size
        if not position:
            self.first_timestamp = max_timestamp
        self.note(position, len(batch), last_offset, max_timestamp)

    def note(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Take in a batch that stands at ``position``, the present end."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self._bytes_since_entry > self._index_interval_bytes:
            self._add_entry(last_offset, position)
            self._bytes_since_entry = size
        else:
            self._bytes_since_entry += size
        self.size = position + size

    def _add_entry(self, last_offset: int, position: int) -> None:
        indexes = self.indexes
        assert indexes is not None, "a segment that grows has its indexes in memory"
        offset_entries = indexes.offsets.append(last_offset, position)
        time_entries = indexes.times.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        self.index_is_full = offset_entries >= self._offset_entries_max or time_entries >= self._time_entries_max

    def resume(self, position: int) -> None:
        """Go on taking in batches from an index entry's batch on: the indexes are right up to there."""
        assert self.indexes is not None
        self.max_timestamp, self.max_timestamp_offset = self.indexes.times.last()
        self.has_unproven_time = True
        self.unchecked_time = UncheckedTime(self.max_timestamp, self.max_timestamp_offset, None)
        self._bytes_since_entry = 0
        self.size = position

    def suspect(self) -> None:
        """The device was asked for bytes of the segment: the bytes in memory now are checked before readers get them."""
        self.suspect_end = self.size
        self.checked_start = self.checked_end = 0

    def is_older_than(self, timestamp: int) -> bool:
        """True if all records are older, by what is known of the largest timestamp."""
        return self.time_rot is None and self.max_timestamp < timestamp

    def require_known_times(self) -> None:
        """Raise the CorruptionError of a rotten batch because of which the largest timestamp is not certain, if there is one."""
        if self.time_rot is not None:
            raise CorruptionError(str(self.time_rot))

    def seal(self) -> None:
        """Complete the time index: the segment gets no more batches, or the log is closed."""
        assert self.indexes is not None
        self.indexes.times.maybe_append(self.max_timestamp, self.max_timestamp_offset)

    def save_indexes(self) -> None:
        """Write the entries that are not in the index files yet, into the page cache.

        Raises:
            OSError: the device failed or is full; the next call tries again.
        """
        if self.indexes is not None:
            save_index(self._disk, self.path(INDEX_SUFFIX), self.indexes.offsets)
            save_index(self._disk, self.path(TIME_INDEX_SUFFIX), self.indexes.times)
        self.save_aborted()

    def note_saved(self) -> None:
        """Note that all index entries in memory stand in the files."""
        assert self.indexes is not None
        self.indexes.offsets.saved = len(self.indexes.offsets)
        self.indexes.times.saved = len(self.indexes.times)
        if self.aborted is not None:
            self.aborted.saved = len(self.aborted)

    def save_aborted(self) -> None:
        """Write the transaction index like :meth:`save_indexes`; its file exists only if there are entries."""
        aborted = self.aborted
        if aborted is None or aborted.saved == len(aborted):
            return
        path = self.path(TXN_INDEX_SUFFIX)
        if aborted.entries:
            aborted.saved = max(0, aborted.saved)
            save_index(self._disk, path, aborted)
        elif self._disk.exists(path):
            self._disk.remove(path)
        aborted.saved = len(aborted)

    def load_aborted_blocking(self) -> None:
        """Read the transaction index, as it stands in the file; it stays unread if the file cannot be right.

        Raises:
            OSError: the device failed.
        """
        try:
            self.aborted = TransactionIndex.decode(self._disk.read_file(self.path(TXN_INDEX_SUFFIX)))
        except FileNotFoundError:
            self.aborted, self.aborted_checksum = TransactionIndex(), 0
        except CorruptionError as error:
            _logger.warning("%s is rebuilt: %s", self.path(TXN_INDEX_SUFFIX), error)

    def begin_aborted_anew(self) -> None:
        """Take the transaction index for empty, whatever stands in its file."""
        has_file = self.aborted is None
        self.aborted, self.aborted_checksum = TransactionIndex(), 0
        if has_file:
            self.aborted.saved = -1

    def let_aborted_go(self) -> bool:
        """Forget the transaction index if it can be read again from its file; True if that was done."""
        aborted = self.aborted
        if aborted is None or aborted.saved != len(aborted):
            return False
        if self.aborted_checksum is not None:
            self.aborted_checksum = aborted.checksum()
        self.aborted = None
        return True

    @property
    def index_suffixes(self) -> tuple[str, ...]:
        """The suffixes of the index files that the segment has."""
        has_aborted = self.aborted is None or bool(self.aborted.entries)
        return INDEX_SUFFIXES if has_aborted else (INDEX_SUFFIX, TIME_INDEX_SUFFIX)

    def sync_indexes_blocking(self) -> None:
        """Make the index files durable."""
        for suffix in self.index_suffixes:
            file = self._disk.open(self.path(suffix))
            file.sync_blocking()
            file.close()

    def age_reference_ms(self) -> int:
        """The time from which its age is counted: its largest timestamp, or its file's time if no record has one."""
        return self.max_timestamp if self.max_timestamp >= 0 else self._disk.stat(self.path(LOG_SUFFIX)).modified_ms

    def adopt(self, file: File) -> None:
        """Take an open file for the segment's own, which has its name or is about to get it."""
        self.close()
        file.path = self.path(LOG_SUFFIX)
        self._file = file

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def files(self) -> list[str]:
        """The paths of the segment's files that are there, the producer snapshot of its base offset among them."""
        return [path for path in map(self.path, SEGMENT_SUFFIXES) if self._disk.exists(path)]

    def load_indexes(self) -> Reading[SegmentIndexes]:
        """Get the indexes of a sealed segment into memory; rebuilt from its batches if the files are no use (REC-4).

        Raises:
            CorruptionError: the batches themselves are broken.
        """
        if self.indexes is not None:
            return self.indexes
        indexes = SegmentIndexes(self.base_offset)
        try:
            indexes.offsets = OffsetIndex.decode(self.base_offset, (yield from self._read_whole(INDEX_SUFFIX)))
            indexes.times = TimeIndex.decode(self.base_offset, (yield from self._read_whole(TIME_INDEX_SUFFIX)))
            indexes.is_from_file = True
            complete = self._matches(indexes)
        except (CorruptionError, FileNotFoundError):
            complete = False
        if not complete:
            return (yield from self._rebuild_indexes())
        self.indexes = indexes
        return indexes

    def emptied(self) -> "Segment":
        """The segment as if nothing of it had been read yet, to take in its batches again."""
        return Segment(self._disk, self._directory, self.base_offset, self._settings, self.created_ms)

    def detached(self) -> "Segment":
        """A copy of a sealed segment without its file and its indexes, for another process."""
        copy = self.emptied()
        copy.indexes = None
        copy.size = self.size
        copy.next_base_offset = self.next_base_offset
        copy.aborted, copy.aborted_checksum = self.aborted, self.aborted_checksum
        copy.oldest_open_offset = self.oldest_open_offset
        return copy

    def take_over(self, rebuilt: "Segment", *, is_active: bool) -> None:
        """Take the timestamps of a segment that has taken in the same batches anew, and its indexes if this one is active.

        Of a sealed segment the indexes are read from their files again when they are needed.
        """
        self.max_timestamp = rebuilt.max_timestamp
        self.max_timestamp_offset = rebuilt.max_timestamp_offset
        if not is_active:
            self.indexes = None
            return
        self.indexes = rebuilt.indexes
        self.index_is_full = rebuilt.index_is_full

    def _rebuild_indexes(self) -> Reading[SegmentIndexes]:
        _logger.warning("%s: the indexes do not match the segment and are rebuilt", self.path(LOG_SUFFIX))
        rebuilt = self.emptied()
        yield from find_batch(self.file, 0, self.size, rebuilt.visit)
        rebuilt.seal()
        indexes = self.indexes = rebuilt.indexes
        assert indexes is not None
        indexes.is_unproven = True
        return indexes

    def find_place(self, indexes: SegmentIndexes, offset: int) -> Reading[int]:
        """Position of the last batch in the segment's ``indexes`` that ends at or before ``offset``, 0 if there is none.

        Raises:
            CorruptionError: the batches themselves are broken.
        """
        place = indexes.offsets.floor(offset)
        if place and indexes.is_from_file:
            entry = indexes.offsets.entry_at(place)
            chunk = yield self.file, place, HEADER_SIZE
            if len(chunk) < HEADER_SIZE or read_header(chunk).last_offset != entry:
                indexes = yield from self._rebuild_indexes()
                place = indexes.offsets.floor(offset)
        return place

    def find_entry(self, place: int, timestamp: int, offset: int) -> Reading[int | None]:
        """The position of the batch that an entry of the time index names; None if no batch ends at ``offset`` with this largest timestamp.

        One flipped bit makes an entry disagree with its batch. ``place`` is the position of a batch at or before it.

        The file is opened for this reading alone: a search may ask about thousands of segments.
        """
        file = self._disk.open(self.path(LOG_SUFFIX))
        try:
            found = yield from find_batch(
                file, place, self.size, lambda _position, header: header.last_offset >= offset
            )
        except CorruptionError:
            return None
        finally:
            file.close()
        if found is None or (found[1].last_offset, found[1].max_timestamp) != (offset, timestamp):
            return None
        return found[0]

    def visit(self, position: int, header: BatchHeader) -> bool:
        """Note a batch like :meth:`note`, as the predicate of :func:`find_batch`; False, so that it goes on.

        Raises:
            CorruptionError: an offset that cannot be in this segment.
        """
        if not self.base_offset <= header.base_offset <= header.last_offset <= self.last_offset_max:
            raise CorruptionError(f"{self.path(LOG_SUFFIX)} holds a batch of offset {header.base_offset} at {position}")
        self.note(position, header.size, header.last_offset, noted_timestamp(header))
        return False

    def _matches(self, indexes: SegmentIndexes) -> bool:
        """True if loaded indexes name nothing beyond the segment, and its largest timestamp."""
        if len(indexes.offsets) and indexes.offsets.entry(-1)[1] >= self.size:
            return False
        return indexes.times.last()[0] == self.max_timestamp

    def _read_whole(self, suffix: str) -> Reading[Buffer]:
        file = self._disk.open(self.path(suffix))
        try:
            size = file.size()
            if not size:
                return b""
            return (yield file, 0, size)
        finally:
            file.close()


def find_batch(
    file: File, position: int, end: int, accept: Callable[[int, BatchHeader], bool]
) -> Reading[tuple[int, BatchHeader] | None]:
    """Walk the headers from the batch at ``position`` to ``end`` (where a batch ends) and return the first accepted one, with its place.

    Raises:
        CorruptionError: the bytes there are no batch.
    """
    chunk: Buffer = b""
    start = position
    while position < end:
        index = position - start
        if index + HEADER_SIZE > len(chunk):
            chunk = yield file, position, min(_WALK_BYTES, end - position)
            start, index = position, 0
            if len(chunk) < HEADER_SIZE:
                raise CorruptionError(f"{file.path} ends in the middle of the batch at {position}")
        header = read_header(chunk, index)
        size = header.size
        if size < HEADER_SIZE or header.magic != MAGIC or position + size > end or header.last_offset_delta < 0:
            raise CorruptionError(f"{file.path} holds no batch at {position}")
        if accept(position, header):
            return position, header
        position += size
    return None
