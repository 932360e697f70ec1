"""Captures in this process, and what they have made."""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer

from esp.capture.cutting import Limits
from esp.capture.file_names import FileName, parse_path
from esp.capture.plan import CapturePlan
from esp.capture.runner import Runner
from esp.consumer.messages import Partition
from tests.integration.sink_runs import address_of

Warnings = list[str]


def plan_of(bootstrap: str, topic: str, directory: Path, name: str = "", **changes: object) -> CapturePlan:
    """A capture up to the ends that are there; without a name it has one by its topic."""
    given = {"limits": Limits(900.0, 128 * 1024 * 1024), "is_once": True, **changes}
    return CapturePlan(
        name or f"c-{crc32(topic.encode())}", (topic,), str(directory), (address_of(bootstrap),), **given
    )


def capture(bootstrap: str, topic: str, directory: Path, name: str = "", **changes: object) -> Warnings:
    """Capture up to the ends; return the warnings."""
    warnings: Warnings = []
    Runner(plan_of(bootstrap, topic, directory, name, **changes), warnings.append, threading.Event()).run()
    return warnings


def names_in(directory: Path) -> list[FileName]:
    """The names of captured files, in order."""
    paths = (path.relative_to(directory).as_posix() for path in directory.rglob("*.parquet"))
    return sorted(name for name in map(parse_path, paths) if name is not None)


def rows_in(directory: Path) -> pa.Table:
    """The rows of all files, by partition and offset."""
    tables = [pq.read_table(directory / name.path, partitioning=None) for name in names_in(directory)]
    return pa.concat_tables(tables).sort_by([("partition", "ascending"), ("offset", "ascending")])


def offsets_in(directory: Path, partition: Partition) -> list[int]:
    """The offsets that the files of a partition hold, file by file."""
    return [
        offset
        for name in names_in(directory)
        if name.partition == partition
        for offset in pq.read_table(directory / name.path, columns=["offset"], partitioning=None)["offset"].to_pylist()
    ]


def produce(
    bootstrap: str, topic: str, values: Iterable[bytes], partition: int = 0, time_ms: Callable[[int], int] | None = None
) -> None:
    """Write values to a partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 5})
    for number, value in enumerate(values):
        timestamp = {} if time_ms is None else {"timestamp": time_ms(number)}
        producer.produce(topic, value, b"key-%d" % (number % 7), partition, **timestamp)
        producer.poll(0)
    assert producer.flush(30) == 0
