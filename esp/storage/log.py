"""The append-only log of one replica: segments in order, leader epochs, producers, and how far all that is flushed.

Who may call what: everything is called from the node's loop, one call at a time; ``async`` methods may overlap with any other call.
``*_blocking`` methods wait for the device; a worker thread may run them while the loop leaves this log alone. :meth:`Log.truncate_to`,
:meth:`Log.truncate_fully_and_start_at`, the begin of a log's second segment and, when something is due, :meth:`Log.delete_old_segments`
sync small files as well.

Invariants (LOG-1): ``log_start_offset <= high_watermark <= log_end_offset`` and ``recovery_point <= log_end_offset``; what lies below the
recovery point was synced before it moved. A write that failed is cut away again, or the log takes no more (LOG-13).
"""

import errno
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from esp.model.errors import ApiError, CorruptionError, ErrorCode
from esp.model.ids import TopicId, TopicPartition
from esp.model.topic_settings import TopicSettings
from esp.ports.disk import Disk
from esp.ports.network import Buffer
from esp.records.batch_header import BatchHeader, HeaderFields
from esp.storage.layout import DELETED_SUFFIX
from esp.storage.leader_epochs import LeaderEpochs
from esp.storage.log_reader import LogReader
from esp.storage.producer_snapshots import load_producers_blocking, remove_snapshots, snapshot_path
from esp.storage.producer_state import ProducerStates
from esp.storage.retention import SegmentSummary, count_deletable
from esp.storage.rolling import is_roll_due, roll_jitter_ms
from esp.storage.segment import Segment, find_batch
from esp.storage.segment_recovery import IndexTrust, restore_segment_blocking
from esp.storage.segments import Segments
from esp.storage.steps import Reading, Syncing, read, read_blocking, sync, sync_blocking
from esp.storage.timestamp_search import TimestampAndOffset, search_max_timestamp, search_timestamp
from esp.storage.trash import Trash
from esp.storage.unsynced import Unsynced

_logger = logging.getLogger(__name__)

Found = TypeVar("Found")


def _keep_nothing() -> None:
    """Somebody else does it, or nobody has to."""


