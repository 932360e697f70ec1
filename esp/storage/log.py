"""The append-only log of one replica, as its owner drives it: append, read, flush, cut.

Who may call what: everything is called from the node's loop, one call at a time; ``async`` methods may overlap with any other call.
``*_blocking`` methods wait for the device; a worker thread may run them while the loop leaves this log alone. :meth:`Log.truncate_to`,
:meth:`Log.truncate_fully_and_start_at` and the begin of a log's second segment sync small files as well.

A write that failed is cut away again, or the log takes no more (LOG-13). Invariants: :mod:`esp.storage.log_state`.
"""

import errno
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from esp.model.errors import ApiError, CorruptionError, ErrorCode
from esp.ports.cpu import Cpu
from esp.ports.network import Buffer
from esp.records.batch_header import HeaderFields
from esp.storage.log_state import LogState
from esp.storage.producer_snapshots import snapshot_path
from esp.storage.retention import (
    count_old_segments,
    delete_old_segments_blocking,
    dropping_segments,
    hiding_old_segments,
)
from esp.storage.rolling import is_roll_due
from esp.storage.segment import Segment
from esp.storage.steps import Reading, Syncing, read, sync, sync_blocking
from esp.storage.timestamp_search import TimestampAndOffset, search_max_timestamp, search_timestamp
from esp.storage.truncation import truncate_fully_and_start_at, truncate_to

_logger = logging.getLogger(__name__)

Found = TypeVar("Found")


