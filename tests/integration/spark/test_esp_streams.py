"""Streams by ``format("esp")`` through Spark; ``tests/integration/test_esp_stream.py`` has the planner's cases without a JVM."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest
from kafka.admin import KafkaAdminClient
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that every PySpark program uses
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from esp.executor.worker_process import find_connection
from esp.model.position_note import read_note
from esp.options.errors import OptionError
from esp.spark import drain, progress, watch
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.spark.cluster import (
    START_MS,
    BatchSink,
    Cluster,
    ParquetSink,
    Record,
    Source,
    positions_of,
    records_in_turn,
    with_slow_starts,
)
from tests.integration.spark.session import HAS_CONNECTOR

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
        stream = cluster.read_stream(source, **options)
        assert with_slow_starts(lambda stream=stream: parquet.drain(stream)) == [20]
        assert positions_of(parquet.rows()) == written


@pytest.fixture
def one_shuffle_partition(cluster: Cluster) -> Iterator[None]:
    """Small states in one task, and not in several that each take their time."""
    name = "spark.sql.shuffle.partitions"
    before = cluster.spark.conf.get(name)
    cluster.spark.conf.set(name, 1)
    yield
    cluster.spark.conf.set(name, before)


def test_a_backlog_is_counted_in_full_though_one_partition_lags(
    cluster: Cluster, topic: str, make_topic: MakeTopic, one_shuffle_partition: None, tmp_path: Path
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
        query = with_slow_starts(lambda: drain(writer))
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
    with_slow_starts(lambda: drain(batches.writer(stream)))
    assert [len(batches.batches[number]) for number in range(4)] == [30, 30, 30, 10]
    assert batches.positions() == written
    with_slow_starts(lambda: drain(batches.writer(stream)))
    assert batches.positions() == written | later


def test_the_trigger_available_now_keeps_to_limits_where_spark_tells_it_to_the_source(
    cluster: Cluster, topic: str, make_topic: MakeTopic, batches: BatchSink
) -> None:
    """PySpark 4.2 and later: before, one batch was all of such a run."""
    make_topic(partitions=PARTITIONS)
    written = cluster.produce(topic, records_in_turn(100, PARTITIONS))
    stream = cluster.read_stream("esp", subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=30)
    batches.after[0] = lambda: cluster.produce(topic, records_in_turn(10, PARTITIONS, first=100))

    def run() -> None:
        query = batches.writer(stream).trigger(availableNow=True).start()
        query.awaitTermination()

    with_slow_starts(run)
    if find_spec("pyspark.sql.streaming.datasource") is None:
        assert [len(batch) for batch in batches.batches.values()] == [30]
    else:
        assert [len(batches.batches[number]) for number in range(len(batches.batches))] == [30, 30, 30, 10]
        assert batches.positions() == written


def test_a_topic_that_joined_in_a_run_of_one_batch_is_known_to_the_next_run(
    cluster: Cluster, topic: str, make_topic: MakeTopic, batches: BatchSink
) -> None:
    make_topic()
    options = {"subscribePattern": f"^{topic}", "startingOffsets": "earliest", "groupId": f"own-{topic}"}
    stream = cluster.read_stream("esp", **options)

    def run() -> int:
        """The records that a run has read."""
        before = sum(map(len, batches.batches.values()))
        with_slow_starts(lambda: batches.writer(stream).trigger(availableNow=True).start().awaitTermination())
        return sum(map(len, batches.batches.values())) - before

    cluster.produce(topic, records_in_turn(10, 1))
    assert run() == 10
    joined = make_topic(f"{topic}-joined")
    cluster.produce(joined, records_in_turn(20, 1))
    assert run() == 20
    cluster.produce(joined, records_in_turn(3, 1, first=20))
    assert run() == 3


def test_the_lag_of_a_query_by_both_sources_is_seen_from_outside(
    cluster: Cluster, topic: str, make_topic: MakeTopic, admin: KafkaAdminClient, tmp_path: Path
) -> None:
    make_topic()
    other = make_topic(f"{topic}-other")
    for name in (topic, other):
        cluster.produce(name, records_in_turn(20, 1))
    watcher = watch(cluster.spark)
    streams = [
        cluster.read_stream(source, subscribe=name, startingOffsets="earliest", groupId=group)
        for source, name, group in (("kafka", topic, "unused"), ("esp", other, f"own-{topic}"))
    ]
    writer = streams[0].union(streams[1]).writeStream.format("noop").queryName(f"both-{topic}")
    query = with_slow_starts(lambda: start(writer.option("checkpointLocation", str(tmp_path / "checkpoint"))))
    try:
        expected = {(topic, 0): 20, (other, 0): 20}
        eventually(lambda: committed(admin, f"spark.both-{topic}") == expected, 60)
        eventually(lambda: committed(admin, f"own-{topic}") == {(other, 0): 20}, 60)
        found = progress(query)
        assert [(row.topic, row.offset, row.records) for row in found.partitions] == [(topic, 20, 0), (other, 20, 0)]
    finally:
        query.stop()
        watcher.stop()


def test_the_group_of_a_query_that_was_killed_before_its_commit_catches_up_though_nothing_is_new(
    cluster: Cluster, topic: str, make_topic: MakeTopic, admin: KafkaAdminClient, tmp_path: Path
) -> None:
    """The first run has no listener, as one that ends behind Spark's commit of its last batch."""
    make_topic()
    cluster.produce(topic, records_in_turn(20, 1))
    stream = cluster.read_stream("esp", subscribe=topic, startingOffsets="earliest")
    writer = stream.writeStream.format("noop").queryName(f"killed-{topic}")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with_slow_starts(lambda: start(writer)).stop()
    watcher = watch(cluster.spark)
    try:
        query = with_slow_starts(lambda: start(writer))
        eventually(lambda: query.lastProgress is not None, 60)
        query.stop()
    finally:
        watcher.stop()
    group = f"spark.killed-{topic}"
    assert committed(admin, group) == {(topic, 0): 20}
    [noted] = admin.list_group_offsets({group: None})[group].values()
    assert read_note(noted.metadata).batch == 0


