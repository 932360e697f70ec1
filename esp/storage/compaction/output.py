"""A segment that takes the place of one or several others: it is written beside them, as ``*.cleaned`` (CLEAN-7)."""

from collections.abc import Iterable, Iterator, Sequence

from esp.model.buffers import Buffer
from esp.ports.disk import Disk, File
from esp.records.batch_header import BatchHeader
from esp.storage.layout import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from esp.storage.segment import RELATIVE_OFFSET_MAX, Segment, noted_timestamp
from esp.storage.transaction_index import AbortedTransaction, TransactionIndex


class LeftAloneError(Exception):
    """The sources stay as they are: one was dropped meanwhile, or the segment in their place would be larger than a segment can be."""


class CleanedSegment:
    """The segment that is being written.

    Nothing is written as long as the batches of a single source stay as they are. If all of them do, nothing has to be replaced at all.

    Args:
        disk: where it lives.
        sources: the segments whose place it takes, neighbours.
    """

    def __init__(self, disk: Disk, sources: Sequence[Segment]) -> None:
        self.sources = sources
        self.segment = sources[0].emptied()
        """The segment as it will be, but for the names of its files."""
        self._disk = disk
        self._file: File | None = None
        self._is_same = len(sources) == 1
        self._aborted: list[AbortedTransaction] = []
        self.drops_markers = False
        """True if nothing is left of a marker but its header, if that: older producer snapshots no longer lead to the right state."""

    @property
    def is_same(self) -> bool:
        """True if the only source may stay."""
        return self._is_same

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The suffixes of the files that were written, the log's last."""
        return (*self.segment.index_suffixes, LOG_SUFFIX)

    def write_blocking(
        self, headers: Sequence[BatchHeader], data: Sequence[Buffer], source: File, chunk_bytes: int
    ) -> Iterator[None]:
        """Take in the batches of one chunk, in their order.

        Yields after each part of the batches before them that had to be copied first, because the first one that changed is among these.

        Args:
            headers: the headers of the batches, as they are now.
            data: the bytes of all of them.
            source: the file from which unchanged batches before them are copied.
            chunk_bytes: the most bytes that are copied in one go.

        Raises:
            LeftAloneError: they do not fit in.
            OSError: the device failed or is full.
        """
        same_end = self.segment.size
        for header in headers:
            self._note(header)
        if self._is_same:
            return
        if self._file is None:
            self._file = self._disk.open(self.segment.path(LOG_SUFFIX) + CLEANED_SUFFIX, create=True)
            self._file.truncate(0)
            for position in range(0, same_end, chunk_bytes):
                self._file.append((source.read_blocking(position, min(chunk_bytes, same_end - position)),))
                yield
        if data:
            self._file.append(data)

    def differ(self) -> None:
        """A batch is not as it was: the source has to be replaced."""
        self._is_same = False

    def _note(self, header: BatchHeader) -> None:
        segment = self.segment
        size = header.size
        if segment.size + size > RELATIVE_OFFSET_MAX:
            raise LeftAloneError("the records that stay take more than a segment may hold")
        if not segment.size:
            segment.first_timestamp = noted_timestamp(header)
        segment.note(segment.size, size, header.last_offset, noted_timestamp(header))

    def finish_blocking(self, end_offset: int) -> None:
        """Write the indexes; make all of it durable, but for the names.

        Args:
            end_offset: the end of the part about which was decided.

        Raises:
            OSError: the device failed or is full.
        """
        assert self._file is not None, "something was written"
        segment = self.segment
        segment.seal()
        indexes = segment.indexes
        assert indexes is not None
        aborted = self._join_aborted_blocking(end_offset)
        data_of = {
            INDEX_SUFFIX: indexes.offsets.encode(0),
            TIME_INDEX_SUFFIX: indexes.times.encode(0),
            TXN_INDEX_SUFFIX: aborted.encode(0),
        }
        self._file.sync_blocking()
        for suffix in segment.index_suffixes:
            data = data_of[suffix]
            path = segment.path(suffix) + CLEANED_SUFFIX
            self._disk.write_file(path, data)
            file = self._disk.open(path)
            try:
                file.sync_blocking()
            finally:
                file.close()

    def note_aborted(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Take in aborted transactions with records whose markers were among the batches so far."""
        self._aborted += aborted

    def _join_aborted_blocking(self, end_offset: int) -> TransactionIndex:
        """The transactions with records, and from ``end_offset`` on, where nothing was decided, those of the sources (CLEAN-3)."""
        segment = self.segment
        segment.oldest_open_offset = self.sources[0].oldest_open_offset
        segment.aborted = joined = TransactionIndex()
        joined.entries += self._aborted
        source = self.sources[-1]
        if source.next_base_offset <= end_offset:
            return joined
        index, is_proven = source.aborted, source.aborted_checksum is not None
        if index is None:
            is_proven = False
            copy = source.emptied()
            copy.load_aborted_blocking()
            index = copy.aborted
        if index is not None:
            joined.entries += [entry for entry in index.entries if entry.last_offset >= end_offset]
        if not is_proven:  # the next reader that depends on it compares it with the batches
            segment.aborted_checksum = None
        return joined

    def take_file(self) -> File:
        """Hand the log file over to the segment's owner, which has named it ``*.swap`` by now."""
        file, self._file = self._file or self._disk.open(self.segment.path(LOG_SUFFIX) + SWAP_SUFFIX), None
        return file

    def release(self) -> None:
        """Let go of the file, unless it has been handed over; it stays."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove_blocking(self) -> None:
        """Remove what was written. Raises OSError: the device failed."""
        self.release()
        for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
            path = self.segment.path(suffix) + CLEANED_SUFFIX
            if self._disk.exists(path):
                self._disk.remove(path)

    def __getstate__(self) -> dict[str, object]:
        """The segment for another process, which opens the file itself."""
        return {**self.__dict__, "_file": None}
