"""Decides when a snapshot of the metadata is due, makes it beside the loop, and removes the log that it replaces (RAFT-30, RAFT-31).

A snapshot is made of the committed image; only when it is durable may the log's start move to the end of one. As in Kafka the start
moves when log and snapshots together take more than ``metadata.max.retention.bytes``, or the oldest snapshot is older than
``metadata.max.retention.ms``: not at once, so that a follower that was away for a while need not fetch everything anew.
"""

import logging

from esp.broker.raft.config import RaftConfig
from esp.broker.raft.loader import encode_snapshot
from esp.broker.raft.snapshots import MetadataSnapshots
from esp.controller.image import ClusterImage
from esp.model.errors import ApiError
from esp.ports.env import Env
from esp.raft.snapshot import SnapshotId, build_snapshot
from esp.raft.voter_history import VoterHistory
from esp.records.batch_header import read_header
from esp.schemas.control_records import ControlEntity, kraft_version
from esp.storage.log import Log

_logger = logging.getLogger(__name__)


class SnapshotKeeper:
    """The snapshots of one metadata log.

    Args:
        env: the outside.
        config: the limits.
        log: the metadata log.
        snapshots: its snapshots.
        voters: by the offset of their record.
    """

    def __init__(
        self, env: Env, config: RaftConfig, log: Log, snapshots: MetadataSnapshots, voters: VoterHistory
    ) -> None:
        self.snapshots = snapshots
        self._env = env
        self._settings = config.settings
        self._log = log
        self._voters = voters
        self._bytes_at_last = 0
        self._time_of_last_us = env.clock.monotonic_us()

    def is_due(self, applied_bytes: int) -> bool:
        """True if a snapshot should be made, ``applied_bytes`` having been committed since the start."""
        new_bytes = applied_bytes - self._bytes_at_last
        if new_bytes >= self._settings.metadata_log_max_record_bytes_between_snapshots:
            return True
        interval_us = self._settings.metadata_log_max_snapshot_interval_ms * 1000
        return 0 < interval_us <= self._env.clock.monotonic_us() - self._time_of_last_us and new_bytes > 0

    def is_news(self, image: ClusterImage) -> bool:
        """True if an image holds something that no snapshot holds."""
        latest = self.snapshots.latest
        return image.offset >= (self._log.log_start_offset if latest is None else latest.end_offset)

    def begin(self, applied_bytes: int) -> None:
        """A snapshot is being made, or was fetched: the next one is due when as much has come again."""
        self._bytes_at_last = applied_bytes
        self._time_of_last_us = self._env.clock.monotonic_us()

    async def write(self, image: ClusterImage) -> SnapshotId | None:
        """Make a snapshot of a committed image, durably.

        Returns:
            Its id; None if a snapshot that holds the image came first: the log may begin at that one already.

        Raises:
            OSError: the device failed or is full.
        """
        if not self.is_news(image):
            return None
        log = self._log
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        last = log.read(image.offset, 1, log.log_end_offset, at_least_one=True)
        if last is None:
            try:
                last = await log.read_cold(image.offset, 1, log.log_end_offset, at_least_one=True)
            except ApiError:
                if self.is_news(image):
                    raise
                return None
        timestamp_ms = read_header(last).max_timestamp
        voters, level = self._voters.at(snapshot_id.end_offset)
        control: list[ControlEntity] = [kraft_version(level), voters.to_record()] if level > 0 else []
        run = self._env.cpu.run
        values = await run(encode_snapshot, image)
        data = await run(
            build_snapshot,
            snapshot_id,
            control,
            values,
            last_contained_timestamp_ms=timestamp_ms,
            now_ms=self._env.clock.wall_ms(),
        )
        await run(self.snapshots.write_blocking, snapshot_id, data)
        self.snapshots.add(snapshot_id)
        _logger.info("%s is written, %d bytes", self.snapshots.path(snapshot_id), len(data))
        return snapshot_id

    def clean_blocking(self) -> None:
        """Remove what retention no longer keeps: the log before a snapshot, and the snapshots before that one.

        No thread may work on the directory's checkpoints meanwhile.

        Raises:
            OSError: the device failed or is full.
        """
        snapshots, log = self.snapshots, self._log
        start_offset = log.log_start_offset
        kept = list(snapshots.ids)
        while len(kept) > 1 and self._is_past_retention(kept):
            del kept[0]
            start_offset = kept[0].end_offset
        if start_offset > log.log_start_offset:
            now_ms = self._env.clock.wall_ms()
            log.raise_log_start(start_offset)
            log.delete_old_segments_blocking(now_ms)
        snapshots.remove_before(start_offset)

    def _is_past_retention(self, kept: list[SnapshotId]) -> bool:
        settings = self._settings
        size = self._log.size + sum(map(self.snapshots.size, kept))
        if 0 <= settings.metadata_max_retention_bytes < size:
            return True
        age_ms = self._env.clock.wall_ms() - self.snapshots.modified_ms(kept[0])
        return 0 <= settings.metadata_max_retention_ms < age_ms
