"""Tasks of the exactly-once sink without Spark: in this process, watched request by request, or in a process that dies at one of them."""

import multiprocessing
import os
import uuid
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from esp.consumer.cluster import Address, Cluster
from esp.consumer.connection import Terms
from esp.consumer.group_offsets import GroupOffsets
from esp.consumer.messages import Api, Partition
from esp.sink import order as orders
from esp.sink.batch_planning import BatchPlanner
from esp.sink.decision import Place
from esp.sink.order import BatchOrder, SinkTarget, WriteTerms
from esp.sink.partition_writer import PartitionWriter
from esp.sink.share import group_of
from esp.sink.task import place_rows, write_rows

KILLED: Final = 9
"""The exit status of a process that died as it was told."""
FINISHED: Final = 0

Hook = Callable[[str, Api], None]
"""Called with ``sent`` and ``answered``, and the API of a request."""


def no_hook(_event: str, _api: Api) -> None:
    """Let all go on."""


class WatchedCluster(Cluster):
    """A cluster whose requests are watched, and perhaps held up, by ``hook``."""

    def __init__(self, servers: Sequence[Address], terms: Terms, timeout_s: float, hook: Hook) -> None:
        super().__init__(servers, terms, timeout_s)
        self._hook = hook

    def call(self, server: Address, api: Api, body: bytes) -> memoryview:
        with self._connected(server) as connection:
            connection.send(api, body)
            self._hook("sent", api)
            answer = connection.receive()
        self._hook("answered", api)
        return answer

    def call_each(self, server, api, bodies, most):
        with self._connected(server) as connection:
            for body in bodies:
                connection.send(api, body)
                self._hook("sent", api)
                yield connection.receive()
                self._hook("answered", api)


def address_of(bootstrap: str) -> Address:
    host, _, port = bootstrap.rpartition(":")
    return Address(host, int(port))


def watched(bootstrap: str, hook: Hook = no_hook) -> WatchedCluster:
    return WatchedCluster([address_of(bootstrap)], Terms(), 30.0, hook)


def writer_of(
    bootstrap: str, topic: str, sink: str = "s", partition: int = 0, hook: Hook = no_hook, **terms: object
) -> PartitionWriter:
    """A writer as a task has it."""
    return PartitionWriter(
        watched(bootstrap, hook), Place(sink, topic), partition, WriteTerms(**{"timeout_s": 30.0, **terms})
    )


def rows_of_batch(batch: int, count: int = 20) -> pa.RecordBatch:
    """The rows of a batch; each value is there once."""
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"key-%d" % (number % 7) for number in range(count)], pa.binary()),
            "value": pa.array([b"%d/%d" % (batch, number) for number in range(count)], pa.binary()),
        }
    )


def values_of_batches(batches: int, count: int = 20) -> list[bytes]:
    """The values of all rows of some batches, in order."""
    return sorted(b"%d/%d" % (batch, number) for batch in range(batches) for number in range(count))


def order_of(bootstrap: str, topic: str, batch: int, partitions: int, sink: str = "s", run: str = "") -> BatchOrder:
    """A batch, of a run of its own unless one is named."""
    servers = (address_of(bootstrap),)
    terms = WriteTerms(timeout_s=30.0)
    return BatchOrder(
        SinkTarget(run or uuid.uuid4().hex, Place(sink, topic), servers, Terms(), terms), batch, partitions
    )


def planner_of(bootstrap: str, topic: str, sink: str = "s") -> BatchPlanner:
    """The part of a driver."""
    return BatchPlanner(order_of(bootstrap, topic, 0, 1, sink).target, may_begin=False)


def run_batch(order: BatchOrder, *rows: pa.RecordBatch) -> dict[int, str]:
    """Do the work of a batch as one task; return what was done for each partition."""
    [result] = write_rows(place_rows(rows or [rows_of_batch(order.batch)], order), order)
    return dict(zip(result.column("partition").to_pylist(), result.column("done").to_pylist(), strict=True))


# Bugs that the tests must notice ------------------------------------------------------------------------------------------------


def _without_look() -> None:
    PartitionWriter._look = lambda _self, _deadline: None  # type: ignore[method-assign]


def _offset_outside() -> None:
    """The offset is committed behind the transaction."""

    def write(self, rows, committed, deadline):
        self._producer.add_partition(self._partition, deadline)
        self._sender.send(rows, self._producer.owner)
        self._producer.end(deadline, is_commit=True)
        self._offsets.commit({self._partition: committed}, 30.0)

    PartitionWriter._write = write  # type: ignore[method-assign]


BUGS: Final[dict[str, Callable[[], None]]] = {
    "no look before writing": _without_look,
    "offset outside the transaction": _offset_outside,
}


# Processes that die -------------------------------------------------------------------------------------------------------------

_STARTS: Final = "InitProducerId"


def _die_at(step: int) -> Hook:
    """Die at the ``step``-th event, counted from the first request for an epoch on."""
    seen: list[str] = []

    def hook(event: str, api: Api) -> None:
        if seen or api.name == _STARTS:
            seen.append(event)
            if len(seen) > step:
                os._exit(KILLED)

    return hook


def _work(order: BatchOrder, step: int | None, bug: str | None) -> None:
    if bug is not None:
        BUGS[bug]()
    if step is not None:
        hook = _die_at(step)
        orders.Cluster = lambda servers, given, timeout_s: WatchedCluster(servers, given, timeout_s, hook)  # type: ignore[assignment,misc]
    run_batch(order)


def in_process(order: BatchOrder, step: int | None = None, bug: str | None = None) -> int:
    """Do the work of a batch in a process of its own, which dies at an event if one is given; return its exit status.

    Args:
        order: the batch.
        step: the number of the event, counted from the first request for an epoch on.
        bug: one of :data:`BUGS`.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "pandas"])  # which pyarrow imports when it first makes an array
    process = context.Process(target=_work, args=(order, step, bug))
    process.start()
    process.join(60)
    assert process.exitcode is not None, "the process does not end"
    return process.exitcode


def committed_offset(bootstrap: str, topic: str, partition: int, sink: str = "s") -> int | None:
    """The next batch of a partition, as the sink has committed it."""
    with Cluster([address_of(bootstrap)], Terms(), 30.0) as cluster:
        wanted = Partition(topic, partition)
        found = GroupOffsets(cluster, group_of(sink)).fetch([wanted], 30.0)
    return found[wanted].offset if wanted in found else None
