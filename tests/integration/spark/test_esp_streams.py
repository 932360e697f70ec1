"""Streams by ``format("esp")`` through Spark; ``tests/integration/test_esp_stream.py`` has the planner's cases without a JVM."""

from pathlib import Path

import pytest
from pyspark.sql import functions as F  # noqa: N812  the name that every PySpark program uses

from esp.spark import drain
from esp.spark.errors import OptionError
from tests.integration.conftest import MakeTopic
from tests.integration.spark.cluster import (
    START_MS,
    BatchSink,
    Cluster,
    ParquetSink,
    Record,
    positions_of,
    records_in_turn,
)

PARTITIONS = 2
HOUR_MS = 3_600_000


def test_a_checkpoint_is_handed_from_kafka_to_esp_and_back(
    cluster: Cluster, topic: str, make_topic: MakeTopic, parquet: ParquetSink
) -> None:
    make_topic(partitions=PARTITIONS)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    written = {}
    for number, source in enumerate(("kafka", "esp", "kafka")):
        written |= cluster.produce(topic, records_in_turn(20, PARTITIONS, first=20 * number))
        assert parquet.drain(cluster.read_stream(source, **options)) == [20]
        assert positions_of(parquet.rows()) == written


def test_a_backlog_is_counted_in_full_though_one_partition_lags(
    cluster: Cluster, topic: str, make_topic: MakeTopic, batches: BatchSink, tmp_path: Path
) -> None:
    """Partition 0 has ten hours, partition 1 the last five; watermark 10 minutes."""
    make_topic(partitions=PARTITIONS)
    minutes = [(0, minute) for minute in range(600)] + [(1, minute) for minute in range(300, 600)]
    begin_ms = START_MS - 10 * HOUR_MS
    cluster.produce(topic, [Record(p, None, b"", begin_ms + minute * 60_000) for p, minute in minutes], batch=100)

    def count(name: str, source: str, **options: object) -> tuple[int, int]:
        """The records that were counted, and the batches with records."""
        stream = cluster.read_stream(source, subscribe=topic, startingOffsets="earliest", **options)
        windows = stream.withWatermark("timestamp", "10 minutes").groupBy(F.window("timestamp", "30 minutes")).count()
        counted: dict[object, int] = {}
        writer = (
            windows.writeStream.outputMode("update")
            .option("checkpointLocation", str(tmp_path / name))
            .foreachBatch(lambda frame, _: counted.update({row["window"]: row["count"] for row in frame.collect()}))
        )
        query = drain(writer)
        read = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
        assert sum(read) == len(minutes)
        return sum(counted.values()), len(read)

    assert count("esp", "esp", maxTimePerTrigger="1 hour", endingOffsets="latest") == (900, 10)
    counted, ran = count("kafka", "kafka", maxOffsetsPerTrigger=90)
    assert ran == 10
    assert counted < 0.7 * 900


def test_a_drained_query_reads_limited_batches_up_to_the_ends_at_its_start(
    cluster: Cluster, topic: str, make_topic: MakeTopic, batches: BatchSink
) -> None:
    make_topic(partitions=PARTITIONS)
    written = cluster.produce(topic, records_in_turn(100, PARTITIONS))
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 30}
    with pytest.raises(OptionError, match="option endingOffsets: a source that is drained must have an end"):
        drain(cluster.read_stream("esp", **options).writeStream.format("noop"))
    stream = cluster.read_stream("esp", endingOffsets="latest", **options)
    later = {}
    batches.after[1] = lambda: later.update(cluster.produce(topic, records_in_turn(10, PARTITIONS, first=100)))
    drain(batches.writer(stream))
    assert [len(batches.batches[number]) for number in range(4)] == [30, 30, 30, 10]
    assert batches.positions() == written
    drain(batches.writer(stream))
    assert batches.positions() == written | later
