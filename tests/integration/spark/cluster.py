"""The node under test as plain clients and Spark use it, and what they wrote and read."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import pyspark
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from esp.spark import drain
from esp.testing.node_process import NodeProcess
from tests.integration.spark.session import HAS_CONNECTOR

START_MS: Final = int(time.time() * 1000) - 3_600_000
"""The timestamp of a test's first record: old enough for an hour of others to come before now."""


Result = TypeVar("Result")


class Record(NamedTuple):
    """A record to produce, or one that was read; headers of a record without any are an empty tuple."""

    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


Positions = dict[tuple[int, int], Record]
"""Records by partition and offset."""


def records_in_turn(count: int, partitions: int, first: int = 0) -> list[Record]:
    """So many records in turn over the partitions, a second apart, numbered from ``first``."""
    return [
        Record(number % partitions, f"k{number % 5}".encode(), str(number).encode(), START_MS + number * 1000)
        for number in range(first, first + count)
    ]


class Cluster:
    """The node under test, as plain clients and Spark use it."""

    def __init__(self, spark: SparkSession, node: NodeProcess) -> None:
        self.spark = spark
        self.node = node

    def produce(self, topic: str, records: list[Record], batch: int = 7) -> Positions:
        """Write the records in batches of at most ``batch``; they must be the first ones that this process writes there."""
        producer = KafkaProducer(bootstrap_servers=self.node.bootstrap, acks="all", linger_ms=1000)
        positions: Positions = {}
        try:
            sent = []
            for number, record in enumerate(records):
                future = producer.send(
                    topic,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                sent.append((future, record))
                if number % batch == batch - 1:
                    producer.flush()
            producer.flush()
            for future, record in sent:
                metadata = future.get(30)
                positions[metadata.partition, metadata.offset] = record
        finally:
            producer.close()
        assert len(positions) == len(records)
        return positions

    def consume(self, topic: str) -> Positions:
        """Read all records of the topic with a plain consumer."""
        consumer = KafkaConsumer(bootstrap_servers=self.node.bootstrap, auto_offset_reset="earliest")
        positions: Positions = {}
        try:
            partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            while any(consumer.position(partition) < ends[partition] for partition in partitions):
                for polled in consumer.poll(timeout_ms=1000).values():
                    for record in polled:
                        positions[record.partition, record.offset] = Record(
                            record.partition, record.key, record.value, record.timestamp, tuple(record.headers)
                        )
        finally:
            consumer.close()
        return positions

    def read(self, source: str = "kafka", **options: object) -> DataFrame:
        """A batch read by Spark, with a data source of this name."""
        return self._options(self.spark.read, options, source).load()

    def read_stream(self, source: str = "kafka", **options: object) -> DataFrame:
        """A streaming read by Spark, with a data source of this name."""
        return self._options(self.spark.readStream, options, source).load()

    def _options(self, reader, options: dict[str, object], source: str = "kafka"):
        if source == "kafka" and not HAS_CONNECTOR:
            pytest.skip(f"no Kafka connector for PySpark {pyspark.__version__}: only the format esp is read")
        reader = reader.format(source).option("kafka.bootstrap.servers", self.node.bootstrap)
        for name, value in options.items():
            reader = reader.option(name.replace("__", "."), value)
        return reader


_NOT_STARTED: Final = "Python worker failed to connect back"
_STARTS_MOST: Final = 5


def with_slow_starts(run: Callable[[], Result]) -> Result:
    """Run a query by a source of Python's again if its process did not start within the ten seconds that Spark gives it, as on a machine
    that is busy with other tests. Nothing of the query was done then."""
    for _ in range(_STARTS_MOST):
        try:
            return run()
        except StreamingQueryException as error:
            if _NOT_STARTED not in str(error):
                raise
            reason = error
    raise reason


class Source(NamedTuple):
    """A data source, and the ways in which Spark reads streams by it.

    Attributes:
        cluster: the node under test.
        name: ``kafka`` or ``esp``.
    """

    cluster: Cluster
    name: str

    def stream(self, **options: object) -> DataFrame:
        """A streaming read. One by ``esp`` ends where its topics end when it starts, so that :meth:`drain` can limit its batches."""
        ends = {"endingOffsets": "latest"} if self.name == "esp" else {}
        return self.cluster.read_stream(self.name, **ends, **options)

    def endless(self, **options: object) -> DataFrame:
        """A streaming read that goes on."""
        return self.cluster.read_stream(self.name, **options)

    def drain(self, sink: "ParquetSink | BatchSink", stream: DataFrame) -> list[int]:
        """Stream all that is there now; the answer is how many records each batch had."""
        if self.name == "kafka":
            return sink.drain(stream)
        query = with_slow_starts(lambda: drain(sink.writer(stream)))
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    def failure(self, sink: "ParquetSink | BatchSink", stream: DataFrame, timeout_s: float) -> str:
        """The reason for which a query ends, which it must do by itself."""

        def run() -> None:
            query = sink.start(stream, processingTime="50 milliseconds")
            try:
                assert query.awaitTermination(timeout_s), "the query goes on"  # it raises what has ended the query
            finally:
                query.stop()

        with pytest.raises(StreamingQueryException) as failed:
            with_slow_starts(run)
        return str(failed.value)

    @contextmanager
    def running(
        self, sink: "ParquetSink | BatchSink", stream: DataFrame, **trigger: object
    ) -> Iterator[StreamingQuery]:
        """A query that has read what was there, and goes on until the end."""

        def start() -> StreamingQuery:
            query = sink.start(stream, **trigger)
            query.processAllAvailable()
            return query

        query = with_slow_starts(start)
        try:
            yield query
        finally:
            query.stop()


class ParquetSink:
    """A Parquet directory that streams append to: what was read exactly once, over restarts too."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._directory = directory

    def writer(self, stream: DataFrame) -> DataStreamWriter:
        """The writer of a stream to this directory."""
        return (
            stream.writeStream.format("parquet")
            .option("path", str(self._directory / "rows"))
            .option("checkpointLocation", str(self._directory / "checkpoint"))
        )

    def start(self, stream: DataFrame, **trigger: object) -> StreamingQuery:
        return self.writer(stream).trigger(**trigger).start()

    def drain(self, stream: DataFrame) -> list[int]:
        """Stream all that is there now; the answer is how many records each batch had."""
        query = self.start(stream, availableNow=True)
        query.awaitTermination()
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    def rows(self) -> DataFrame:
        return self._spark.read.parquet(str(self._directory / "rows"))


class BatchSink:
    """A sink by batch: it keeps what a batch read under the batch's number, so that a batch that comes again replaces itself.

    Attributes:
        batches: what each batch read.
        before: by the number of a batch, what is to be done once the batch is planned and before its records are fetched.
        after: likewise, once its records are read and before Spark plans the next.
    """

    def __init__(self, checkpoint: Path) -> None:
        self.batches: dict[int, Positions] = {}
        self.before: dict[int, Callable[[], object]] = {}
        self.after: dict[int, Callable[[], object]] = {}
        self._checkpoint = checkpoint

    def start(self, stream: DataFrame, **trigger: object) -> StreamingQuery:
        return self.writer(stream).trigger(**trigger).start()

    def writer(self, stream: DataFrame) -> DataStreamWriter:
        """The writer of a stream to this sink."""

        def take(frame: DataFrame, number: int) -> None:
            self.before.pop(number, _nothing)()
            self.batches[number] = positions_of(frame)
            self.after.pop(number, _nothing)()

        return stream.writeStream.foreachBatch(take).option("checkpointLocation", str(self._checkpoint))

    def drain(self, stream: DataFrame) -> list[int]:
        """Stream all that is there now; the answer is how many records each batch had."""
        query = self.start(stream, availableNow=True)
        query.awaitTermination()
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    def positions(self, first_batch: int = 0) -> Positions:
        """What all batches from ``first_batch`` on read; no position may stand in two of them."""
        batches = [batch for number, batch in self.batches.items() if number >= first_batch]
        found = {position: record for batch in batches for position, record in batch.items()}
        assert len(found) == sum(map(len, batches)), "a record came in two batches"
        return found


def _nothing() -> None:
    """What is done at a batch of which nothing else was said."""


def positions_of(frame: DataFrame) -> Positions:
    """The records of a frame that Spark read; no position may come twice."""
    headers = ["headers"] if "headers" in frame.columns else []
    rows = frame.selectExpr("partition", "offset", "key", "value", "unix_millis(timestamp) AS ms", *headers).collect()
    found = {
        (row["partition"], row["offset"]): Record(
            row["partition"],
            None if row["key"] is None else bytes(row["key"]),
            None if row["value"] is None else bytes(row["value"]),
            row["ms"],
            tuple((name, None if value is None else bytes(value)) for name, value in (row["headers"] or ()))
            if headers
            else (),
        )
        for row in rows
    }
    assert len(found) == len(rows), "a record was read twice"
    return found


def without_headers(positions: Positions) -> Positions:
    """The same records as Spark shows them without ``includeHeaders``."""
    return {position: record._replace(headers=()) for position, record in positions.items()}
