"""The checkpoints of one data directory, in Kafka's files.

These are the recovery points, log starts and high watermarks of the logs in it, and the offsets up to which they were compacted.
"""

from collections.abc import Callable, Iterable

from esp.model.ids import METADATA_PARTITION, TopicPartition
from esp.ports.disk import Disk
from esp.storage.checkpoints import read_checkpoint, write_checkpoint_blocking
from esp.storage.disk_reserve import DiskReserve
from esp.storage.layout import CLEANER_OFFSET_FILE, HIGH_WATERMARK_FILE, LOG_START_FILE, RECOVERY_POINT_FILE
from esp.storage.log import Log
from esp.storage.recovery import KnownOffsets


class OffsetCheckpoints:
    """The checkpoint files of a data directory, read and brought up to date. Entries of replicas that are there and not loaded are kept.

    Args:
        disk: the disk of the data directory.
        path: the path of the data directory.
        reserve: room for them.
        logs: the open logs of the directory.
        is_there: whether a replica has a directory here, be it loaded or not.
    """

    def __init__(
        self,
        disk: Disk,
        path: str,
        reserve: DiskReserve,
        logs: Callable[[], Iterable[Log]],
        is_there: Callable[[TopicPartition], bool],
    ) -> None:
        self._disk = disk
        self._path = path
        self._reserve = reserve
        self._logs = logs
        self._is_there = is_there
        self._recovery_points: dict[TopicPartition, int] = {}
        self._log_starts: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._cleaned: dict[TopicPartition, int] = {}

    def read(self) -> None:
        """Read the files."""
        self._recovery_points = read_checkpoint(self._disk, f"{self._path}/{RECOVERY_POINT_FILE}")
        self._log_starts = read_checkpoint(self._disk, f"{self._path}/{LOG_START_FILE}")
        self._high_watermarks = read_checkpoint(self._disk, f"{self._path}/{HIGH_WATERMARK_FILE}")
        self._cleaned = read_checkpoint(self._disk, f"{self._path}/{CLEANER_OFFSET_FILE}")

    def known(self, partition: TopicPartition) -> KnownOffsets:
        """The checkpointed offsets of one log."""
        return KnownOffsets(
            self._recovery_points.get(partition, 0),
            self._log_starts.get(partition, 0),
            self._high_watermarks.get(partition, 0),
            self._cleaned.get(partition, 0),
            has_log_start=partition in self._log_starts,
        )

    def adopt(self, partition: TopicPartition, offsets: KnownOffsets) -> None:
        """A log of that name comes back with the offsets that it had; they are in the files with the next write."""
        self._recovery_points[partition] = offsets.recovery_point
        self._high_watermarks[partition] = offsets.high_watermark
        for known, offset, is_there in (
            (self._log_starts, offsets.log_start_offset, offsets.has_log_start),
            (self._cleaned, offsets.cleaned_to, offsets.cleaned_to > 0),
        ):
            known.pop(partition, None)
            if is_there:
                known[partition] = offset

    def forget_blocking(self, partition: TopicPartition) -> None:
        """Drop the offsets of earlier logs of that name, so that a new one does not get them. Raises OSError.

        Entries of all replicas that are gone are dropped with the same write: a topic that comes again costs one write, not one
        for each of its partitions.
        """
        for name, offsets in (
            (RECOVERY_POINT_FILE, self._recovery_points),
            (LOG_START_FILE, self._log_starts),
            (HIGH_WATERMARK_FILE, self._high_watermarks),
            (CLEANER_OFFSET_FILE, self._cleaned),
        ):
            if partition in offsets:
                kept = self._still_there(offsets)
                kept.pop(partition, None)
                self._write(name, kept)
                offsets.clear()
                offsets.update(kept)

    def write_offsets_blocking(self) -> None:
        """Write the checkpoints of log starts, recovery points and compaction. Raises OSError.

        In this order: a process that is killed in between must not leave an old log start below a new recovery point, which would have
        segments missed that were put aside (REC-11).
        """
        self.write_log_starts_blocking()
        self.write_recovery_points_blocking()
        self.write_cleaned_blocking()

    def write_recovery_points_blocking(self) -> None:
        """Write the checkpoint of recovery points. Raises OSError."""
        self._reserve.replenish_blocking()
        recovery_points = self._still_there(self._recovery_points)
        recovery_points.update({log.partition: log.recovery_point for log in self._logs()})
        self._write(RECOVERY_POINT_FILE, recovery_points)
        self._recovery_points = recovery_points

    def write_log_starts_blocking(self) -> None:
        """Write the checkpoint of log starts. Raises OSError.

        Kafka has no line for a log that starts with its first segment. Here it has one: otherwise the loss of this segment would go
        unnoticed (REC-11).
        """
        log_starts = self._still_there(self._log_starts)
        log_starts.update({log.partition: log.log_start_offset for log in self._logs()})
        self._write(LOG_START_FILE, log_starts)
        self._log_starts = log_starts

    def write_high_watermarks_blocking(self) -> None:
        """Write the checkpoint of high watermarks, which Kafka does more often than the others. Raises OSError."""
        high_watermarks = self._still_there(self._high_watermarks)
        for log in self._logs():
            # What the metadata log's says the next start takes for what is committed and on this disk: see esp/broker/raft/start.py.
            is_metadata = log.partition == METADATA_PARTITION
            committed = min(log.high_watermark, log.recovery_point) if is_metadata else log.high_watermark
            high_watermarks[log.partition] = committed
        self._write(HIGH_WATERMARK_FILE, high_watermarks)
        self._high_watermarks = high_watermarks

    def write_cleaned_blocking(self) -> None:
        """Write the checkpoint of compaction, with a line for each log that is compacted and has been cleaned. Raises OSError."""
        cleaned = self._still_there(self._cleaned)
        for log in self._logs():
            cleaned.pop(log.partition, None)
            if log.settings.is_compacted and log.cleaned_to:
                cleaned[log.partition] = log.cleaned_to
        if cleaned != self._cleaned:
            self._write(CLEANER_OFFSET_FILE, cleaned)
            self._cleaned = cleaned

    def _still_there(self, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """A copy without the replicas that were put aside."""
        return {partition: offset for partition, offset in offsets.items() if self._is_there(partition)}

    def _write(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        self._reserve.write_blocking(lambda: write_checkpoint_blocking(self._disk, f"{self._path}/{name}", offsets))
