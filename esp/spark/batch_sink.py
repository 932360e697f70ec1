"""Writes to a topic in which each row comes once, however often tasks, drivers or jobs are started again while brokers keep the offsets.

The driver looks at what the sink has committed, and has Spark shuffle the rows of a batch to one task per target partition. Each task
writes its partition in one transaction (:mod:`esp.sink.partition_writer`).
"""

import importlib
import logging
import re
import sys
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from esp.options.errors import OptionError
from esp.sink.batch_planning import BatchPlanner
from esp.sink.decision import BatchPlan, Place, check_repeated
from esp.sink.functions import TaskFunction
from esp.sink.order import BatchOrder, SinkTarget
from esp.sink.rows import ROUTE, TARGET
from esp.sink.share import Share
from esp.spark.query_sources import find_stream_options
from esp.spark.record_columns import check_columns, select_columns
from esp.spark.renewing import Renewing
from esp.spark.routes import find_routes
from esp.spark.write_options import parse_write_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_RESULT: Final = "partition int, rows bigint, keys string, done string"


def exactly_once(
    stream: "DataFrame",
    *,
    topic: str,
    sink: str,
    options: Mapping[str, str] | None = None,
    tasks: int | None = None,
    begin: bool = False,
) -> "DataStreamWriter":
    """Return a writer of a stream to a topic, which writes each row once; set its checkpoint and trigger, and start it.

    Kafka forgets a sink that has committed nothing for ``offsets.retention.minutes``. A query that is further than batch 0 is refused then.

    Args:
        stream: with a column ``value``, and ``key``, ``headers``, ``timestamp`` and ``partition`` if wanted.
        topic: the topic; it exists.
        sink: a name for this query's writes to the topic, as its checkpoint is for its reads. No other query has it.
        options: ``kafka.*`` settings. Without them the cluster is that of the stream's source.
        tasks: so many tasks write, each perhaps several partitions; None: one for each partition.
        begin: whether a sink that has committed nothing may begin with another batch than the first. A sink whose offsets expired has
            committed nothing either: leave it out once the query has written.

    Raises:
        OptionError: an argument, an option or a column cannot be used.
        ModuleNotFoundError: the driver has no pandas.
    """
    if not stream.isStreaming:
        raise OptionError("stream", None, 'it is no stream: use esp.spark.write_once, or write.format("esp")')
    given = options if options is not None else _options_of(stream)
    writer = _make(stream, topic, sink, given, tasks, begin=begin)
    return stream.writeStream.foreachBatch(writer)


def write_once(
    frame: "DataFrame",
    *,
    topic: str,
    transaction: str,
    options: Mapping[str, str],
    tasks: int | None = None,
) -> None:
    """Write rows to a topic, each once, however often this is called with the same rows and ``transaction``.

    On Kafka each call must come within ``offsets.retention.minutes`` of the last: later Kafka has forgotten the name, and rows are written
    again. ESP keeps names until ``esp spark sinks reset``.

    Args:
        frame: as that of :func:`exactly_once`.
        topic: the topic; it exists.
        transaction: a name for this write, which no other has: letters, digits, ``_`` and ``-``.
        options: ``kafka.*`` settings.
        tasks: as there.

    Raises:
        OptionError: an argument, an option or a column cannot be used.
        ModuleNotFoundError: the driver has no pandas.
        RefusedError: the rows are others than those that were written by this name.
        ConsumerError: the rows cannot be written.
    """
    if frame.isStreaming:
        raise OptionError("frame", None, "it is a stream: use esp.spark.exactly_once")
    _make(frame, topic, transaction, options, tasks, begin=False, argument="transaction")(frame, 0)


def _make(
    frame: "DataFrame",
    topic: str,
    sink: str,
    options: Mapping[str, str],
    tasks: int | None,
    *,
    begin: bool,
    argument: str = "sink",
) -> "BatchSink":
    """Return what writes batches; ``argument`` is the caller's name for ``sink``."""
    _require_pandas()
    parsed = parse_write_options(options)
    if not topic:
        raise OptionError("topic", topic, "it is empty: name the topic to write to")
    if _NAME.fullmatch(sink) is None:
        raise OptionError(argument, sink, "it cannot be the name of a sink: write up to 100 letters, digits, _ and -")
    if tasks is not None and (type(tasks) is not int or tasks < 1):
        raise OptionError(
            "tasks", tasks, "write a whole number, 1 or more, or leave it out: one task writes each partition then"
        )
    check_columns(frame.schema)
    target = SinkTarget(uuid.uuid4().hex, Place(sink, topic), parsed.servers, parsed.terms, parsed.write_terms)
    return BatchSink(target, tasks, begin=begin, renews=frame.isStreaming)