class Log:
    """One replica's log; made by :mod:`esp.storage.recovery`. Offsets are plain attributes, cheap to read.

    Args:
        disk: where it lives.
        path: the replica's directory.
        partition: its name.
        topic_id: its topic's id.
        settings: the topic's; assignable at run time.
        segments: at least one, the active one with its indexes in memory.
        leader_epochs: cut to the log.
        log_start_offset: the first offset that readers may ask for.
        log_end_offset: the next one to be assigned.
        recovery_point: what lies below it is synced.
        trash: takes the files that are put aside.
        unsynced_segments: sealed ones that may not be synced.
        unsynced_snapshots: paths of producer snapshots that may not be synced.
        unsynced_directory: the directory above, if the replica's name in it is to be synced then.
        checkpoint_offsets: makes recovery points and log starts durable, called where that must come first.
    """

    __slots__ = (
        "_checkpoint_offsets",
        "_disk",
        "_reader",
        "_roll_jitter_ms",
        "_segments",
        "_trash",
        "_unsynced",
        "checkpointed_high_watermark",
        "high_watermark",
        "is_offline",
        "is_whole",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "on_offline",
        "on_rot",
        "partition",
        "path",
        "producers",
        "recovery_point",
        "rot",
        "settings",
        "topic_id",
    )

    def __init__(
        self,
        disk: Disk,
        path: str,
        partition: TopicPartition,
        topic_id: TopicId,
        settings: TopicSettings,
        segments: Segments,
        *,
        leader_epochs: LeaderEpochs,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        trash: Trash,
        unsynced_segments: Sequence[Segment] = (),
        unsynced_snapshots: Sequence[str] = (),
        unsynced_directory: str | None = None,
        checkpoint_offsets: Callable[[], None] = _keep_nothing,
    ) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.path = path
        self.settings = settings
        self.leader_epochs = leader_epochs
        self.producers = ProducerStates()
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset
        self.recovery_point = recovery_point
        self.is_offline = False
        """Whether an error of the device left the log in doubt (LOG-13, SYNC-1): nothing is appended or flushed any more."""
        self.is_whole = True
        """Whether nothing was missing when it was opened but a write that was cut off (BRK-3)."""
        self.on_offline: Callable[[], None] = _keep_nothing
        """Called, on any thread, before anybody learns that the log is offline."""
        self.checkpointed_high_watermark = 0
        """What the checkpoint said when the log was opened, be it beyond the log's end."""
        self.rot: CorruptionError | None = None
        """What was found first that is not what was written, if anything was (REC-4)."""
        self.on_rot: Callable[[], None] = _keep_nothing
        """Called when :attr:`rot` is set."""
        self._disk = disk
        self._segments = segments
        self._reader = LogReader(segments)
        for segment in segments:
            segment.suspect()
        self._trash = trash
        self._checkpoint_offsets = checkpoint_offsets
        self._unsynced = Unsynced(
            disk,
            path,
            leader_epochs,
            segments=list(unsynced_segments),
            snapshots=list(unsynced_snapshots),
            directory=unsynced_directory,
        )
        self._set_jitter()

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
        """Whether a segment was rolled and is not flushed yet: the owner then flushes in the background."""
        return self._unsynced.has_segments

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self._segments.size

    @property
    def first_segment_offset(self) -> int:
        """Base offset of the oldest segment."""
        return self._segments[0].base_offset

    @property
    def sealed_end_offset(self) -> int:
        """Base offset of the active segment: what lies below it is written no more."""
        return self._segments.active.base_offset

    @property
    def names_are_durable(self) -> bool:
        """Whether no creation, rename or removal in the directory waits for a sync."""
        return not self._unsynced.has_names

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
            or max_timestamp - segment.first_timestamp > settings.segment_ms - self._roll_jitter_ms
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
            self._roll(self.log_end_offset, now_ms)

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
            segment, self.settings, self._roll_jitter_ms, size=size, max_timestamp=max_timestamp, now_ms=now_ms
        )
        if is_due or last_offset > segment.last_offset_max:
            fits = last_offset - self.log_end_offset < segment.last_offset_max - segment.base_offset
            try:
                self._roll(self.log_end_offset if fits else base_offset, now_ms)
            except OSError as error:
                _logger.error("%s: no new segment can be made: %s", self.path, error)
                raise ApiError(ErrorCode.kafka_storage_error, f"No new segment can be made: {error}") from error
        return self._segments.active

    def _roll(self, base_offset: int, now_ms: int) -> None:
        if len(self._segments) == 1:
            self._unsynced.keep_front_blocking()
        old = self._segments.active
        snapshot = snapshot_path(self.path, base_offset)
        self._disk.write_file(snapshot, self.producers.encode())
        new = Segment(self._disk, self.path, base_offset, self.settings, now_ms)
        try:
            new.create()
        except OSError:
            new.close()
            raise
        old.seal()
        self._unsynced.save_indexes(old)
        self._segments.add(new)
        self._unsynced.on_roll(old, snapshot)
        self.log_end_offset = base_offset
        self._set_jitter()

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

    def take_offline(self) -> None:
        """Take nothing more: the device has failed, and what was written may not be there any more."""
        if not self.is_offline:
            self.is_offline = True
            self.on_offline()

    def _set_jitter(self) -> None:
        self._roll_jitter_ms = roll_jitter_ms(self.settings, self.partition, self._segments.active.base_offset)

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
            self._on_rot(error)
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

        return await self._read_uncut(start)

    async def find_offset_by_timestamp(self, timestamp_ms: int) -> TimestampAndOffset | None:
        """The first record with this timestamp or a later one, below the high watermark.

        Raises:
            CorruptionError: a segment is broken where it stands.
            OSError: the device failed.
        """
        return await self._read_uncut(
            lambda: search_timestamp(self._segments, timestamp_ms, self.log_start_offset, self.high_watermark)
        )

    async def find_max_timestamp(self) -> TimestampAndOffset | None:
        """The first record with the largest timestamp; None if no record has one. Raises as :meth:`find_offset_by_timestamp`."""
        return await self._read_uncut(lambda: search_max_timestamp(self._segments, self.log_start_offset))

    async def _read_uncut(self, start: Callable[[], Reading[Found]]) -> Found:
        """Run a reading, again if something was cut or removed meanwhile."""
        while True:
            cuts = self._unsynced.cuts
            try:
                found = await read(start())
            except (CorruptionError, OSError) as error:
                if cuts == self._unsynced.cuts:
                    if isinstance(error, CorruptionError):
                        self._on_rot(error)
                    raise
            else:
                if cuts == self._unsynced.cuts:
                    return found

    def _out_of_range(self, offset: int) -> ApiError:
        return ApiError(
            ErrorCode.offset_out_of_range,
            f"Offset {offset} is not within {self.log_start_offset} and {self.log_end_offset}",
        )

    def _on_rot(self, error: CorruptionError) -> None:
        if self.rot is None:
            self.rot = error
            _logger.error("%s: %s", self.path, error)
            self.on_rot()

    # --- flush ---------------------------------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Make what was appended before the call durable, then move the recovery point. Nothing happens when the log is offline.

        Raises:
            OSError: the device failed, finally (SYNC-1): the log is offline.
        """
        if not self.is_offline:
            try:
                await sync(self._flushing(), self._disk)
            except OSError:
                self.take_offline()
                raise

    def flush_blocking(self) -> None:
        """As :meth:`flush`, on the calling thread."""
        if not self.is_offline:
            try:
                sync_blocking(self._flushing(), self._disk)
            except OSError:
                self.take_offline()
                raise

    def close_blocking(self) -> None:
        """Flush, complete the indexes, leave a producer snapshot at the log end, and let go of the files (PROD-8).

        Raises:
            OSError: the device failed or is full; the log is not clean.
        """
        active = self._segments.active
        if not self.is_offline:
            active.seal()
            for segment in self._segments:
                segment.save_indexes()
            active.sync_indexes_blocking()
            self.flush_blocking()
            snapshot = snapshot_path(self.path, self.log_end_offset)
            if self.log_end_offset > self.first_segment_offset:
                self._disk.replace_file_blocking(snapshot, self.producers.encode())
        self.release()

    def release(self) -> None:
        """Let go of the files as they are."""
        for segment in self._segments:
            segment.close()

    def _flushing(self) -> Syncing[None]:
        end_offset = self.log_end_offset
        active_too = end_offset > self.recovery_point
        if (yield from self._unsynced.syncing(self._segments.active, active_too=active_too)):
            self.recovery_point = max(self.recovery_point, end_offset)

    def relocate(self, path: str) -> None:
        """The replica's directory was renamed (:meth:`esp.storage.log_directory.LogDirectory.adopt_future`); no flush is running."""
        self.path = path
        self._unsynced.relocate(path)
        for segment in self._segments:
            segment.relocate(path)

    # --- cut -----------------------------------------------------------------------------------------------------------------------

    def raise_log_start(self, offset: int) -> None:
        """Hide what lies below ``offset``, which is at most the high watermark (LOG-12); a smaller one than now changes nothing."""
        assert offset <= self.high_watermark, "the log start never passes the high watermark (LOG-12)"
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)

    def delete_old_segments(self, now_ms: int) -> int:
        """Put segments aside that are past the limits of retention or below the log start; return how many.

        They are renamed ``*.deleted`` and removed by a later purge. The log start is durable before, so that no crash brings back a part.

        Raises:
            OSError: the device failed or is full; segments that are still there go next time.
        """
        segments = self._segments
        summaries = [
            SegmentSummary(min(segment.next_base_offset, self.log_end_offset), segment.size, segment.age_reference_ms())
            for segment in segments
        ]
        count = count_deletable(
            summaries,
            self.settings,
            now_ms=now_ms,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
        )
        if not count:
            return 0
        if count == len(segments):
            self._roll(self.log_end_offset, now_ms)
        start_offset = segments[count].base_offset
        self.raise_log_start(start_offset)
        self._checkpoint_offsets()
        self._unsynced.keep_front_blocking()
        removed = segments.remove_front(count)
        self._put_aside(removed, now_ms + self.settings.file_delete_delay_ms)
        _logger.info("%s: retention dropped %d segments below offset %d", self.path, count, start_offset)
        return count

    def truncate_to(self, offset: int) -> None:
        """Cut the log so that it ends at ``offset``, or before it where ``offset`` stands within a batch (LOG-9, TRUNC-6, PROD-9).

        Epochs that begin at ``offset`` or later are forgotten, also where no batch goes: one that this replica began to lead, and in which
        it appended nothing, is unknown to everybody else.

        Raises:
            OSError: the device failed or is full, or a segment is broken where it is to be cut: the log is offline.
        """
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            return
        if offset <= max(self.first_segment_offset, self.log_start_offset):
            self.truncate_fully_and_start_at(offset)
            return
        try:
            self._cut(offset)
        except OSError:
            self.take_offline()
            raise
        except CorruptionError as error:
            self.take_offline()
            raise OSError(errno.EIO, f"the place to cut cannot be found: {error}", self.path) from error

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and go on, empty, at ``offset`` (TRUNC-5).

        Raises:
            OSError: the device failed or is full: the log is offline.
        """
        # A crash in the midst of it may leave any of the names; none of them is believed then.
        self._lower_recovery_point(0)
        try:
            created_ms = self._segments.active.created_ms
            self._put_aside(self._segments.remove_from(0), 0)
            segment = Segment(self._disk, self.path, offset, self.settings, created_ms)
            segment.create()
            self._segments.add(segment)
            self.log_start_offset = self.log_end_offset = self.high_watermark = self.recovery_point = offset
            self.leader_epochs.clear()
            self._unsynced.save_epochs_blocking()
            self.producers = ProducerStates()
            remove_snapshots(self._disk, self.path, above=-1, up_to=-1)
            self._unsynced.sync_names_blocking()
            self._checkpoint_offsets()
        except OSError:
            self.take_offline()
            raise
        self._set_jitter()

    def _cut(self, offset: int) -> None:
        segments = self._segments
        number = segments.floor(offset)
        if segments[number].base_offset == offset:
            number -= 1
        segment = segments[number]
        end_offset = segment.base_offset

        def is_cut(_position: int, header: BatchHeader) -> bool:
            nonlocal end_offset
            if header.last_offset < offset:
                end_offset = header.next_offset
            return header.last_offset >= offset

        indexes = read_blocking(segments.load_indexes(segment))
        start = read_blocking(segment.find_place(indexes, offset - 1))
        found = read_blocking(find_batch(segment.file, start, segment.size, is_cut))
        if end_offset < self.log_start_offset:  # a batch that spans the log start would be cut
            self.truncate_fully_and_start_at(self.log_start_offset)
            return
        self._lower_recovery_point(end_offset)
        segment.save_indexes()
        self._put_aside(segments.remove_from(number + 1), 0)
        if found is not None:
            # Durable at once: else a power loss could bring back old batches behind the ones that are appended next.
            segment.file.truncate(found[0])
            segment.file.sync_blocking()
        end = restore_segment_blocking(
            segment, self._disk, trusted_end=end_offset, trust=IndexTrust.FLUSHED, next_offset=segment.base_offset
        )
        assert end.reason is None
        assert end.next_offset == end_offset
        segment.save_indexes()
        self._set_end(end_offset)
        for kept in segments:
            kept.suspect()
        self._unsynced.sync_names_blocking()
        self._set_jitter()

    def _set_end(self, offset: int) -> None:
        """Let everything that follows from the batches end where they now do (TRUNC-6)."""
        self.log_end_offset = offset
        self.high_watermark = min(self.high_watermark, offset)
        self.leader_epochs.truncate_from_end(offset)
        self._unsynced.save_epochs_blocking()
        remove_snapshots(self._disk, self.path, above=offset, up_to=-1)
        self.producers = load_producers_blocking(self._disk, self.path, self._segments, offset, None, 0)

    def _lower_recovery_point(self, offset: int) -> None:
        """A recovery point on disk beyond what follows would have bytes believed that were never synced: it goes down first."""
        if offset < self.recovery_point:
            self.recovery_point = offset
            self._checkpoint_offsets()

    def _put_aside(self, segments: list[Segment], due_ms: int) -> None:
        """Rename the files of segments that were taken out of the log; readers keep what they hold."""
        self._reader.forget_places()
        removed = [(segment, path) for segment in segments for path in segment.files()]
        self._unsynced.on_cut(segments, [path for _segment, path in removed])
        for segment, path in removed:
            aside = path + DELETED_SUFFIX
            self._disk.rename(path, aside)
            self._trash.add(aside, due_ms, segment.close)
