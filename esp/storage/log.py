"""The append-only log of one replica: append, read, flush, cut.

Calling rules: everything is called from the node's loop, one call at a time; ``async`` methods may overlap with any other call.
``*_blocking`` methods wait for the device; a worker thread may run them while the loop leaves this log alone. :meth:`Log.truncate_to`,
:meth:`Log.truncate_fully_and_start_at` and the begin of a log's second segment sync small files as well. Only this package touches
:attr:`Log.files`.

Invariants (LOG-1): ``log_start_offset <= high_watermark <= log_end_offset`` and ``recovery_point <= log_end_offset``; all below the
recovery point was synced before it moved. A write that failed is cut away again, or the log takes no more (LOG-13).

Truncation removes a log's end, or all of it, and all that the log derived from the removed batches (LOG-9, TRUNC-5, TRUNC-6, PROD-9): the
recovery point and the high watermark go down, durably, before bytes go, and all that is cut is cut on the device too before the log takes
another batch. Retention (LOG-12; Kafka's ``UnifiedLog.deleteOldSegments``) has three steps: the log start is raised, it is made durable,
and the segments below it are put aside. The owner does the second for many logs at once. So no crash brings back a part of the segments.
"""

import errno
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from functools import partial
from typing import Final, TypeVar

from esp.model.buffers import Buffer
from esp.model.errors import ApiError, CorruptionError, ErrorCode
from esp.model.ids import TopicId, TopicPartition
from esp.model.retention_hold import DroppedFront, RetentionHold
from esp.ports.cpu import Cpu
from esp.records.batch_header import CONTROL_BIT, HeaderFields
from esp.records.transaction_marker import find_marker
from esp.settings.setting import LONG_MAX
from esp.settings.topic import TopicSettings
from esp.storage.aborted_transactions import AbortedTransactions
from esp.storage.leader_epochs import LeaderEpochs
from esp.storage.producer_snapshots import (
    LoadedProducers,
    LogEnd,
    load_producers_blocking,
    remove_snapshots,
    snapshot_path,
)
from esp.storage.producer_state import ProducerStates
from esp.storage.retention import OldSegments, SegmentSummary, find_doubtful, find_old_segments
from esp.storage.rolling import is_roll_due, roll_jitter_ms
from esp.storage.segment import Segment, noted_timestamp
from esp.storage.segment_files import CutPlace, SegmentFiles
from esp.storage.steps import Reading, Syncing, read, sync, sync_blocking
from esp.storage.time_proof import TimeProof
from esp.storage.timestamp_search import TimestampAndOffset, search_max_timestamp, search_timestamp
from esp.storage.transaction_index import AbortedTransaction

_logger = logging.getLogger(__name__)

Found = TypeVar("Found")

DROPPED_AT_ONCE_MAX: Final = 32
"""Segments that are put aside in one turn of the loop: some hundred renames, a millisecond."""


def _keep_nothing() -> None:
    """The callback of a log that has no other."""