def _require_pandas() -> None:
    """Return if the driver has pandas: PySpark's ``mapInArrow`` asks for it, though neither it nor the tasks use it.

    Raises:
        ModuleNotFoundError: it has not.
    """
    try:
        importlib.import_module("pandas")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the sink needs the package {error.name}, which {sys.executable} of this driver does not have: PySpark asks for it before it "
            "hands batches to functions. Install pandas here; executors do without",
            name=error.name,
        ) from error


def _options_of(stream: "DataFrame") -> Mapping[str, str]:
    """The settings by which the source of a stream reaches its cluster."""
    found = find_stream_options(stream)
    servers = {options["kafka.bootstrap.servers"] for options in found}
    if len(servers) != 1:
        raise OptionError(
            "options",
            None,
            f"the stream has {len(servers)} clusters as its sources: pass options={{'kafka.bootstrap.servers': 'host:port', …}} of the "
            "cluster to write to",
        )
    return found[0]


class BatchSink:
    """Writes micro-batches: the function of ``foreachBatch``. It travels to the server under Spark Connect.

    Args:
        target: the sink.
        tasks: so many write; None: one for each partition.
        begin: whether a sink that has committed nothing may begin with another batch than the first.
        renews: whether its offsets are renewed while a query runs.
    """

    def __init__(self, target: SinkTarget, tasks: int | None, *, begin: bool, renews: bool) -> None:
        self._target = target
        self._planner = BatchPlanner(target, may_begin=begin)
        self._tasks = tasks
        self._renews = renews
        self._renewing: Renewing | None = None

    def __call__(self, frame: "DataFrame", batch: int) -> None:
        """Write a batch.

        Raises:
            RefusedError: rows would be missing, or come twice.
            ConsumerError: the topic or the group cannot be used.
        """
        place = self._target.place
        plan = self._planner.plan(batch)
        tasks = min(self._tasks or plan.partitions, plan.partitions)
        order = BatchOrder(self._target, batch, plan.partitions, find_routes(tasks))
        placed = _shuffle(frame, order)
        if plan.done:
            self._check_repeated(placed, order, plan)
        done = placed.mapInArrow(TaskFunction("write_rows", order), _RESULT).collect()
        _log.info("batch %d of sink %s: %s", batch, place.sink, sorted((row.partition, row.done) for row in done))
        self._planner.note_done(has_rows=bool(done))
        if self._renews and (self._renewing is None or self._renewing.is_over):
            self._renewing = Renewing(self._planner.renew, lambda: bool(frame.sparkSession.streams.active))

    def __getstate__(self) -> dict[str, Any]:
        """A thread does not travel."""
        return {**self.__dict__, "_renewing": None}

    def _check_repeated(self, placed: "DataFrame", order: BatchOrder, plan: BatchPlan) -> None:
        counted = placed.mapInArrow(TaskFunction("count_rows", order), _RESULT).collect()
        coming: dict[int, Share] = {}
        for row in counted:
            before = coming.get(row.partition, Share(order.batch, 0, 0, plan.partitions))
            keys = before.keys + int(row.keys, 16) & 0xFFFF_FFFF_FFFF_FFFF
            coming[row.partition] = before._replace(rows=before.rows + row.rows, keys=keys)
        check_repeated(order.target.place, plan, order.batch, coming)


def _shuffle(frame: "DataFrame", order: BatchOrder) -> "DataFrame":
    """The rows, each in the task that writes its target partition."""
    records = select_columns(frame)
    fields = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in records.schema)
    placed = records.mapInArrow(TaskFunction("place_rows", order), f"{fields}, {TARGET} int, {ROUTE} int")
    return placed.repartition(len(order.routes), ROUTE)