class Log(LogState):
    """One replica's log; made by :mod:`esp.storage.recovery`."""

    __slots__ = ()

    # --- append --------------------------------------------------------------------------------------------------------------------

    def append(self, batch: Buffer, header: HeaderFields, now_ms: int) -> None:
        """Append one checked batch whose offset and leader epoch are stamped, into the page cache; a new segment is begun first if due.

        Args:
            batch: the bytes.
            header: read from them; ``base_offset`` is not below the log end, the epoch not below the latest.
            now_ms: wall time.

        Raises:
            ApiError: KAFKA_STORAGE_ERROR; nothing was appended (LOG-13).
        """
        base_offset, _, epoch, _, _, _, delta, _, max_timestamp, producer_id, _, _, _ = header
        last_offset = base_offset + delta
        size = len(batch)
        settings = self.settings
        segment = self._segments.active
        assert base_offset >= self.log_end_offset, "offsets of a log rise (LOG-2)"
        if (
            segment.size + size > settings.segment_bytes
            or max_timestamp - segment.first_timestamp > settings.segment_ms - self.roll_jitter_ms
            or last_offset > segment.last_offset_max
            or segment.index_is_full
            or self.is_offline
        ):
            segment = self._make_room(size, base_offset, last_offset, max_timestamp, now_ms)
        try:
            segment.append(batch, last_offset, max_timestamp)
        except OSError as error:
            raise self._undo_append(segment, error) from error
        if epoch != self.leader_epochs.latest:
            assert epoch > (self.leader_epochs.latest or 0) or self.leader_epochs.latest is None, "epochs rise (LOG-3)"
            self.leader_epochs.assign(epoch, base_offset)
        if producer_id >= 0:
            self.producers.update(header)
        unsynced = self._unsynced
        unsynced.appended_batches += 1
        unsynced.appended_bytes += size
        self.log_end_offset = last_offset + 1

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the log end; nothing happens if the active one is empty.

        Raises:
            OSError: the device failed or is full; the log is as before.
        """
        if self._segments.active.size:
            self.begin_segment(self.log_end_offset, now_ms)

    def begin_epoch(self, epoch: int) -> None:
        """Note that this leader epoch begins at the log end (LOG-8); on disk it stands with the next flush.

        Until then a power loss takes nothing that matters: where batches of the epoch survive, recovery finds its start in the first of
        them (LOG-10), and where none does, the epoch left no trace that anybody could ask for.
        """
        self.leader_epochs.assign(epoch, self.log_end_offset)

    def _make_room(self, size: int, base_offset: int, last_offset: int, max_timestamp: int, now_ms: int) -> Segment:
        """The segment that takes the next batch; a new one if one is due (:mod:`esp.storage.rolling`)."""
        if self.is_offline:
            raise ApiError(ErrorCode.kafka_storage_error, f"The log of {self.partition} is offline after a disk error")
        segment = self._segments.active
        is_due = is_roll_due(
            segment, self.settings, self.roll_jitter_ms, size=size, max_timestamp=max_timestamp, now_ms=now_ms
        )
        if is_due or last_offset > segment.last_offset_max:
            fits = last_offset - self.log_end_offset < segment.last_offset_max - segment.base_offset
            try:
                self.begin_segment(self.log_end_offset if fits else base_offset, now_ms)
            except OSError as error:
                _logger.error("%s: no new segment can be made: %s", self.path, error)
                raise ApiError(ErrorCode.kafka_storage_error, f"No new segment can be made: {error}") from error
        return self._segments.active

    def _undo_append(self, segment: Segment, error: OSError) -> ApiError:
        """Cut away what a failed write left (LOG-13, REC-9); the log goes offline where that fails."""
        try:
            file = segment.file
            if file.size() != segment.size:
                file.truncate(segment.size)
        except OSError as second_error:
            self.take_offline()
            _logger.error("%s is offline: undoing a failed write (%s) failed: %s", self.path, error, second_error)
        else:
            _logger.error("%s: a write failed and was undone: %s", self.path, error)
        return ApiError(ErrorCode.kafka_storage_error, f"The batch could not be written: {error}")

    # --- read ----------------------------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool) -> Buffer | None:
        """Whole batches from the one that holds ``offset``, at most ``max_bytes``, within one segment; empty if there is nothing.

        Args:
            offset: where the reader stands.
            max_bytes: the most that is returned.
            end_offset: where the visible part ends: the high watermark or the log end, where a batch begins or the log ends.
            at_least_one: return the first batch whole, whatever its size.

        Returns:
            The bytes, or None if not all that is needed is in the page cache: :meth:`read_cold` waits for it.

        Raises:
            ApiError: OFFSET_OUT_OF_RANGE.
            CorruptionError: the segment is broken there.
            OSError: the device failed.
        """
        log_end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= log_end_offset:
            raise self._out_of_range(offset)
        try:
            return self._reader.read(offset, max_bytes, min(end_offset, log_end_offset), log_end_offset, at_least_one)
        except CorruptionError as error:
            self.note_rot(error)
            raise

    async def read_cold(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool) -> Buffer:
        """As :meth:`read`, waiting for the device off the loop."""

        def start() -> Reading[Buffer]:
            log_end_offset = self.log_end_offset
            if not self.log_start_offset <= offset <= log_end_offset:
                raise self._out_of_range(offset)
            return self._reader.reading(
                offset, max_bytes, min(end_offset, log_end_offset), log_end_offset, at_least_one, is_cold=True
            )

        return await self._read_uncut(lambda: read(start()))

    async def find_offset_by_timestamp(self, timestamp_ms: int, cpu: Cpu) -> TimestampAndOffset | None:
        """The first record with this timestamp or a later one, below the high watermark. Batches are opened on ``cpu``.

        Raises:
            ApiError: CORRUPT_MESSAGE, a batch that must be opened was written without records in it.
            CorruptionError: a segment is broken where it stands.
            OSError: the device failed.
        """
        return await self._read_uncut(
            lambda: search_timestamp(cpu, self._segments, timestamp_ms, self.log_start_offset, self.high_watermark)
        )

    async def find_max_timestamp(self, cpu: Cpu) -> TimestampAndOffset | None:
        """The first record with the largest timestamp; None if no record has one. Raises as :meth:`find_offset_by_timestamp`."""
        return await self._read_uncut(lambda: search_max_timestamp(cpu, self._segments, self.log_start_offset))

    async def _read_uncut(self, attempt: Callable[[], Awaitable[Found]]) -> Found:
        """Read, and again if something was cut or removed meanwhile."""
        while True:
            cuts = self._unsynced.cuts
            try:
                found = await attempt()
            except (CorruptionError, OSError) as error:
                if cuts == self._unsynced.cuts:
                    if isinstance(error, CorruptionError):
                        self.note_rot(error)
                    raise
            else:
                if cuts == self._unsynced.cuts:
                    return found

    def _out_of_range(self, offset: int) -> ApiError:
        return ApiError(
            ErrorCode.offset_out_of_range,
            f"Offset {offset} is not within {self.log_start_offset} and {self.log_end_offset}",
        )

    # --- flush ---------------------------------------------------------------------------------------------------------------------

    async def flush(self) -> bool:
        """Make what was appended before the call durable, then move the recovery point.

        Returns:
            Whether that was done. It was not if the log is offline, or there was no room for indexes or leader epochs: then what is missing
            is flushed by the next call.

        Raises:
            OSError: the device failed, finally (SYNC-1): the log is offline.
        """
        if self.is_offline:
            return False
        try:
            return await sync(self._flushing(), self.files.disk)
        except OSError:
            self.take_offline()
            raise

    def flush_blocking(self) -> bool:
        """As :meth:`flush`, on the calling thread."""
        if self.is_offline:
            return False
        try:
            return sync_blocking(self._flushing(), self.files.disk)
        except OSError:
            self.take_offline()
            raise

    def close_blocking(self) -> None:
        """Flush, complete the indexes, leave a producer snapshot at the log end, and let go of the files (PROD-8).

        A log that nobody has written to since it was begun, or opened after an orderly stop, costs no sync.

        Raises:
            OSError: the device failed or is full; the log is not clean.
        """
        active = self._segments.active
        if not (self.is_offline or self._unsynced.is_untouched):
            active.seal()
            for segment in self._segments:
                segment.save_indexes()
            active.sync_indexes_blocking()
            if not self.flush_blocking():
                raise OSError(errno.ENOSPC, "no room for leader epochs", self.path)
            snapshot = snapshot_path(self.path, self.log_end_offset)
            if self.log_end_offset > self.first_segment_offset:
                self.files.disk.replace_file_blocking(snapshot, self.producers.encode())
        self.release()

    def release(self) -> None:
        """Let go of the files as they are."""
        self.files.release()

    def _flushing(self) -> Syncing[bool]:
        while True:
            cuts = self._unsynced.cuts
            end_offset = self.log_end_offset
            active_too = end_offset > self.recovery_point
            if (yield from self._unsynced.syncing(self._segments.active, active_too=active_too)):
                assert end_offset <= self.log_end_offset, "what was flushed is there still (LOG-1)"
                self.recovery_point = max(self.recovery_point, end_offset)
                return True
            if cuts == self._unsynced.cuts:
                return False
            # Segments were cut or taken out meanwhile: what is there now is flushed instead.

    def relocate(self, path: str) -> None:
        """The replica's directory was renamed (:meth:`esp.storage.log_directory.LogDirectory.adopt_future`); no flush is running."""
        self.files.relocate(path)

    # --- cut -----------------------------------------------------------------------------------------------------------------------

    def has_old_segments(self, now_ms: int) -> bool:
        """Whether segments are past the limits of retention or below the log start."""
        return count_old_segments(self, now_ms) > 0

    async def hide_old_segments(self, now_ms: int) -> int | None:
        """Let the log start behind the segments that are past the limits of retention; the active one is replaced if it is among them.

        No flush of this log may be running.

        Returns:
            Where the log starts then, or what stays of it after :meth:`drop_segments`; None if nothing is to be done.

        Raises:
            OSError: the device failed or is full; the log is as before.
        """
        return await sync(hiding_old_segments(self, now_ms), self.files.disk)

    async def drop_segments(self, below: int, now_ms: int) -> int:
        """Put segments aside that lie wholly below an offset, some at a time; return how many, 0 when there are no more.

        They are renamed ``*.deleted`` and removed by a later purge. No flush of this log may be running.

        Args:
            below: the log start, or less, as it is on the device: so no crash brings back a part of the segments.
            now_ms: wall time.

        Raises:
            OSError: the device failed or is full; segments that are still there go next time.
        """
        return await sync(dropping_segments(self, below, now_ms), self.files.disk)

    def delete_old_segments_blocking(self, now_ms: int) -> int:
        """All of retention on the calling thread, its checkpoint too; return how many segments were put aside. Raises OSError."""
        return delete_old_segments_blocking(self, now_ms)

    def truncate_to(self, offset: int) -> None:
        """Cut the log so that it ends at ``offset``, or before it where ``offset`` stands within a batch (LOG-9, TRUNC-6, PROD-9).

        Epochs that begin at ``offset`` or later are forgotten, also where no batch goes: one that this replica began to lead, and in which
        it appended nothing, is unknown to everybody else.

        Raises:
            OSError: the device failed or is full, or a segment is broken where it is to be cut: the log is offline.
        """
        truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and go on, empty, at ``offset`` (TRUNC-5).

        Raises:
            OSError: the device failed or is full: the log is offline.
        """
        truncate_fully_and_start_at(self, offset)
