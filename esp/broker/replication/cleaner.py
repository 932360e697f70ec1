"""Compaction of the node's logs, one after another or a few side by side, beside the loop (CLEAN-8; Kafka's ``LogCleaner``).

A worker thread has a chunk at a time. A round of a larger log is computed by a process of its own, as Python code in a thread keeps the
interpreter from the loop; there it is a few chunks at a time. Between these a round ends if the node stops, the log is cut or moved, its
topic is deleted, or its policy is another one. While segments are replaced,
:attr:`~esp.broker.replication.host.ReplicaHost.directories_lock` and
:attr:`~esp.broker.replication.hosted_partition.HostedPartition.busy` are held: no log is cut, dropped from, flushed or moved then.
"""

import asyncio
import logging
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from typing import Final

from esp.broker.replication.cleaning_pace import CleaningPace
from esp.broker.replication.host import ReplicaHost, in_turns
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.tasks import Tasks
from esp.model.errors import CorruptionError
from esp.ports.env import Env
from esp.ports.worker_process import WorkerProcess
from esp.settings.broker import BrokerSettings
from esp.storage.compaction.choice import Cleanable
from esp.storage.compaction.cleaning import LogRound, are_present, finding_dirt, may_be_cleaned, preparing, replacing
from esp.storage.compaction.output import CleanedSegment
from esp.storage.compaction.round import CleanerLimits, RoundPlan, RoundStep, cleaning_blocking
from esp.storage.log import Log
from esp.storage.steps import Syncing, read, sync
from esp.storage.transaction_index import AbortedTransaction

log = logging.getLogger(__name__)

_LEAST_CHUNK_BYTES: Final = 16 * 1024
_MOST_CHUNK_BYTES: Final = 1024 * 1024
"""The records of a chunk are walked in one go of a worker thread: some ten milliseconds."""

_MEMORY_OF_CHUNK: Final = 16
"""The most memory that a chunk takes while it is looked at, in its own bytes: the headers of small batches are larger than these."""

_PROCESS_FROM_BYTES: Final = 16 * 1024 * 1024
"""The size of a log from which on a process compacts it: to start one takes as much of a processor as to compact so much in a thread."""

PROCESS_OWN_BYTES: Final = 20_000_000
"""Memory of such a process that is neither its keys' nor its chunks': Python and what it imports, without the pages of their files."""

_STEP_BYTES: Final = 8 * 1024 * 1024
"""Read between two messages of the process, some 50 ms: a message costs both ends a millisecond, and the loop a turn."""

_STEPS_PER_SECOND: Final = 10
"""Messages of the process at the least, where ``log.cleaner.io.max.bytes.per.second`` is low: it reads no more at once."""

_LOOK_US: Final = 1_000_000
"""The longest sleep: then the settings are looked at, which may have changed, and whether the round must end."""


class _RoundEndedError(Exception):
    """The round must not go on."""


