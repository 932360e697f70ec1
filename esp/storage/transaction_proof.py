"""The aborted transactions of one segment by its batches, where they are known from its transaction index file alone (REC-4, LSO-2).

A transaction index has no checksum. An entry that has rotted would hide aborted records among committed ones, or committed ones among
aborted. So the batches of a segment are read once, all of them and with their checksums, before the first reader depends on a file that an
earlier process wrote; a segment without such a file costs nothing. The state of the producers at the segment's base comes from the producer
snapshot there, which has a checksum.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from esp.model.errors import CorruptionError
from esp.ports.disk import Disk
from esp.records.transaction_marker import find_marker
from esp.storage.layout import SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX
from esp.storage.producer_state import ProducerStates
from esp.storage.segment import Segment
from esp.storage.segment_recovery import iterate_known_headers_blocking
from esp.storage.transaction_index import TransactionIndex

_STEP_BYTES: Final = 8 * 1024 * 1024
"""Read in one go of a worker thread, as :mod:`esp.storage.time_proof` does."""

_logger = logging.getLogger(__name__)


class TransactionProof:
    """Reads a segment, and the segments before it as far as producer snapshots are missing, to find its aborted transactions.

    The loop may append to the segment meanwhile. A cut or removal makes the proof void.

    Args:
        disk: where the log lives.
        segments: the segment, and before it all others of the log.
        wanted_below: the entries are wanted only if they can be of transactions that began below this offset; None: always.
    """

    def __init__(self, disk: Disk, segments: Sequence[Segment], wanted_below: int | None) -> None:
        self._disk = disk
        self.segment: Final = segments[-1]
        self._sources = [(segment.emptied(), segment.size) for segment in segments]
        self._known = len(self.segment.aborted or ())
        """The number of entries in memory, which are compared with the batches; later ones are right."""
        self._wanted_below = wanted_below
        self._checksum = self.segment.aborted_checksum
        self._index: TransactionIndex | None = None
        self._oldest_open_offset: int | None = None
        self._is_proven = False
        self._steps = self._reading()
        self.rot: list[CorruptionError] = []
        """The batches that do not match their checksums, of which nothing is believed."""

    @property
    def is_wanted(self) -> bool:
        """True unless :meth:`read_blocking` found that no transaction that began below the offset was open at the segment's base."""
        if self._oldest_open_offset is None or self._wanted_below is None:
            return True
        return self._oldest_open_offset < self._wanted_below

    def read_blocking(self) -> None:
        """Read what is needed.

        Raises:
            CorruptionError: a segment is broken.
            OSError: the device failed.
        """
        while self.step_blocking():
            pass

    def step_blocking(self) -> bool:
        """Read some milliseconds' worth like :meth:`read_blocking`; True if there is more. May run in a worker thread."""
        return next(self._steps, False)

    def _reading(self) -> Iterator[bool]:
        """Yields True wherever other computations may have their turns."""
        segment = self._sources[-1][0]
        states = self._load_snapshot_blocking(segment)
        if states is not None and len(self._sources) > 1:
            self._oldest_open_offset = states.oldest_open_offset
            if not self.is_wanted:
                return
        file_index = self._read_file_blocking(segment)
        if file_index is not None and self._checksum == file_index.checksum():
            self._index = file_index
            return
        self._index = TransactionIndex()
        yield from self._fold(self._index, states)
        self._is_proven = True
        if file_index is not None and file_index.entries == self._index.entries[: len(file_index)]:
            self._index.saved = len(file_index)
        else:
            self._index.saved = -1

    @property
    def index(self) -> TransactionIndex:
        """The entries that were found, empty if they are not wanted."""
        return self._index or TransactionIndex()

    def conclude(self, *, is_active: bool) -> None:
        """Give the segment its index. On the loop, after :meth:`read_blocking`."""
        segment, index = self.segment, self._index
        if segment.oldest_open_offset is None:
            segment.oldest_open_offset = self._oldest_open_offset
        if index is None:
            return
        present = segment.aborted
        if present is not None:
            if present.entries[: self._known] == index.entries and present.saved >= 0:
                index.saved = present.saved
            index.entries += present.entries[self._known :]
        if self._is_proven and index.saved < 0:
            _logger.warning("%s did not match the segment and is rebuilt", segment.path(TXN_INDEX_SUFFIX))
        segment.aborted = index
        segment.aborted_checksum = index.checksum()
        if not is_active:
            try:
                segment.save_aborted()
            except OSError as error:
                _logger.warning("%s cannot be written: %s", segment.path(TXN_INDEX_SUFFIX), error)

    def close(self) -> None:
        """Let go of the files."""
        for source, _size in self._sources:
            source.close()

    def _load_snapshot_blocking(self, segment: Segment) -> ProducerStates | None:
        try:
            return ProducerStates.decode(self._disk.read_file(segment.path(SNAPSHOT_SUFFIX)))
        except (FileNotFoundError, CorruptionError):
            return None

    def _read_file_blocking(self, segment: Segment) -> TransactionIndex | None:
        try:
            return TransactionIndex.decode(self._disk.read_file(segment.path(TXN_INDEX_SUFFIX)))
        except (FileNotFoundError, CorruptionError):
            return None

    def _fold(self, index: TransactionIndex, states: ProducerStates | None) -> Iterator[bool]:
        first = len(self._sources) - 1
        while states is None and first:
            first -= 1
            states = self._load_snapshot_blocking(self._sources[first][0])
        if states is None:
            states = ProducerStates()
        left = _STEP_BYTES
        base_offset = self.segment.base_offset
        for source, size in self._sources[first:]:
            for position, header in iterate_known_headers_blocking(source.file, 0, size, self.rot.append):
                left -= header.size
                if left <= 0:
                    yield True
                    left = _STEP_BYTES
                if header.producer_id >= 0:
                    marker = (
                        find_marker(source.file.read_blocking(position, header.size)) if header.is_control else None
                    )
                    completed = states.update(header, marker)
                    if completed is not None and completed.last_offset >= base_offset:
                        index.add(completed)
