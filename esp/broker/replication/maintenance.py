"""The periodic work of a node: retention, scrubbing, checkpoints, flushes, idle producers' expiry, the trash, replicas that had no room.

Each job is a loop of its own, so that a slow one does not hold up the others.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from esp.broker.replication.host import ReplicaHost
from esp.broker.replication.read_errors import READ_ERRORS
from esp.broker.replication.retention import delete_old_segments
from esp.broker.replication.retention_holds import RetentionHolds
from esp.broker.replication.trash_guard import GUARD_INTERVAL_MS, TrashGuard
from esp.broker.tasks import Tasks
from esp.ports.env import Env
from esp.records.batch_header import find_end_offset
from esp.settings.broker import BrokerSettings
from esp.storage.log_directory import LogDirectory

log = logging.getLogger(__name__)

UNFLUSHED_BATCHES_MAX: Final = 100_000
"""Batches of a log that recovery after kill -9 may have to read: about 0.3 s of work.

Kafka leaves flushing to the operating system until a segment rolls, and reads a whole segment again after a crash; small batches make that
slow, large ones do not, so the number of batches decides.
"""

BACKGROUND_FLUSH_INTERVAL_MS: Final = 1_000
PURGE_INTERVAL_MS: Final = 5_000
SCRUB_BYTES: Final = 256 * 1024
SCRUB_BYTES_PER_S: Final = 8 * 1024 * 1024
"""A share of a disk's throughput that clients do not notice."""

MISSING_REPLICAS_INTERVAL_MS: Final = 10_000

Job = Callable[[], Awaitable[None]]