def start(writer: DataStreamWriter) -> StreamingQuery:
    """Start a query, and wait until all is read."""
    query = writer.start()
    query.processAllAvailable()
    return query


def committed(admin: KafkaAdminClient, group: str) -> dict[tuple[str, int], int]:
    """The offsets of a group by topic and partition."""
    found = admin.list_group_offsets({group: None})[group]
    return {tuple(partition): each.offset for partition, each in found.items()}


def line_of(failure: str, error: str) -> str:
    """The line in which Spark's exception has the text of an error."""
    [line] = {line.strip() for line in failure.splitlines() if line.strip().startswith(error)}
    return line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "nowhere"}, "option subscribe=nowhere: topic nowhere: it does not exist"),
        (
            {"startingOffsets": '{"T": {"0": 9}}'},
            "partition 0 of topic T would begin at offset 9, behind its end 5: begin",
        ),
        (
            {"startingTimestamp": str(START_MS + 10**9)},
            "no record of partition 0 of topic T has that time or a later one",
        ),
    ],
    ids=["topic", "offset", "time"],
)
def test_the_reason_why_a_stream_cannot_begin_is_a_line_of_what_spark_raises(
    cluster: Cluster, topic: str, make_topic: MakeTopic, batches: BatchSink, options: dict[str, str], words: str
) -> None:
    make_topic(partitions=1)
    cluster.produce(topic, records_in_turn(5, 1))
    given = {"subscribe": topic} | {name: value.replace("T", topic) for name, value in options.items()}
    failure = Source(cluster, "esp").failure(batches, cluster.read_stream("esp", **given), 60)
    assert words.replace("topic T", f"topic {topic}") in line_of(failure, "esp.options.errors.OptionError: option ")


def test_a_checkpoint_of_another_source_is_refused(
    cluster: Cluster, topic: str, make_topic: MakeTopic, parquet: ParquetSink, tmp_path: Path
) -> None:
    make_topic(partitions=1)
    cluster.produce(topic, records_in_turn(5, 1))
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "one").write_text("a line\n")
    assert parquet.drain(cluster.spark.readStream.format("text").load(str(tmp_path / "texts"))) == [1]
    failure = Source(cluster, "esp").failure(parquet, cluster.read_stream("esp", subscribe=topic), 60)
    line = line_of(failure, "esp.consumer.errors.ConsumerError: the checkpoint holds")
    assert line.endswith("is one of another source: use another checkpointLocation")


@pytest.mark.skipif(not HAS_CONNECTOR, reason="PySpark 4.1 and later may reach their processes without TCP")
def test_a_task_finds_the_connection_by_which_spark_reaches_it(spark: SparkSession) -> None:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"is_found": [find_connection() is not None]})

    [row] = spark.range(1, numPartitions=1).mapInArrow(look, "is_found boolean").collect()
    assert row.is_found