def limits_of(settings: BrokerSettings, *, own_bytes: int = 0) -> CleanerLimits:
    """The memory of each round, as the node's settings divide it among the threads.

    Chunks are so small that they fit, with their headers, into the part of both buffers that the keys leave.

    Args:
        settings: the node's.
        own_bytes: the memory that a process takes for nothing but to run: there are as many fewer keys, but half of them at least.
    """
    threads = max(1, settings.log_cleaner_threads)
    factor = min(max(settings.log_cleaner_io_buffer_load_factor, 0.0), 1.0)
    filled = settings.log_cleaner_dedupe_buffer_size * factor
    left = settings.log_cleaner_dedupe_buffer_size + settings.log_cleaner_io_buffer_size - int(filled)
    chunk_bytes = min(settings.log_cleaner_io_buffer_size // 2, left // _MEMORY_OF_CHUNK) // threads
    chunk_bytes = min(max(chunk_bytes, _LEAST_CHUNK_BYTES), _MOST_CHUNK_BYTES)
    map_bytes = max(0, int(filled / threads))
    missing = own_bytes - max(0, left // threads - _MEMORY_OF_CHUNK * chunk_bytes) if own_bytes else 0
    return CleanerLimits(map_bytes - min(max(0, missing), map_bytes // 2), chunk_bytes)


def chunks_of_step(limits: CleanerLimits, most_bytes_per_second: float) -> int:
    """The number of chunks that a process reads before it tells the node what it has done, and waits to be asked on.

    Args:
        limits: of the round.
        most_bytes_per_second: ``log.cleaner.io.max.bytes.per.second``.
    """
    step_bytes = min(_STEP_BYTES, most_bytes_per_second / _STEPS_PER_SECOND)
    return max(1, int(step_bytes / limits.chunk_bytes))


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
        """The bytes that all rounds have read and written."""
        self.failures = 0
        """Rounds that ended with an error of the device."""
        self.map_utilization = 0.0
        """The part of its memory that the last round's map of keys took, from 0 to 1."""
        self.last_round_s = 0.0
        self.last_memory_bytes = 0
        """The most memory that the last round held at one time."""
        self.dirty_ratio = 0.0
        """The dirty part of the dirtiest log, from 0 to 1, when a worker last looked for one; logs being cleaned do not count."""
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
        make = self._env.worker_process
        process = None if make is None else make("log-cleaner")
        try:
            while number < self._replicas.settings.current.log_cleaner_threads:
                if not await self.clean_one(process):
                    if process is not None and process.is_started:
                        await self._env.cpu.run(process.stop)  # the kernel takes back its memory meanwhile
                    await self._back_off(number)
        finally:
            if process is not None:
                process.stop()
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

    async def clean_one(self, process: WorkerProcess | None = None) -> bool:
        """Clean the log that needs it most, a large one in ``process``; False if none was cleaned."""
        found = await self._find_dirtiest()
        if found is None:
            return False
        hosted, cleanable = found
        self._cleaned.add(hosted)
        try:
            is_large = cleanable.clean_bytes + cleanable.dirty_bytes >= _PROCESS_FROM_BYTES
            return await self._clean(hosted, cleanable, process if is_large else None)
        finally:
            self._cleaned.discard(hosted)

    async def _find_dirtiest(self) -> tuple[HostedPartition, Cleanable] | None:
        now_ms = self._env.clock.wall_ms()
        found: tuple[HostedPartition, Cleanable] | None = None
        dirty_ratio = 0.0
        for turn in in_turns(self._replicas):
            for hosted in turn:
                if not may_be_cleaned(hosted.log) or hosted.is_offline or hosted in self._cleaned:
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

    async def _clean(self, hosted: HostedPartition, cleanable: Cleanable, process: WorkerProcess | None) -> bool:
        """Do a round, in ``process`` or in worker threads; True if it was completed."""
        env, begun_us = self._env, self._env.clock.monotonic_us()
        own_bytes = PROCESS_OWN_BYTES if process is not None else 0
        limits = limits_of(self._replicas.settings.current, own_bytes=own_bytes)
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
        cleaning = LogRound(source, cleanable, limits, env.clock.wall_ms(), aborted)
        try:
            await self._prepare(hosted, cleaning)
            steps = _begin(cleaning, process, chunks_of_step(limits, self._most_bytes_per_second))
            try:
                await self._run(hosted, cleaning, steps, waits=process is not None)
            except asyncio.CancelledError:
                raise  # the node stops, and the worker thread may be at work with the files still
            except BaseException:
                await env.cpu.run(_give_up_blocking, cleaning, steps)
                raise
            await self._conclude(hosted, cleaning)
        except _RoundEndedError:
            return False
        except CorruptionError as error:
            cleaning.log.note_rot(error)
            return False
        except OSError as error:
            if isinstance(error, FileNotFoundError) and self._has_ended(hosted, cleaning):
                return False  # the directory has another name by now
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

    def _has_ended(self, hosted: HostedPartition, cleaning: LogRound | None) -> bool:
        if self._replicas.find(*hosted.name) is not hosted or hosted.is_offline or not hosted.log.settings.is_compacted:
            return True
        return cleaning is not None and (cleaning.is_void or cleaning.log is not hosted.log)

    async def _run(
        self, hosted: HostedPartition, cleaning: LogRound, steps: Generator[RoundStep, None, None], *, waits: bool
    ) -> None:
        """Do the steps of a round, and put their results in place; ``waits`` if another process computes.

        Raises:
            _RoundEndedError: it must not go on.
            CorruptionError: a batch is not the one that was written.
            OSError: the device failed or is full, or the other process ended.
        """
        run = self._env.cpu.run_waiting if waits else self._env.cpu.run
        moved = 0
        while True:
            begun_us = self._env.clock.monotonic_us()
            step = await run(_step_blocking, steps)
            if step is not None:
                cleaning.take(step)
                moved, before = step.counts.bytes_read + step.counts.bytes_written, moved
                self._pace.note_moved(moved - before, begun_us=begun_us, most=self._most_bytes_per_second)
            await self._keep_pace(hosted, cleaning)
            if step is None:
                return
            if step.left_alone:
                log.info("%s: %s", hosted.log.path, step.left_alone)
            if step.output is not None:
                await self._replace(hosted, cleaning, step.output)

    async def _keep_pace(self, hosted: HostedPartition, cleaning: LogRound) -> None:
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

    async def _prepare(self, hosted: HostedPartition, cleaning: LogRound) -> None:
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

    async def _replace(self, hosted: HostedPartition, cleaning: LogRound, output: CleanedSegment) -> None:
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
                await self._env.cpu.run(output.remove_blocking)
                return
            source = cleaning.log
            await self._sync(hosted, source, replacing(source, output, self._env.clock.wall_ms()))

    async def _conclude(self, hosted: HostedPartition, cleaning: LogRound) -> None:
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


def _begin(cleaning: LogRound, process: WorkerProcess | None, chunks: int) -> Generator[RoundStep, None, None]:
    """The steps of a round, which has not begun then, in ``process`` each of as many chunks."""
    if process is None:
        return cleaning_blocking(cleaning.log.files.disk, cleaning.plan, 1)
    return _clean_elsewhere_blocking(cleaning.plan, process, chunks)


def _clean_elsewhere_blocking(plan: RoundPlan, process: WorkerProcess, chunks: int) -> Generator[RoundStep, None, None]:
    """The steps of a round that a process computes."""
    yield from process.iterate_blocking(cleaning_blocking, plan.detached(), chunks)


def _step_blocking(steps: Iterator[RoundStep]) -> RoundStep | None:
    """Run the next step of a round; return None if there is none."""
    return next(steps, None)


def _give_up_blocking(cleaning: LogRound, steps: Generator[RoundStep, None, None]) -> None:
    """End a round that must not go on."""
    steps.close()
    with suppress(OSError):  # the next start removes what is left
        cleaning.remove_leftovers_blocking()
