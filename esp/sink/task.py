"""The work of one task of a batch, on an executor: its rows, divided by their partitions, are written partition by partition.

Producers stay for as long as the process of the task, which Spark uses for many tasks: a batch then needs no new epoch.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from esp.sink.order import BatchOrder, SinkTarget
from esp.sink.partition_writer import PartitionWriter
from esp.sink.rows import ROUTE, TARGET, divide, find_targets
from esp.sink.share import Share

_RUNS_MOST: Final = 4
"""Runs of queries whose producers a process keeps."""

_TARGET_FIELD: Final = pa.field(TARGET, pa.int32())
_ROUTE_FIELD: Final = pa.field(ROUTE, pa.int32())
RESULT_SCHEMA: Final = pa.schema(
    [("partition", pa.int32()), ("rows", pa.int64()), ("keys", pa.string()), ("done", pa.string())]
)
"""A row for each partition: what was done is empty if the rows were only counted."""


class _Run:
    """The producers of a run in this process."""

    def __init__(self, target: SinkTarget) -> None:
        self._target = target
        self._cluster = target.connect()
        self._writers: dict[int, PartitionWriter] = {}

    def writer(self, partition: int) -> PartitionWriter:
        if partition not in self._writers:
            target = self._target
            self._writers[partition] = PartitionWriter(self._cluster, target.place, partition, target.write_terms)
        return self._writers[partition]

    def close(self) -> None:
        self._cluster.close()


_runs: OrderedDict[str, _Run] = OrderedDict()


def find_writer(target: SinkTarget, partition: int) -> PartitionWriter:
    """Return the writer of a partition in this process."""
    run = _runs.pop(target.run, None) or _Run(target)
    _runs[target.run] = run
    while len(_runs) > _RUNS_MOST:
        _, oldest = _runs.popitem(last=False)
        oldest.close()
    return run.writer(partition)


def place_rows(batches: Iterable[pa.RecordBatch], order: BatchOrder) -> Iterator[pa.RecordBatch]:
    """Yield batches with two more columns: the target partition of each row, and the route to the task that writes it.

    Raises:
        ConsumerError: a row names a partition that the topic has not.
    """
    routes = np.array(order.routes, np.int32)
    for batch in batches:
        targets = find_targets(batch, order.target.place.topic, order.partitions)
        yield batch.append_column(_TARGET_FIELD, pa.array(targets, pa.int32())).append_column(
            _ROUTE_FIELD, pa.array(routes[targets % len(routes)])
        )


def count_rows(batches: Iterable[pa.RecordBatch], _order: BatchOrder) -> Iterator[pa.RecordBatch]:
    """Yield the number and the hash of the rows of each of a task's partitions; nothing is written."""
    yield _result([(rows.partition, rows.size, f"{rows.keys:016x}", "") for rows in divide(batches)])


def write_rows(batches: Iterable[pa.RecordBatch], order: BatchOrder) -> Iterator[pa.RecordBatch]:
    """Write the rows of a task and yield what was done for each partition.

    Raises:
        RefusedError: the sink is further than the batch, or has written it with other rows.
        ConsumerError: rows cannot be written, or not in time.
    """
    done = []
    for rows in divide(batches):
        share = Share(order.batch, rows.size, rows.keys, order.partitions)
        action = find_writer(order.target, rows.partition).write(rows.batches, share)
        done.append((rows.partition, rows.size, f"{rows.keys:016x}", action.value))
    yield _result(done)


def _result(rows: list[tuple[int, int, str, str]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, RESULT_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RESULT_SCHEMA)
