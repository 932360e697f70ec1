"""Compaction of the node's logs, one after another or a few side by side, beside the loop (CLEAN-8; Kafka's ``LogCleaner``).

A worker thread has a chunk at a time; between two chunks a round ends if the node stops, the log is cut or moved, its topic is deleted, or
its policy is another one. While segments are replaced, :attr:`~esp.broker.replication.host.ReplicaHost.directories_lock` and
:attr:`~esp.broker.replication.hosted_partition.HostedPartition.busy` are held: no log is cut, dropped from, flushed or moved then.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Final

from esp.broker.replication.cleaning_pace import CleaningPace
from esp.broker.replication.host import ReplicaHost, in_turns
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.tasks import Tasks
from esp.model.errors import CorruptionError
from esp.ports.env import Env
from esp.settings.broker import BrokerSettings
from esp.storage.compaction.choice import Cleanable
from esp.storage.compaction.cleaning import are_present, finding_dirt, preparing, replacing
from esp.storage.compaction.output import CleanedSegment, LeftAloneError
from esp.storage.compaction.round import CleanerLimits, CleaningRound
from esp.storage.log import Log
from esp.storage.steps import Syncing, read, sync
from esp.storage.transaction_index import AbortedTransaction

log = logging.getLogger(__name__)

_LEAST_CHUNK_BYTES: Final = 16 * 1024
_MOST_CHUNK_BYTES: Final = 1024 * 1024
"""The records of a chunk are walked in one go of a worker thread: some ten milliseconds."""

_MEMORY_OF_CHUNK: Final = 16
"""The most memory that a chunk takes while it is looked at, in its own bytes: the headers of small batches are larger than these."""

_LOOK_US: Final = 1_000_000
"""The longest sleep: then the settings are looked at, which may have changed, and whether the round must end."""


class _RoundEndedError(Exception):
    """The round must not go on."""


def limits_of(settings: BrokerSettings) -> CleanerLimits:
    """The memory of each round, as the node's settings divide it among the threads.

    Chunks are so small that they fit, with their headers, into the part of both buffers that the keys leave.
    """
    threads = max(1, settings.log_cleaner_threads)
    filled = settings.log_cleaner_dedupe_buffer_size * settings.log_cleaner_io_buffer_load_factor
    left = settings.log_cleaner_dedupe_buffer_size + settings.log_cleaner_io_buffer_size - int(filled)
    chunk_bytes = min(settings.log_cleaner_io_buffer_size // 2, left // _MEMORY_OF_CHUNK) // threads
    return CleanerLimits(
        map_bytes=max(0, int(filled / threads)),
        chunk_bytes=min(max(chunk_bytes, _LEAST_CHUNK_BYTES), _MOST_CHUNK_BYTES),
    )


class LogCleaner:
    """Cleans the logs of a node until its tasks are stopped.

    Args:
        env: the outside.
        replicas: the replicas with their logs.
        tasks: where the rounds live.
    """

    def __init__(self, env: Env, replicas: ReplicaHost, tasks: Tasks) -> None:
        self.rounds = 0
        """Rounds that were completed."""
        self.read_bytes = self.written_bytes = 0
        """Of all rounds."""
        self.failures = 0
        """Rounds that ended with an error of the device."""
        self.map_utilization = 0.0
        """Of the last round's map, from 0 to 1."""
        self.last_round_s = 0.0
        self.last_memory_bytes = 0
        """The most memory that the last round held at one time."""
        self.dirty_ratio = 0.0
        """Of the dirtiest log, from 0 to 1, when a worker last looked for it; those that were being cleaned do not count."""
        self._env = env
        self._replicas = replicas
        self._tasks = tasks
        self._cleaned: set[HostedPartition] = set()
        """The replicas that are being cleaned."""
        self._at_work: set[int] = set()
        """The numbers of the workers that run."""
        self._pace = CleaningPace()

    def start(self) -> None:
        """Begin, unless ``log.cleaner.enable`` is false."""
        if self._replicas.settings.current.log_cleaner_enable:
            self._tasks.start(self._supervise(), name="compaction")

    async def _supervise(self) -> None:
        """Keep as many workers as ``log.cleaner.threads`` says."""
        while True:
            for number in range(self._replicas.settings.current.log_cleaner_threads):
                if number not in self._at_work:
                    self._at_work.add(number)
                    self._tasks.start(self._work(number), name=f"compaction {number}")
            await self._env.clock.sleep_us(_LOOK_US)

    async def _work(self, number: int) -> None:
        while number < self._replicas.settings.current.log_cleaner_threads:
            if not await self.clean_one():
                await self._back_off(number)
        self._at_work.discard(number)

    async def _back_off(self, number: int) -> None:
        """Sleep for ``log.cleaner.backoff.ms``, or until a worker with this number is not wanted any more."""
        clock = self._env.clock
        begun_us = clock.monotonic_us()
        while True:
            current = self._replicas.settings.current
            left_us = begun_us + current.log_cleaner_backoff_ms * 1000 - clock.monotonic_us()
            await clock.sleep_us(min(max(left_us, 0), _LOOK_US))
            if left_us <= _LOOK_US or number >= self._replicas.settings.current.log_cleaner_threads:
                return

    async def clean_one(self) -> bool:
        """Clean the log that needs it most; False if none was cleaned."""
        found = await self._find_dirtiest()
        if found is None:
            return False
        hosted, cleanable = found
        self._cleaned.add(hosted)
        try:
            return await self._clean(hosted, cleanable)
        finally:
            self._cleaned.discard(hosted)

    async def _find_dirtiest(self) -> tuple[HostedPartition, Cleanable] | None:
        now_ms = self._env.clock.wall_ms()
        found: tuple[HostedPartition, Cleanable] | None = None
        dirty_ratio = 0.0
        for turn in in_turns(self._replicas):
            for hosted in turn:
                if not hosted.log.settings.is_compacted or hosted.is_offline or hosted in self._cleaned:
                    continue
                try:
                    dirt = await read(finding_dirt(hosted.log, now_ms))
                except OSError as error:
                    log.error("%s cannot be compacted now: %s", hosted.log.path, error)
                    continue
                if dirt is None:
                    continue
                ratio = dirt.cleanable.dirty_ratio
                dirty_ratio = max(dirty_ratio, ratio)
                if dirt.is_due and (found is None or ratio > found[1].dirty_ratio):
                    found = hosted, dirt.cleanable
            await self._env.clock.sleep_us(0)
        self.dirty_ratio = dirty_ratio
        return found if found is not None and found[0] not in self._cleaned else None

    async def _clean(self, hosted: HostedPartition, cleanable: Cleanable) -> bool:
        """Do a round; True if it was completed."""
        env, begun_us = self._env, self._env.clock.monotonic_us()
        limits = limits_of(self._replicas.settings.current)
        if self._has_ended(hosted, None):
            return False
        source, path = hosted.log, hosted.log.path
        try:
            aborted: Sequence[AbortedTransaction] = ()
            if source.aborted.may_exist:
                aborted = await source.find_aborted_transactions(source.first_segment_offset, cleanable.end, env.cpu)
        except (CorruptionError, OSError) as error:  # what has rotted, the log was told
            log.error("%s cannot be compacted now: %s", path, error)
            return False
        if hosted.log is not source or self._has_ended(hosted, None):
            return False
        cleaning = CleaningRound(source, cleanable, limits, env.clock.wall_ms(), aborted)
        try:
            await self._prepare(hosted, cleaning)
            await self._run(hosted, cleaning, cleaning.indexing_blocking())
            fates = cleaning.fates()
            for sources in await env.cpu.run(cleaning.groups_blocking):
                output = CleanedSegment(hosted.log.files.disk, sources)
                try:
                    await self._run(hosted, cleaning, cleaning.copying_blocking(output, fates))
                    if not output.is_same:
                        await self._replace(hosted, cleaning, output)
                except LeftAloneError as reason:
                    log.info("%s: segment %d is not compacted: %s", path, sources[0].base_offset, reason)
                except asyncio.CancelledError:
                    raise  # the node stops, and the worker thread may be at work with the files still
                except BaseException:
                    await env.cpu.run(output.close)
                    raise
                await env.cpu.run(output.close)
            await self._conclude(hosted, cleaning)
        except _RoundEndedError:
            return False
        except CorruptionError as error:
            cleaning.log.note_rot(error)
            return False
        except OSError as error:
            self.failures += 1
            log.error("%s cannot be compacted now: %s", path, error)
            return False
        finally:
            self.read_bytes += cleaning.counts.bytes_read
            self.written_bytes += cleaning.counts.bytes_written
        self.rounds += 1
        self.map_utilization = cleaning.counts.map_utilization
        self.last_memory_bytes = cleaning.counts.memory_bytes
        self.last_round_s = (env.clock.monotonic_us() - begun_us) / 1_000_000
        log.info(
            "%s was compacted up to offset %d: %d bytes were replaced by %d",
            path,
            cleaning.end_offset,
            cleaning.counts.bytes_before,
            cleaning.counts.bytes_after,
        )
        return True

    def _has_ended(self, hosted: HostedPartition, cleaning: CleaningRound | None) -> bool:
        if self._replicas.find(*hosted.name) is not hosted or hosted.is_offline or not hosted.log.settings.is_compacted:
            return True
        return cleaning is not None and (cleaning.is_void or cleaning.log is not hosted.log)

    async def _run(self, hosted: HostedPartition, cleaning: CleaningRound, steps: Iterator[None]) -> None:
        """Do one pass, or the copying of one segment.

        Raises:
            _RoundEndedError: it must not go on.
        """
        counts, done = cleaning.counts, object()
        is_done = False
        while not is_done:
            begun_us, before = self._env.clock.monotonic_us(), counts.bytes_read + counts.bytes_written
            is_done = await self._env.cpu.run(_step_blocking, steps, done) is done
            moved = counts.bytes_read + counts.bytes_written - before
            self._pace.note_moved(moved, begun_us=begun_us, most=self._most_bytes_per_second)
            await self._keep_pace(hosted, cleaning)

    async def _keep_pace(self, hosted: HostedPartition, cleaning: CleaningRound) -> None:
        """Wait until no more was moved than may be.

        Raises:
            _RoundEndedError: the round must not go on.
        """
        clock = self._env.clock
        while True:
            if self._has_ended(hosted, cleaning):
                raise _RoundEndedError
            wait_us = self._pace.wait_us(now_us=clock.monotonic_us(), most=self._most_bytes_per_second)
            await clock.sleep_us(min(wait_us, _LOOK_US))
            if wait_us <= _LOOK_US:
                break

    @property
    def _most_bytes_per_second(self) -> float:
        return self._replicas.settings.current.log_cleaner_io_max_bytes_per_second

    async def _prepare(self, hosted: HostedPartition, cleaning: CleaningRound) -> None:
        """Have all names of the log's files on the device before others come beside them.

        Raises:
            _RoundEndedError: the round must not go on.
            OSError: the device failed; the directory is offline.
        """
        if cleaning.log.names_are_durable:
            return
        async with self._replicas.directories_lock, hosted.busy:
            if self._has_ended(hosted, cleaning):
                raise _RoundEndedError
            await self._sync(hosted, cleaning.log, preparing(cleaning.log))

    async def _sync(self, hosted: HostedPartition, source: Log, syncing: Syncing[None]) -> None:
        """Do something with the files of a replica's log. Raises OSError: the device failed; the directory is offline."""
        try:
            await sync(syncing, source.files.disk)
        except OSError as error:
            self._replicas.on_disk_error(hosted, error)
            raise

    async def _replace(self, hosted: HostedPartition, cleaning: CleaningRound, output: CleanedSegment) -> None:
        """Let a cleaned segment take the place of its sources.

        Raises:
            _RoundEndedError: the round must not go on.
            OSError: the device failed; the directory is offline.
        """
        async with self._replicas.directories_lock, hosted.busy:
            if self._has_ended(hosted, cleaning):
                raise _RoundEndedError
            if not are_present(cleaning.log, output):
                cleaning.note_dropped(output)
                return
            source = cleaning.log
            await self._sync(hosted, source, replacing(source, output, self._env.clock.wall_ms()))

    async def _conclude(self, hosted: HostedPartition, cleaning: CleaningRound) -> None:
        """Write down up to where the log is clean now."""
        async with self._replicas.directories_lock:
            if self._has_ended(hosted, cleaning):
                raise _RoundEndedError
            hosted.log.note_cleaned(cleaning.cleaned_to)
            directory = self._replicas.directories.holding(hosted.log)
            if directory is not None:
                await self._env.cpu.run(directory.write_cleaned_blocking)

    def uncleanable(self) -> Iterator[HostedPartition]:
        """The replicas whose logs have rotted, and are not compacted until they are repaired."""
        return (hosted for hosted in self._replicas if hosted.log.settings.is_compacted and hosted.log.rot is not None)


def _step_blocking(steps: Iterator[None], done: object) -> object:
    """One step, and ``done`` behind the last one."""
    return next(steps, done)
