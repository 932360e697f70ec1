"""What one log is at a moment, and the steps by which that changes: its offsets, epochs and producers, its segments, what is wrong with it.

:class:`~esp.storage.log.Log` is this and what its owner may do with it. The modules of this package that change a log as a whole
(:mod:`esp.storage.truncation`, :mod:`esp.storage.retention`) work on it; nobody outside the package touches :attr:`LogState.files`.

Invariants (LOG-1): ``log_start_offset <= high_watermark <= log_end_offset`` and ``recovery_point <= log_end_offset``; what lies below the
recovery point was synced before it moved.
"""

import logging
from collections.abc import Callable

from esp.model.errors import CorruptionError
from esp.model.ids import TopicId, TopicPartition
from esp.model.topic_settings import TopicSettings
from esp.storage.leader_epochs import LeaderEpochs
from esp.storage.producer_state import ProducerStates
from esp.storage.rolling import roll_jitter_ms
from esp.storage.segment_files import SegmentFiles

_logger = logging.getLogger(__name__)


def _keep_nothing() -> None:
    """Somebody else does it, or nobody has to."""


class LogState:
    """Offsets are plain attributes, cheap to read.

    Args:
        partition: the log's name.
        topic_id: its topic's id.
        settings: the topic's; assignable at run time.
        files: the segments.
        leader_epochs: cut to the log.
        log_start_offset: the first offset that readers may ask for.
        log_end_offset: the next one to be assigned.
        recovery_point: what lies below it is synced.
        checkpoint_offsets: makes recovery points and log starts durable, called where that must come first.
        checkpoint_high_watermarks: the same of high watermarks.
    """

    __slots__ = (
        "_reader",
        "_segments",
        "_unsynced",
        "checkpoint_high_watermarks",
        "checkpoint_offsets",
        "checkpointed_high_watermark",
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
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset
        self.recovery_point = recovery_point
        self.is_offline = False
        """Whether an error of the device left the log in doubt (LOG-13, SYNC-1): nothing is appended or flushed any more."""
        self.is_whole = True
        """Whether nothing was missing when it was opened but a write that was cut off (BRK-3)."""
        self.was_there = True
        """Whether it had a segment when it was opened (BRK-11)."""
        self.on_offline: Callable[[], None] = _keep_nothing
        """Called, on any thread, before anybody learns that the log is offline."""
        self.checkpointed_high_watermark = 0
        """What the checkpoint said when the log was opened, be it beyond the log's end."""
        self.rot: CorruptionError | None = None
        """What was found first that is not what was written, if anything was (REC-4)."""
        self.on_rot: Callable[[], None] = _keep_nothing
        """Called when :attr:`rot` is set."""
        self.checkpoint_offsets = checkpoint_offsets
        self.checkpoint_high_watermarks = checkpoint_high_watermarks
        self.files = files
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
        """Whether a segment was rolled and is not flushed yet: the owner then flushes in the background."""
        return self._unsynced.has_segments

    @property
    def names_are_durable(self) -> bool:
        """Whether no creation, rename or removal in the directory waits for a sync."""
        return not self._unsynced.has_names

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

    def check_offsets(self) -> None:
        """Assert LOG-1. Asked where offsets are installed, not with every batch: in between they only rise in step."""
        start, committed, end = self.log_start_offset, self.high_watermark, self.log_end_offset
        assert start <= committed <= end, f"{self.path}: {start} <= {committed} <= {end} does not hold (LOG-1)"
        assert self.recovery_point <= end, f"{self.path}: flushed is {self.recovery_point} of {end} (LOG-1)"
        assert self.first_segment_offset <= start, f"{self.path}: starts at {start}, before its segments"
        assert self.sealed_end_offset <= end, f"{self.path}: ends at {end}, before its active segment"

    def take_offline(self) -> None:
        """Take nothing more: the device has failed, and what was written may not be there any more."""
        if not self.is_offline:
            self.is_offline = True
            self.on_offline()

    def note_rot(self, error: CorruptionError) -> None:
        """Something was found that is not what was written; the first time counts."""
        if self.rot is None:
            self.rot = error
            _logger.error("%s: %s", self.path, error)
            self.on_rot()

    def raise_log_start(self, offset: int) -> None:
        """Hide what lies below ``offset``, which is at most the high watermark (LOG-12); a smaller one than now changes nothing."""
        assert offset <= self.high_watermark, "the log start never passes the high watermark (LOG-12)"
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)

    def lower_recovery_point(self, offset: int) -> None:
        """Bytes from ``offset`` on are about to go. One on disk beyond it would have those believed that follow and were never synced.

        Raises:
            OSError: the device failed.
        """
        if offset < self.recovery_point:
            self.recovery_point = offset
            self.checkpoint_offsets()

    def lower_high_watermark(self, offset: int) -> None:
        """Bytes from ``offset`` on are about to go. One on disk beyond it would have them missed after the end of the process (REC-11).

        Raises:
            OSError: the device failed.
        """
        if offset < self.high_watermark:
            self.high_watermark = offset
            self.checkpoint_high_watermarks()

    def begin_segment(self, base_offset: int, now_ms: int) -> None:
        """Go on in a new segment from ``base_offset`` on, which is at or above the log end.

        Raises:
            OSError: the device failed or is full; the log is as before.
        """
        assert base_offset >= self.log_end_offset, "offsets of a log rise (LOG-2)"
        self.files.begin_segment(base_offset, self.producers, self.settings, now_ms)
        self.log_end_offset = base_offset
        self.set_roll_jitter()

    def set_roll_jitter(self) -> None:
        """Another segment is the active one."""
        self.roll_jitter_ms = roll_jitter_ms(self.settings, self.partition, self._segments.active.base_offset)
