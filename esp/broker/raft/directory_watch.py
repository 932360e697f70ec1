"""Watches the directory of the metadata log while the node runs, and writes its checkpoints.

Open files take what is written also after their directory was removed or unmounted, or another one was put in its place: a voter would
confirm records, and give votes, that its next start does not know. Such a node ends (RAFT-16).

The checkpoints tell the next start what was committed and on this disk, and what was flushed: a log that ends before, or is broken there,
has lost records, while a log that is broken behind has a torn tail (REC-4). A broker writes them for its data directories
(:mod:`esp.broker.replication.maintenance`). A mere controller has no such work, and ``metadata.log.dir`` may be a directory of its own:
there they are written here.
"""

import asyncio
import logging
from typing import Final

from esp.broker.tasks import Tasks
from esp.model.ids import METADATA_PARTITION
from esp.ports.env import Env
from esp.storage.log_directory import LogDirectory

_logger = logging.getLogger(__name__)

INTERVAL_US: Final = 5_000_000
"""Kafka's default of ``replica.high.watermark.checkpoint.interval.ms``."""


class MetadataDirectoryWatch:
    """The watch over the directory of one metadata log.

    Args:
        env: the outside; its host ends the node when the directory is not there any more.
        directory: the directory, in which the metadata log is open.
        directories_lock: held while a thread works on the directory's checkpoints.
        writes_checkpoints: whether no other part of the node writes them.
    """

    def __init__(
        self, env: Env, directory: LogDirectory, directories_lock: asyncio.Lock, *, writes_checkpoints: bool
    ) -> None:
        self._env = env
        self._directory = directory
        self._lock = directories_lock
        self._writes_checkpoints = writes_checkpoints
        self._log = directory.logs[METADATA_PARTITION]
        self._written: tuple[int, int, int] | None = None
        self._tasks = Tasks(env.host)

    def start(self) -> None:
        """Look at the directory from now on, every :data:`INTERVAL_US`."""
        self._tasks.start(self._repeat(), name="watch over the metadata log's directory")

    async def close(self) -> None:
        """Look no more. The directory may be closed then."""
        async with self._lock:  # a thread does not stop with the task that waits for it
            await self._tasks.stop()

    async def _repeat(self) -> None:
        while True:
            await self._env.clock.sleep_us(INTERVAL_US)
            try:
                async with self._lock:
                    is_in_place = await self._env.cpu.run(self._look_blocking)
            except OSError as error:  # a full disk must not stop the node; a failed device ends it with the next flush
                _logger.error("the checkpoints of %s cannot be written, which is retried: %s", self._log.path, error)
                continue
            if not is_in_place:
                self._env.host.fatal(
                    f"{self._directory.path} was removed, unmounted or replaced while this node runs: it is not the one that was locked; "
                    "the metadata log was in this directory"
                )

    def _look_blocking(self) -> bool:
        """Write the checkpoints if they are out of date; False if the directory is not in place."""
        if not self._directory.is_in_place_blocking():
            return False
        log = self._log
        now = log.log_start_offset, log.recovery_point, log.high_watermark
        if self._writes_checkpoints and now != self._written:
            self._directory.write_checkpoints_blocking()
            self._written = now
        return True