class Log:
    """The log of a replica; made by :mod:`esp.storage.recovery`. Offsets are plain attributes, cheap to read.

    Args:
        partition: the log's name.
        topic_id: its topic's id.
        settings: the topic's; assignable at run time.
        files: the segments.
        leader_epochs: cut to the log.
        log_start_offset: the first offset that readers may ask for.
        log_end_offset: the next one to be assigned.
        recovery_point: all below it is synced.
        checkpoint_offsets: makes recovery points and log starts durable, called where that must come first.
        checkpoint_high_watermarks: the same of high watermarks.
    """

    __slots__ = (
        "_is_settled",
        "_reader",
        "_segments",
        "_settle_failure",
        "_unsynced",
        "aborted",
        "checkpoint_high_watermarks",
        "checkpoint_offsets",
        "checkpointed_high_watermark",
        "cleaned_to",
        "files",
        "high_watermark",
        "is_offline",
        "is_whole",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "on_offline",
        "on_rot",
        "partition",
        "producers",
        "recovery_point",
        "roll_jitter_ms",
        "rot",
        "settings",
        "topic_id",
        "truncations",
        "was_there",
    )

    def __init__(
        self,
        partition: TopicPartition,
        topic_id: TopicId,
        settings: TopicSettings,
        files: SegmentFiles,
        *,
        leader_epochs: LeaderEpochs,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        checkpoint_offsets: Callable[[], None] = _keep_nothing,
        checkpoint_high_watermarks: Callable[[], None] = _keep_nothing,
    ) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.settings = settings
        self.leader_epochs = leader_epochs
        self.producers = ProducerStates()
        self._is_settled = False
        self._settle_failure: OSError | None = None
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset
        self.recovery_point = recovery_point
        self.cleaned_to = 0
        """The end of the part that compaction has cleaned; beyond the log, it counts as the log start."""
        self.truncations = 0
        """Rises with each cut of the log's end."""
        self.is_offline = False
        """True if an error of the device left the log in doubt (LOG-13, SYNC-1): nothing is appended or flushed any more."""
        self.is_whole = True
        """True if nothing was missing when it was opened but a write that was cut off (BRK-3)."""
        self.was_there = True
        """True if it had a segment when it was opened (BRK-11)."""
        self.on_offline: Callable[[], None] = _keep_nothing
        """Called, on any thread, before any other part of the node learns that the log is offline."""
        self.checkpointed_high_watermark = 0
        """The offset in the checkpoint when the log was opened, even if it was beyond the log's end."""
        self.rot: CorruptionError | None = None
        """The first corruption that was found, if any: bytes that are not what was written (REC-4)."""
        self.on_rot: Callable[[], None] = _keep_nothing
        """Called when :attr:`rot` is set."""
        self.checkpoint_offsets = checkpoint_offsets
        self.checkpoint_high_watermarks = checkpoint_high_watermarks
        self.files = files
        self.aborted = AbortedTransactions(files, self.note_rot)
        # Appends and reads reach them on every call.
        self._segments = files.segments
        self._unsynced = files.unsynced
        self._reader = files.reader
        self.set_roll_jitter()

    @property
    def path(self) -> str:
        """The replica's directory."""
        return self.files.path

    @property
    def unflushed_batches(self) -> int:
        """Batches appended and not flushed: with :attr:`unflushed_bytes` the cost of a recovery now."""
        return self._unsynced.appended_batches - self._unsynced.flushed_batches

    @property
    def unflushed_bytes(self) -> int:
        """Bytes appended and not flushed."""
        return self._unsynced.appended_bytes - self._unsynced.flushed_bytes

    @property
    def has_unflushed_segment(self) -> bool:
        """True if a segment was rolled and is not flushed yet: the owner then flushes in the background."""
        return self._unsynced.has_segments

    @property
    def names_are_durable(self) -> bool:
        """True if no creation, rename or removal in the directory waits for a sync."""
        return not self._unsynced.has_names

    @property
    def cuts(self) -> int:
        """Rises whenever batches are cut, removed, or replaced by compaction: what was read before need not stand here any more."""
        return self._unsynced.cuts

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self._segments.size

    @property
    def first_segment_offset(self) -> int:
        """Base offset of the oldest segment."""
        return self._segments[0].base_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction is decided, and the decision committed (LSO-1); never below the log start."""
        high_watermark = self.high_watermark
        if not self.producers.has_transactions:
            return high_watermark
        unstable = self.producers.first_unstable_offset(high_watermark)
        if unstable is None or unstable >= high_watermark:
            return high_watermark
        return max(unstable, self.log_start_offset)

    @property
    def sealed_end_offset(self) -> int:
        """Base offset of the active segment: offsets below it are written no more."""
        return self._segments.active.base_offset

    def check_offsets(self) -> None:
        """Assert LOG-1. Asked where offsets are installed, not with every batch: in between they only rise in step."""
        start, committed, end = self.log_start_offset, self.high_watermark, self.log_end_offset
        assert start <= committed <= end, f"{self.path}: {start} <= {committed} <= {end} does not hold (LOG-1)"
        assert self.recovery_point <= end, f"{self.path}: flushed is {self.recovery_point} of {end} (LOG-1)"
        assert self.first_segment_offset <= start, f"{self.path}: starts at {start}, before its segments"
        assert self.sealed_end_offset <= end, f"{self.path}: ends at {end}, before its active segment"

    def take_offline(self) -> None:
        """Take nothing more: the device has failed, and written bytes may not be there any more."""
        if not self.is_offline:
            self.is_offline = True
            self.on_offline()

    def note_rot(self, error: CorruptionError) -> None:
        """Note corruption: bytes are not the ones that were written. The first report counts."""
        if self.rot is None:
            self.rot = error
            _logger.error("%s: %s", self.path, error)
            self.on_rot()

    def note_rot_of_segments(self) -> None:
        """Report the batches that did not match their checksums when the segments were opened, or cut."""
        for segment in self._segments:
            if segment.time_rot is not None:
                self.note_rot(segment.time_rot)

    def raise_log_start(self, offset: int) -> None:
        """Hide all below ``offset``, which is at most the high watermark (LOG-12); a smaller one than now changes nothing."""
        assert offset <= self.high_watermark, "the log start never passes the high watermark (LOG-12)"
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)

    def lower_recovery_point(self, offset: int) -> None:
        """Lower the recovery point before bytes from ``offset`` on go: it would vouch for later batches there that were never synced.

        Raises:
            OSError: the device failed.
        """
        if offset < self.recovery_point:
            self.recovery_point = offset
            self.checkpoint_offsets()

    def lower_high_watermark(self, offset: int) -> None:
        """Lower the high watermark before bytes from ``offset`` on go: its checkpoint would report them lost after a kill (REC-11).

        Raises:
            OSError: the device failed.
        """
        if offset < self.high_watermark:
            self.high_watermark = offset
            self.checkpoint_high_watermarks()

    def note_cleaned(self, offset: int) -> None:
        """Note that a round of compaction has cleaned all below ``offset``; the owner writes the checkpoint."""
        self.cleaned_to = offset

    def begin_segment(self, base_offset: int, now_ms: int) -> None:
        """Go on in a new segment from ``base_offset`` on, which is at or above the log end.

        Raises:
            OSError: the device failed or is full; the log is as before.
        """
        assert base_offset >= self.log_end_offset, "offsets of a log rise (LOG-2)"
        self.files.begin_segment(base_offset, self.producers, self.settings, now_ms)
        self.log_end_offset = base_offset
        self.set_roll_jitter()

    def load_producers_blocking(self, now_ms: int | None, expiration_ms: int, unindexed_from: int = LONG_MAX) -> None:
        """Read the producers' state at the log end anew (PROD-9), and the transaction index of the active segment.

        Args:
            now_ms: wall time, at which producers expire; None: none do.
            expiration_ms: see :meth:`~esp.storage.producer_state.ProducerStates.expire`.
            unindexed_from: the base of the first segment whose transaction index may lack entries.

        Raises:
            CorruptionError: batches are broken.
            OSError: the device failed.
        """
        segments = self._segments
        end = LogEnd(len(segments) - 1, segments.active.size, self.log_end_offset)
        loaded = self._read_producers_blocking(end, now_ms, expiration_ms, unindexed_from)
        self._install_producers_blocking(loaded, unindexed_from)

    def _read_producers_blocking(
        self, end: LogEnd, now_ms: int | None, expiration_ms: int, unindexed_from: int
    ) -> LoadedProducers:
        files = self.files
        return load_producers_blocking(
            files.disk,
            files.path,
            files.segments,
            end,
            min(self.high_watermark, end.offset),
            now_ms,
            expiration_ms,
            self.note_rot,
            unindexed_from,
        )

    def _install_producers_blocking(self, loaded: LoadedProducers, unindexed_from: int) -> None:
        self.producers = loaded.states
        self.files.unsynced.on_snapshots(loaded.written)
        self.aborted.load_blocking(unindexed_from, loaded.ended)

    def set_roll_jitter(self) -> None:
        """Choose the jitter of ``segment.jitter.ms`` for the segment that is active now."""
        self.roll_jitter_ms = roll_jitter_ms(self.settings, self.partition, self._segments.active.base_offset)

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
        base_offset, _, epoch, _, _, attributes, delta, _, max_timestamp, producer_id, _, _, count = header
        if not count:
            max_timestamp = noted_timestamp(header)
        last_offset = base_offset + delta
        size = len(batch)
        settings = self.settings
        segment = self._segments.active
        assert base_offset >= self.log_end_offset, "offsets of a log rise (LOG-2)"
        if (
            segment.size + size > settings.segment_bytes
            or max_timestamp - segment.first_timestamp > settings.roll_ms - self.roll_jitter_ms
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
            if attributes & CONTROL_BIT:
                self._end_transaction(batch, header)
            else:
                self.producers.update(header)
        unsynced = self._unsynced
        unsynced.appended_batches += 1
        unsynced.appended_bytes += size
        self.log_end_offset = last_offset + 1

    def _end_transaction(self, marker: Buffer, header: HeaderFields) -> None:
        """Note the end of a transaction, whose marker was appended."""
        completed = self.producers.update(header, find_marker(marker))
        if completed is not None:
            self.aborted.add(completed)
        # This forgets what is committed, also where no reader asks.
        self.producers.first_unstable_offset(self.high_watermark)

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
        them (LOG-10), and where none does, the epoch left no trace that a replica or client could ask for.
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
        """Cut away the remains of a failed write (LOG-13, REC-9); the log goes offline where that fails."""
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
            offset: the reader's position.
            max_bytes: the most that is returned.
            end_offset: the end of the visible part: the high watermark or the log end, where a batch begins or the log ends.
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
        """Read like :meth:`read`, waiting for the device off the loop."""

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
            lambda: search_timestamp(
                cpu,
                self._segments,
                timestamp_ms,
                self.log_start_offset,
                self.high_watermark,
                partial(self._prove_time, cpu),
            )
        )

    async def find_max_timestamp(self, cpu: Cpu) -> TimestampAndOffset | None:
        """The first record with the largest timestamp; None if no record has one. Raises as :meth:`find_offset_by_timestamp`."""
        return await self._read_uncut(
            lambda: search_max_timestamp(cpu, self._segments, self.log_start_offset, partial(self._prove_time, cpu))
        )

    async def _prove_time(self, cpu: Cpu, segment: Segment) -> None:
        """Read a segment whose time index does not match its batches, and keep right indexes in memory.

        The loop goes on meanwhile; if the log is cut, nothing is kept, and the search begins again.
        """
        with closing(TimeProof(segment, self._unsynced.cuts)) as proof:
            await proof.read(cpu)
            if proof.cuts == self._unsynced.cuts:
                for error in proof.rot:
                    self.note_rot(error)
                proof.adopt(is_active=segment is self._segments.active)

    async def find_aborted_transactions(self, start_offset: int, end_offset: int, cpu: Cpu) -> list[AbortedTransaction]:
        """The aborted transactions with records or a marker in ``[start_offset, end_offset)``, in the order of their markers (LSO-2).

        ``aborted.find`` has them at once where no index must be read.

        Args:
            start_offset: the first offset that is read.
            end_offset: the offset after the last one; at most the last stable offset, as undecided transactions are left out.
            cpu: reads the batches that indexes have to be compared with.

        Raises:
            CorruptionError: a segment is broken.
            OSError: the device failed.
        """
        return await self._read_uncut(lambda: self.aborted.find_cold(start_offset, end_offset, cpu))

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
        """Make all that was appended before the call durable, then move the recovery point.

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
        """Flush like :meth:`flush`, on the calling thread."""
        if self.is_offline:
            return False
        try:
            return sync_blocking(self._flushing(), self.files.disk)
        except OSError:
            self.take_offline()
            raise

    @property
    def is_settled(self) -> bool:
        """True if :meth:`settle_blocking` has nothing to do, or has been called."""
        return self._is_settled or self.is_offline or self._unsynced.is_untouched

    @property
    def is_of_this_process(self) -> bool:
        """True if no other process has left anything in the files that may not be on the device."""
        return self._unsynced.is_of_this_process

    def settle_blocking(self) -> None:
        """Flush, complete the indexes, and leave a producer snapshot at the log end (PROD-8): nothing is written to the log any more.

        A log that was not written to since it was begun, or opened after a clean shutdown, costs no sync. Several logs may be settled
        at a time, each in a thread of its own. What failed is not tried again (SYNC-1): :meth:`close_blocking` raises it once more.

        Raises:
            OSError: the device failed or is full; the log is not clean.
        """
        if self.is_settled:
            return
        self._is_settled = True
        try:
            self._settle_blocking()
        except OSError as error:
            self._settle_failure = error
            raise

    def settling(self) -> Generator[None, None, None]:
        """Settle like :meth:`settle_blocking`, in steps; yields where all that was written before must be on the device, names included.

        Only for a log that :attr:`is_of_this_process`. Raises OSError if the device failed, also if it is thrown at a yield.
        """
        if self.is_settled:
            return
        self._is_settled = True
        try:
            self._complete_indexes()
            yield from self._unsynced.settling(self._last_snapshot())
        except OSError as error:
            self._settle_failure = error
            raise
        self.recovery_point = self.log_end_offset

    def _settle_blocking(self) -> None:
        self._complete_indexes()
        self._segments.active.sync_indexes_blocking()
        if not self.flush_blocking():
            raise OSError(errno.ENOSPC, "no room for leader epochs", self.path)
        for path, data in self._last_snapshot().items():
            self.files.disk.replace_file_blocking(path, data)

    def _complete_indexes(self) -> None:
        self._segments.active.seal()
        for segment in self._segments:
            segment.save_indexes()

    def _last_snapshot(self) -> dict[str, bytes]:
        """The path and the bytes of the producer snapshot at the log end; none for an empty log."""
        if self.log_end_offset == self.first_segment_offset:
            return {}
        return {snapshot_path(self.path, self.log_end_offset): self.producers.encode()}

    def close_blocking(self) -> None:
        """Settle the log, if that was not done before, and let go of the files.

        Raises:
            OSError: the device failed or is full, now or when the log was settled; the log is not clean.
        """
        if self._settle_failure is not None:
            raise self._settle_failure
        self.settle_blocking()
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
                assert end_offset <= self.log_end_offset, "flushed records are still there (LOG-1)"
                self.recovery_point = max(self.recovery_point, end_offset)
                return True
            if cuts == self._unsynced.cuts:
                return False
            # Segments were cut or taken out meanwhile: what is there now is flushed instead.

    def relocate(self, path: str) -> None:
        """Follow the replica's directory to its new path (:meth:`.LogDirectory.adopt_future`); no flush is running."""
        self.files.relocate(path)

    # --- cut -----------------------------------------------------------------------------------------------------------------------

    def find_old_segments(self, now_ms: int, hold: RetentionHold | None = None) -> OldSegments:
        """The oldest segments that are past the limits of retention and not held, or below the log start; they may be removed now."""
        return find_old_segments(
            self._summaries(),
            self.settings,
            now_ms=now_ms,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            hold=hold,
        )

    def begin_time_proof(self, now_ms: int) -> TimeProof | None:
        """A reading of the first segment that only stays because its age rests on a time index file; None if there is none (REC-4).

        The owner reads it, which may go on beside all other calls, then :meth:`end_time_proof` follows, and ``close`` in any case.
        """
        if not any(segment.has_unproven_time for segment in self._segments):
            return None
        number = find_doubtful(
            self._summaries(),
            self.settings,
            now_ms=now_ms,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
        )
        return None if number is None else TimeProof(self._segments[number], self._unsynced.cuts)

    async def end_time_proof(self, proof: TimeProof, cpu: Cpu) -> bool:
        """Correct the segment's largest timestamp and its indexes if they were wrong.

        Returns False, and does nothing, if the log was cut meanwhile.

        No flush or cut of this log may be running.

        Raises:
            OSError: the device failed or is full; the segment is as before.
        """
        if proof.cuts != self._unsynced.cuts:
            return False
        await proof.read(cpu)
        if proof.is_wrong and proof.segment is not self._segments.active:
            await cpu.run(proof.save_blocking)
        self._conclude(proof)
        return True

    async def hide_old_segments(self, now_ms: int, hold: RetentionHold | None = None) -> DroppedFront | None:
        """Let the log start behind :meth:`find_old_segments`; the active one is replaced if it is among them.

        No flush of this log may be running.

        Returns:
            Where the log starts then, or what stays of it after :meth:`drop_segments`; None if nothing is to be done.

        Raises:
            OSError: the device failed or is full; the log is as before.
        """
        return await sync(self._hiding_old_segments(now_ms, hold), self.files.disk)

    async def drop_segments(self, below: int, now_ms: int) -> int:
        """Put segments aside that lie wholly below an offset, some at a time; return how many, 0 when there are no more.

        They are renamed ``*.deleted`` and removed by a later purge. No flush of this log may be running.

        Args:
            below: the log start, or less, as it is on the device: so no crash brings back a part of the segments.
            now_ms: wall time.

        Raises:
            OSError: the device failed or is full; segments that are still there go next time.
        """
        return await sync(self._dropping_segments(below, now_ms), self.files.disk)

    def delete_old_segments_blocking(self, now_ms: int) -> int:
        """Do all of retention on the calling thread, its checkpoint too; return the number of segments put aside. Raises OSError."""
        disk = self.files.disk
        while (proof := self.begin_time_proof(now_ms)) is not None:
            with closing(proof):
                proof.read_blocking()
                if proof.is_wrong and proof.segment is not self._segments.active:
                    proof.save_blocking()
                self._conclude(proof)
        front = sync_blocking(self._hiding_old_segments(now_ms, None), disk)
        if front is None:
            return 0
        self.checkpoint_offsets()
        dropped = 0
        while count := sync_blocking(self._dropping_segments(front.start_offset, now_ms), disk):
            dropped += count
        return dropped

    def truncate_to(self, offset: int) -> None:
        """Cut the log so that it ends at ``offset``, or before it where ``offset`` stands within a batch (LOG-9, TRUNC-6, PROD-9).

        One that is cut at its start is empty, and knows its producers and the epoch of the record before still; one that is cut below
        its start begins anew.

        Epochs that begin at ``offset`` or later are forgotten, also where no batch goes: an epoch in which this replica became leader and
        appended nothing is unknown to all other replicas.

        Raises:
            CorruptionError: the batch before the cut has rotted, so that its end cannot be known, or a segment cannot be read from which
                producers are to be known; nothing was cut, and the rot is noted.
            OSError: the device failed or is full: the log is offline.
        """
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            return
        if offset < self.log_start_offset:
            self.truncate_fully_and_start_at(offset)
            return
        try:
            self._cut(self.files.find_cut(offset))
        except CorruptionError as error:
            self.note_rot(error)
            raise
        except OSError:
            self.take_offline()
            raise

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and go on, empty, at ``offset`` (TRUNC-5).

        Raises:
            OSError: the device failed or is full: the log is offline.
        """
        files = self.files
        self._begin_truncation(offset if offset <= self.log_start_offset else 0)
        # A crash in the midst of it may leave any of the names; none of them is believed then.
        self.lower_recovery_point(0)
        self.lower_high_watermark(min(offset, self.log_start_offset))
        try:
            files.begin_anew(offset, self.settings)
            self.log_start_offset = self.log_end_offset = self.high_watermark = self.recovery_point = offset
            self.leader_epochs.clear()
            files.unsynced.save_epochs_blocking()
            self.producers = ProducerStates()
            self.aborted.may_exist = False
            files.unsynced.sync_identity_blocking()
            files.unsynced.sync_names_blocking()
            self.checkpoint_offsets()
        except OSError:
            self.take_offline()
            raise
        self.set_roll_jitter()
        self.check_offsets()

    def _cut(self, place: CutPlace) -> None:
        files = self.files
        end_offset = place.end_offset
        assert end_offset <= self.log_end_offset, "nothing at the offset or behind it stays (LOG-9)"
        if end_offset < self.log_start_offset:  # a batch that spans the log start would be cut
            self.truncate_fully_and_start_at(self.log_start_offset)
            return
        # Read before anything is cut: a segment that cannot be read leaves the log as it is, and not without its producers.
        segment = files.segments[place.number]
        end = LogEnd(place.number, segment.size if place.position is None else place.position, end_offset)
        producers = self._read_producers_blocking(end, None, 0, LONG_MAX)
        self._begin_truncation(end_offset)
        self.lower_recovery_point(end_offset)
        self.lower_high_watermark(end_offset)
        files.cut(place)
        self.note_rot_of_segments()
        self.log_end_offset = end_offset
        self.leader_epochs.truncate_from_end(end_offset)
        files.unsynced.save_epochs_blocking()
        remove_snapshots(files.disk, files.path, above=end_offset, below=self.first_segment_offset)
        self._install_producers_blocking(producers, LONG_MAX)
        files.unsynced.sync_names_blocking()
        self.set_roll_jitter()
        self.check_offsets()

    def _begin_truncation(self, offset: int) -> None:
        """Void what compaction knows of bytes from ``offset`` on: later batches there are not clean, nor is a round right that read them.

        The checkpoint of compaction goes down with that of recovery points, as only flushed batches are ever cleaned.
        """
        self.truncations += 1
        self.cleaned_to = min(self.cleaned_to, offset)

    def _summaries(self) -> list[SegmentSummary]:
        return [
            SegmentSummary(
                min(segment.next_base_offset, self.log_end_offset),
                segment.size,
                segment.age_reference_ms(),
                not segment.has_unproven_time,
            )
            for segment in self._segments
        ]

    def _conclude(self, proof: TimeProof) -> None:
        for error in proof.rot:
            self.note_rot(error)
        proof.conclude(is_active=proof.segment is self._segments.active)

    def _hiding_old_segments(self, now_ms: int, hold: RetentionHold | None) -> Syncing[DroppedFront | None]:
        segments = self.files.segments
        while count := (old := self.find_old_segments(now_ms, hold)).deletable:
            if count == len(segments):
                if (
                    count == 1 and not self.names_are_durable
                ):  # the first segment's name comes before a second one's (REC-3)
                    yield from self.files.unsynced.syncing_names()
                    continue  # something may have been appended meanwhile
                self.begin_segment(self.log_end_offset, now_ms)
            start_offset = segments[count].base_offset
            self.raise_log_start(start_offset)
            return DroppedFront(start_offset, old.broken)
        return None

    def _dropping_segments(self, below: int, now_ms: int) -> Syncing[int]:
        yield from self.files.unsynced.syncing_names()
        count = 0
        for segment in self.files.segments:
            if segment.next_base_offset > below or count == DROPPED_AT_ONCE_MAX:
                break
            count += 1
        if count:
            self.files.remove_front(count, now_ms + self.settings.file_delete_delay_ms)
            self.check_offsets()
            _logger.info(
                "%s: retention dropped %d segments below offset %d", self.path, count, self.first_segment_offset
            )
        return count