class Maintenance:
    """Runs the jobs until their tasks are stopped.

    Args:
        env: the outside.
        settings: the node's own.
        replicas: the replicas with the logs that it maintains.
        directories: the node's data directories.
        trash_guard: keeps the trash there within bounds.
        holds: the holds by which readers keep records.
    """

    def __init__(
        self,
        env: Env,
        settings: BrokerSettings,
        replicas: ReplicaHost,
        directories: Sequence[LogDirectory],
        trash_guard: TrashGuard,
        holds: RetentionHolds,
    ) -> None:
        self._env = env
        self._settings = settings
        self._replicas = replicas
        self._directories = directories
        self._trash_guard = trash_guard
        self._holds = holds

    def start(self, tasks: Tasks) -> None:
        """Start all jobs: each first after a delay, then again after each interval; once only where the interval is not above 0."""
        settings = self._settings
        delay_ms = settings.log_initial_task_delay_ms
        jobs: Sequence[tuple[str, int, int, Job]] = (
            ("retention", delay_ms, settings.log_retention_check_interval_ms, self.delete_old_segments),
            ("scrub", settings.log_scrub_interval_ms, settings.log_scrub_interval_ms, self.scrub),
            ("purge", PURGE_INTERVAL_MS, PURGE_INTERVAL_MS, self.purge),
            ("measuring of the trash", GUARD_INTERVAL_MS, GUARD_INTERVAL_MS, self._trash_guard.check),
            (
                "making of missing replicas",
                MISSING_REPLICAS_INTERVAL_MS,
                MISSING_REPLICAS_INTERVAL_MS,
                self._replicas.make_missing,
            ),
            ("flush", BACKGROUND_FLUSH_INTERVAL_MS, BACKGROUND_FLUSH_INTERVAL_MS, self.flush_what_is_due),
            (
                "checkpoint of high watermarks",
                settings.replica_high_watermark_checkpoint_interval_ms,
                settings.replica_high_watermark_checkpoint_interval_ms,
                self.write_high_watermarks,
            ),
            (
                "checkpoint of recovery points",
                delay_ms,
                settings.log_flush_offset_checkpoint_interval_ms,
                self.write_recovery_points,
            ),
            (
                "checkpoint of log starts",
                delay_ms,
                settings.log_flush_start_offset_checkpoint_interval_ms,
                self.write_log_starts,
            ),
            (
                "producer expiration",
                settings.producer_id_expiration_check_interval_ms,
                settings.producer_id_expiration_check_interval_ms,
                self.expire_producers,
            ),
        )
        for name, first_ms, interval_ms, job in jobs:
            tasks.start(self._repeat(name, first_ms, interval_ms, job), name=name)

    async def _repeat(self, name: str, first_ms: int, interval_ms: int, job: Job) -> None:
        await self._env.clock.sleep_us(max(0, first_ms) * 1000)
        while True:
            try:
                await job()
            except OSError as error:  # a full disk must not stop the node: what is undone is done the next time
                log.error("%s failed and is retried: %s", name, error)
            if interval_ms <= 0:  # Kafka's scheduler takes that for "once"
                return
            await self._env.clock.sleep_us(interval_ms * 1000)

    async def delete_old_segments(self) -> None:
        """Apply retention by time and size to every log."""
        await delete_old_segments(self._env, self._replicas, self._holds)

    async def scrub(self) -> None:
        """Read all sealed segments, slowly: what has rotted is found while other replicas have it (REC-4)."""
        for hosted in self._replicas:
            replica_log = hosted.log
            offset = replica_log.log_start_offset
            # A log that has rotted reports that itself, and one that was removed is none any more; a failing device is reported only here.
            try:
                while offset < replica_log.sealed_end_offset:
                    data = await replica_log.read_cold(
                        offset, SCRUB_BYTES, replica_log.sealed_end_offset, at_least_one=True
                    )
                    if not data:
                        break
                    offset = find_end_offset(data)
                    await self._env.clock.sleep_us(len(data) * 1_000_000 // SCRUB_BYTES_PER_S)
            except READ_ERRORS as error:
                if isinstance(error, OSError):
                    log.error("%s cannot be read at offset %d: %s", replica_log.path, offset, error)

    async def purge(self) -> None:
        """Remove the files whose ``file.delete.delay.ms`` has passed."""
        now_ms = self._env.clock.wall_ms()
        for directory in self._online():
            await self._env.cpu.run(directory.purge, now_ms)

    async def flush_what_is_due(self) -> None:
        """Flush logs that rolled a segment, or whose ``flush.ms`` has passed, or that recovery would have to read for too long."""
        now_us = self._env.clock.monotonic_us()
        was_long = False
        for hosted in self._replicas:
            replica_log = hosted.log
            is_long = replica_log.has_unflushed_segment or replica_log.unflushed_batches > UNFLUSHED_BATCHES_MAX
            if is_long or hosted.flush_is_due(now_us):
                await self._replicas.flush(hosted)
                was_long |= is_long
        if was_long:  # recovery would read it all the same until the recovery point is written down
            await self.write_recovery_points()

    async def write_high_watermarks(self) -> None:
        """Write down up to where each log is committed."""
        await self._write(LogDirectory.write_high_watermarks_blocking)

    async def write_recovery_points(self) -> None:
        """Write down up to where each log is on the device."""
        await self._write(LogDirectory.write_recovery_points_blocking)

    async def write_log_starts(self) -> None:
        """Write down where logs begin that do not begin with their first segment."""
        await self._write(LogDirectory.write_log_starts_blocking)

    async def _write(self, write_blocking: Callable[[LogDirectory], None]) -> None:
        """Write a checkpoint in each directory. One that is not there any more fails: open files take records that no start will find."""

        def write_in_place_blocking(directory: LogDirectory) -> bool:
            if is_in_place := directory.is_in_place_blocking():
                write_blocking(directory)
            return is_in_place

        async with self._replicas.directories_lock:
            for directory in self._online():
                if not await self._env.cpu.run(write_in_place_blocking, directory):
                    what = f"{directory.path} was removed, unmounted or replaced while this node runs"
                    self._replicas.fail(directory, f"{what}: it is not the one that was locked")

    def _online(self) -> list[LogDirectory]:
        """The directories that have not failed; a failed one is not written to."""
        return [directory for directory in self._directories if self._replicas.is_online(directory)]

    async def expire_producers(self) -> None:
        """Forget idempotent producers that were idle for ``producer.id.expiration.ms``."""
        now_ms = self._env.clock.wall_ms()
        for hosted in self._replicas:
            hosted.log.producers.expire(now_ms, self._replicas.settings.current.producer_id_expiration_ms)
