"""Finds the largest timestamp of a segment by its batches, where it is known from the time index file alone (REC-4).

A time index has no checksum. An entry that has rotted may name a smaller timestamp than the largest one of the segment, also one of another
batch, and retention would take records that are not old. So the batches are read once, all of them and with their checksums, before age
decides about such a segment: it is about to be deleted, and costs nothing at a start. A gibibyte takes 0.5 s of a processor in batches of
16 KiB, and 1.5 s in batches of 1 KiB. Headers alone would save half of that in the page cache, and nothing where the device must be read.
"""

import logging
from collections.abc import Iterator
from typing import Final

from esp.model.errors import CorruptionError
from esp.ports.cpu import Cpu
from esp.records.batch_header import BatchHeader
from esp.storage.layout import LOG_SUFFIX, TIME_INDEX_SUFFIX
from esp.storage.segment import Segment
from esp.storage.segment_recovery import iterate_headers_blocking

_logger = logging.getLogger(__name__)

_STEP_BYTES: Final = 8 * 1024 * 1024
"""Read in one go of a worker thread: some milliseconds, so that other computations get their turns."""


class TimeProof:
    """Reads a segment, in steps, to find its largest timestamp.

    The loop may append to the segment between two steps and during one. A cut or removal makes the proof void, which ``cuts`` shows.

    Args:
        segment: the segment whose largest timestamp is to be found.
        cuts: the number of cuts of its log so far.
    """

    def __init__(self, segment: Segment, cuts: int) -> None:
        self.segment = segment
        self.cuts = cuts
        self.rot: list[CorruptionError] = []
        """The batches that do not match their checksums; the last entry may be a place where no batch stands."""
        self._found = segment.emptied()
        self._end = segment.size
        self._headers = self._read_from(0)
        self._is_read = False
        segment.suspect()

    @property
    def is_wrong(self) -> bool:
        """True if the batches say another timestamp than the segment. Of batches that have rotted, the file's word is the only one."""
        found, known = self._found.max_timestamp, self.segment.max_timestamp
        return found > known or (found < known and not self.rot)

    async def read(self, cpu: Cpu) -> None:
        """Read up to the present end of the segment, off the loop.

        Raises:
            OSError: the device failed, or the segment was removed.
        """
        while self._has_more():
            await cpu.run(self._step_blocking)

    def read_blocking(self) -> None:
        """Read like :meth:`read`, on the calling thread."""
        while self._has_more():
            self._step_blocking()

    def save_blocking(self) -> None:
        """Replace the index files of a sealed segment by ones that are made from its batches, durably.

        Raises:
            OSError: the device failed or is full.
        """
        self._found.seal()
        self._found.save_indexes()
        self._found.sync_indexes_blocking()

    def conclude(self, *, is_active: bool) -> None:
        """Let the segment have the timestamp that was found, and the indexes, if its own were wrong; all of it has been read.

        Args:
            is_active: it takes batches, so that its indexes stay in memory; else they were saved.
        """
        segment, found = self.segment, self._found
        if self.is_wrong:
            _logger.warning(
                "%s: the largest timestamp is %d where the batches say %d: the indexes are rebuilt",
                segment.path(TIME_INDEX_SUFFIX),
                segment.max_timestamp,
                found.max_timestamp,
            )
            segment.take_over(found, is_active=is_active)
        segment.has_unproven_time = False
        if not self.rot:  # else a search compares the file's entry with its batch
            segment.unchecked_time = None
        elif self.is_wrong:
            segment.time_rot = self.rot[0]

    def adopt(self, *, is_active: bool) -> None:
        """Correct the segment like :meth:`conclude`, in memory alone: its files stay, and the indexes that were found are kept instead."""
        if not is_active:
            self._found.seal()
        known = self.segment.max_timestamp, self.segment.max_timestamp_offset
        is_wrong = self.is_wrong
        _logger.warning(
            "%s does not match the batches: the segment was read, and its indexes are rebuilt in memory",
            self.segment.path(TIME_INDEX_SUFFIX),
        )
        self.segment.take_over(self._found, is_active=True)
        if not is_wrong and self.rot:
            self.segment.max_timestamp, self.segment.max_timestamp_offset = known
        self.segment.has_unproven_time = False
        self.segment.unchecked_time = None
        if self.rot:
            self.segment.time_rot = self.rot[0]

    def close(self) -> None:
        """Let go of the file."""
        self._found.close()

    def _has_more(self) -> bool:
        """True if batches are still to be read, those among them that were appended meanwhile; asked on the loop."""
        if self._is_read and self.segment.size > self._end:
            self.segment.suspect()
            self._headers = self._read_from(self._end)
            self._end = self.segment.size
            self._is_read = False
        return not self._is_read

    def _read_from(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        end = self.segment.size
        return iterate_headers_blocking(self._found.file, position, end, 0, self.rot.append)

    def _step_blocking(self) -> None:
        found = self._found
        left = _STEP_BYTES
        try:
            for position, header in self._headers:
                found.visit(position, header)
                left -= header.size
                if left <= 0:
                    return
        except CorruptionError as error:
            self.rot.append(CorruptionError(f"{found.path(LOG_SUFFIX)} is broken behind {found.size}: {error}"))
        self._is_read = True
