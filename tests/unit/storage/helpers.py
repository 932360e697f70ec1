"""Small things that the tests of the storage engine share."""

import uuid
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, ParamSpec, TypeVar

from esp.model.buffers import Buffer
from esp.model.ids import TopicId, TopicPartition
from esp.records.batch_header import BatchHeader, read_header, stamp
from esp.records.builder import NewRecord, build_batch
from esp.records.transaction_marker import build_marker
from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

PARTITION = TopicPartition("flights", 3)
TOPIC_ID = TopicId(uuid.UUID(int=0x1234_5678_9ABC_DEF0_1234_5678_9ABC_DEF0))
DATA = "data"
REPLICA = f"{DATA}/{PARTITION}"


async def no_wait(_operation: str, _size: int) -> None:
    """A device that answers at once."""


class DirectCpu:
    """See :class:`esp.ports.cpu.Cpu`: does the work at once."""

    async def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        return function(*args, **kwargs)

    def allocate(self, size: int) -> memoryview:
        return memoryview(bytearray(size))

    run_waiting = run


CPU = DirectCpu()


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run what never waits, without a loop."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits")


def new_disk(seed: int = 0) -> SimulatedDisk:
    return SimulatedDisk(Random(seed), wait=no_wait)


def new_log(disk: SimulatedDisk, settings: TopicSettings | None = None, epoch: int = 0) -> tuple[LogDirectory, Log]:
    directory = LogDirectory.open_blocking(disk, DATA)
    log = directory.create_log_blocking(PARTITION, TOPIC_ID, settings or TopicSettings())
    log.begin_epoch(epoch)
    return directory, log


def reopen(disk: SimulatedDisk, settings: TopicSettings | None = None, now_ms: int = 0) -> tuple[LogDirectory, Log]:
    directory = LogDirectory.open_blocking(disk, DATA)
    return directory, directory.load_log_blocking(PARTITION, settings or TopicSettings(), now_ms)


def make_batch(
    offset: int,
    *,
    records: int = 1,
    size: int = 10,
    epoch: int = 0,
    timestamp: int = 1000,
    step: int = 1,
    producer: tuple[int, int, int] = (-1, -1, -1),
    codec: int = 0,
    log_append_time: bool = False,
    transactional: bool = False,
) -> bytes:
    """A batch of ``records`` records with values of ``size`` bytes; timestamps rise by ``step``; ``producer``: id, epoch, sequence."""
    return build_batch(
        [
            NewRecord(bytes(size), timestamp=None if log_append_time else timestamp + number * step)
            for number in range(records)
        ],
        base_offset=offset,
        leader_epoch=epoch,
        timestamp_ms=timestamp,
        codec=codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        log_append_time=log_append_time,
        transactional=transactional,
    )


def append(log: Log, now_ms: int = 0, **batch: Any) -> bytes:
    """Append a batch as :func:`make_batch` makes it at the log end; returns its bytes."""
    batch.setdefault("epoch", log.leader_epochs.latest or 0)
    data = make_batch(log.log_end_offset, **batch)
    log.append(data, read_header(data), now_ms)
    return data


def append_marker(
    log: Log,
    producer: tuple[int, int],
    *,
    is_commit: bool,
    coordinator_epoch: int = 0,
    timestamp: int = 1000,
    now_ms: int = 0,
) -> int:
    """End the transaction of a producer (id and epoch) at the log end; returns the marker's offset."""
    data = bytearray(
        build_marker(*producer, is_commit=is_commit, coordinator_epoch=coordinator_epoch, timestamp_ms=timestamp)
    )
    header = stamp(data, read_header(data), log.log_end_offset, log.leader_epochs.latest or 0)
    log.append(data, header, now_ms)
    return header[0]


def headers(data: Buffer) -> list[BatchHeader]:
    """The headers of batches that stand end to end."""
    found = []
    position = 0
    while position < len(data):
        header = read_header(data, position)
        found.append(header)
        position += header.size
    assert position == len(data)
    return found


def read_all(log: Log, max_bytes: int = 1 << 20) -> list[BatchHeader]:
    """The headers of the whole log, by reads one after another."""
    found: list[BatchHeader] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = run(log.read_cold(offset, max_bytes, log.log_end_offset, at_least_one=True))
        found += headers(data)
        offset = found[-1].next_offset
    return found
