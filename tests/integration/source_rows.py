"""Reads by the data source ``esp`` in this process: planned and read as Spark does it, without a JVM."""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from esp.spark.source import BatchReader, DefaultSource


class Row(NamedTuple):
    """A row; headers of a record without any are an empty tuple."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Read:
    """A read that is planned.

    Args:
        bootstrap: the servers.
        filters: as Spark 4.1 pushes them down.
        options: of the read, with two underscores for a dot.

    Attributes:
        tasks: of the plan, as the executors get them.
    """

    def __init__(self, bootstrap: str, filters: Sequence[object] = (), **options: object) -> None:
        given = {name.replace("__", "."): str(value) for name, value in options.items()}
        source = DefaultSource({"kafka.bootstrap.servers": bootstrap, **given})
        reader = source.reader(source.schema())
        assert reader.pushFilters(list(filters)) == list(filters)
        self.tasks = pickle.loads(pickle.dumps(reader.partitions()))
        self._reader: BatchReader = pickle.loads(pickle.dumps(reader))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches of all tasks, one task after the other."""
        for task in self.tasks:
            yield from self._reader.read(task)

    def rows(self) -> list[Row]:
        """The rows of all tasks."""
        return rows_of(self.batches())


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """The rows of batches with the columns of the Kafka source."""
    rows = []
    for batch in batches:
        columns = batch.to_pydict()
        times = [] if "timestamp" not in columns else batch.column("timestamp").view(pa.int64()).to_pylist()
        for number in range(batch.num_rows):
            headers = columns["headers"][number] if "headers" in columns else None
            rows.append(
                Row(
                    columns["partition"][number],
                    columns["offset"][number],
                    columns["key"][number],
                    columns["value"][number],
                    times[number] // 1000,
                    tuple((header["key"], header["value"]) for header in headers or ()),
                )
            )
    return rows


def read_values(bootstrap: str, topic: str, **options: object) -> list[bytes | None]:
    """The values of a topic, partition by partition."""
    read = Read(bootstrap, subscribe=topic, columns="value", **options)
    return [value for batch in read.batches() for value in batch.column("value").to_pylist()]
