"""Searches by time in a log of which a header or a time index has rotted: they find what was written, or say that it has rotted (REC-4).

The log is another one than that of the run, on a disk of its own: its batches have times, and all of its life is one search after another.
"""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final, ParamSpec, TypeVar

from esp.model.errors import CorruptionError
from esp.model.ids import BrokerEpoch, TopicId, TopicPartition
from esp.records.batch_header import ATTRIBUTES_OFFSET, HEADER_SIZE, LENGTH_OFFSET, MAX_TIMESTAMP_OFFSET, read_header
from esp.records.builder import NewRecord, build_batch
from esp.settings.topic import TopicSettings
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.layout import LOG_SUFFIX, TIME_INDEX_SUFFIX
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory
from esp.storage.segment_recovery import iterate_headers_blocking

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_PATH: Final = "/timed"
_FIRST_MS: Final = 1_700_000_000_000
_BATCHES: Final = 16
_PASSED_FOR: Final = (
    *range(LENGTH_OFFSET, LENGTH_OFFSET + 4),
    *range(ATTRIBUTES_OFFSET, HEADER_SIZE),
    *range(MAX_TIMESTAMP_OFFSET, MAX_TIMESTAMP_OFFSET + 8),
    *[MAX_TIMESTAMP_OFFSET + 6, MAX_TIMESTAMP_OFFSET + 7] * 20,
)
"""The bytes of a header that may rot, mostly those that tell of less than a minute."""


class _InlineCpu:
    """See :class:`esp.ports.cpu.Cpu`: does the work at once."""

    async def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        return function(*args, **kwargs)

    def allocate(self, size: int) -> memoryview:
        return memoryview(bytearray(size))

    run_waiting = run


_CPU: Final = _InlineCpu()


def search_with_rot(random: Random, partition: TopicPartition, topic_id: TopicId) -> None:
    """Write a log, let a bit of it rot, and search for times in it.

    Raises:
        ViolationError: INV-SEARCH.
    """
    disk = SimulatedDisk(random)
    settings = TopicSettings(
        segment_bytes=random.choice((400, 1_000, 10_000)), index_interval_bytes=random.choice((0, 200, 4096))
    )
    directory = LogDirectory.open_blocking(disk, _PATH)
    log = directory.create_log_blocking(partition, topic_id, settings)
    log.begin_epoch(1)
    times = [_FIRST_MS + 1_000 * number + random.randrange(5_000) for number in range(_BATCHES)]
    for number, timestamp in enumerate(times):
        batch = bytearray(
            build_batch([NewRecord(bytes(50))], base_offset=number, leader_epoch=1, timestamp_ms=timestamp)
        )
        log.append(batch, read_header(batch), 0)
    is_reopened = random.random() < 0.7
    if is_reopened:
        directory.close_blocking(BrokerEpoch(1))
        if random.random() < 0.5:  # the next start is not the first one after the clean stop
            LogDirectory.open_blocking(disk, _PATH).load_log_blocking(partition, settings, 0)
            disk.crash()
    path, offset = _place(random, log)
    disk.corrupt(path, offset, 1 << random.randrange(8))
    if is_reopened:
        try:
            log = LogDirectory.open_blocking(disk, _PATH).load_log_blocking(partition, settings, 0)
        except CorruptionError:
            return
    log.high_watermark = log.log_end_offset
    check_searches(log, times, f"{path} has rotted at {offset}")


def _place(random: Random, log: Log) -> tuple[str, int]:
    """A file of the log, and the position of a byte in it."""
    segment = random.choice(list(log.files.segments))
    if random.random() < 0.2 and log.files.disk.exists(path := segment.path(TIME_INDEX_SUFFIX)):
        size = log.files.disk.stat(path).size
        if size:
            return path, random.randrange(size)
    positions = [position for position, _ in iterate_headers_blocking(segment.file, 0, segment.size)]
    return segment.path(LOG_SUFFIX), random.choice(positions) + random.choice(_PASSED_FOR)


def check_searches(log: Log, times: list[int], rot: str) -> None:
    """Search for each time of a log whose offsets have these times, and for the largest one; ``rot``: told with a violation.

    Raises:
        ViolationError: INV-SEARCH.
    """
    for wanted in sorted(times):
        expected = next(offset for offset, timestamp in enumerate(times) if timestamp >= wanted)
        try:
            found = _finish(log.find_offset_by_timestamp(wanted, _CPU))
        except CorruptionError:
            continue
        if found is None or found.offset != expected:
            raise ViolationError("INV-SEARCH", str(log.partition), f"{found} for {wanted}, at {expected}: {rot}")
    try:
        largest = _finish(log.find_max_timestamp(_CPU))
    except CorruptionError:
        return
    if largest is None or times[largest.offset] != max(times):
        raise ViolationError("INV-SEARCH", str(log.partition), f"{largest} for the largest, {max(times)}: {rot}")


def _finish(search: Coroutine[Any, Any, Result]) -> Result:
    """Run a search to its end; the device answers whenever it is asked again."""
    try:
        while True:
            search.send(None)
    except StopIteration as stop:
        found: Result = stop.value
        return found
