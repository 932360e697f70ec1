"""The exactly-once sink through Spark; ``tests/integration/test_esp_sink.py`` has its tasks, which die everywhere, without a JVM."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that every PySpark program uses

from esp.consumer.errors import ConsumerError
from esp.options.errors import OptionError
from esp.producer.partitioner import partition_of_key
from esp.sink.decision import RefusedError
from esp.spark import drain, exactly_once, write_once
from esp.spark.routes import find_routes, hash_of
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import AGAINST_KAFKA
from tests.integration.conftest import MakeTopic
from tests.integration.sink_runs import committed_offset
from tests.integration.source_rows import Read
from tests.integration.spark.cluster import Cluster, records_in_turn, with_slow_starts
from tests.integration.transactions import serve_transactions

TARGETS = 3


@pytest.fixture(scope="module", autouse=True)
def _with_transactions(node: NodeProcess) -> None:
    if not AGAINST_KAFKA:
        serve_transactions(node.bootstrap, [node])


def committed(cluster: Cluster, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    rows = Read(cluster.node.bootstrap, subscribe=topic, kafka__isolation__level="read_committed").rows()
    return sorted((row.partition, row.key, row.value) for row in rows)


class Copy:
    """A stream that copies a topic to another one, twenty records a batch."""

    def __init__(self, cluster: Cluster, source: str, target: str, checkpoint: Path) -> None:
        self._cluster = cluster
        self._source = source
        self._target = target
        self.checkpoint = checkpoint

    def run(self) -> None:
        """Copy the rows up to the end."""
        stream = self._cluster.read_stream(
            "esp", subscribe=self._source, startingOffsets="earliest", endingOffsets="latest", maxOffsetsPerTrigger=20
        )
        writer = exactly_once(stream.select("key", "value"), topic=self._target, sink="copy")
        with_slow_starts(lambda: drain(writer.option("checkpointLocation", str(self.checkpoint))))

    def forget_last_commit(self) -> None:
        """Have Spark run the last batch again, as after the death of the driver between the sink and its own log."""
        last = max(int(file.name) for file in (self.checkpoint / "commits").iterdir() if file.name.isdecimal())
        for name in (f"{last}", f".{last}.crc"):
            (self.checkpoint / "commits" / name).unlink()


def test_a_stream_is_written_once_though_batches_come_again(
    cluster: Cluster, topic: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    make_topic(topic, partitions=2)
    target = make_topic(f"{topic}-target", partitions=TARGETS)
    copy = Copy(cluster, topic, target, tmp_path / "checkpoint")
    records = records_in_turn(40, 2)
    cluster.produce(topic, records)
    copy.run()
    expected = sorted((partition_of_key(record.key or b"", TARGETS), record.key, record.value) for record in records)
    assert committed(cluster, target) == expected

    copy.forget_last_commit()
    copy.run()
    assert (copy.checkpoint / "commits" / "1").exists()  # the batch came again
    assert committed(cluster, target) == expected
    used = {partition for partition, _, _ in expected}
    assert {committed_offset(cluster.node.bootstrap, target, number, "copy") for number in used} <= {1, 2}


def frame_of(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count, numPartitions=2).select(
        F.concat(F.lit("k"), (F.col("id") % 7).cast("string")).alias("key"),
        F.to_json(F.struct("id")).alias("value"),
        F.array(F.struct(F.lit("h").alias("key"), F.lit("x").cast("binary").alias("value"))).alias("headers"),
    )


def test_a_batch_is_written_once_though_its_job_runs_again(
    spark: SparkSession, cluster: Cluster, topic: str, make_topic: MakeTopic
) -> None:
    make_topic(topic, partitions=TARGETS)
    options = {"kafka.bootstrap.servers": cluster.node.bootstrap, "kafka.compression.type": "zstd"}
    for tasks in (None, 1):
        write_once(frame_of(spark, 50), topic=topic, transaction="load", options=options, tasks=tasks)
    rows = committed(cluster, topic)
    assert len(rows) == 50
    assert all(partition == partition_of_key(key or b"", TARGETS) for partition, key, _ in rows)
    read = Read(cluster.node.bootstrap, subscribe=topic, includeHeaders=True).rows()
    assert {row.headers for row in read} == {(("h", b"x"),)}
    with pytest.raises(RefusedError, match=r"batch 0 is not repeatable: partition \d had \d+ rows, now \d+"):
        write_once(frame_of(spark, 51), topic=topic, transaction="load", options=options)
    assert committed(cluster, topic) == rows


def test_a_batch_is_written_by_the_format(
    spark: SparkSession, cluster: Cluster, topic: str, make_topic: MakeTopic
) -> None:
    make_topic(topic, partitions=TARGETS)
    options = {"kafka.bootstrap.servers": cluster.node.bootstrap, "topic": topic}
    frame_of(spark, 50).write.format("esp").options(**options).mode("append").save()
    assert len(committed(cluster, topic)) == 50


def test_numbers_are_routed_as_spark_shuffles_them(spark: SparkSession) -> None:
    routes = find_routes(5)
    frame = spark.createDataFrame([(number,) for number in (*routes, 2**31 - 1, 12_345)], "number int")
    found = frame.select("number", F.hash("number").alias("hash")).collect()
    assert all(hash_of(row.number) == row.hash for row in found)
    tasks = frame.where(F.col("number").isin(list(routes))).repartition(5, "number")
    placed = tasks.select("number", F.spark_partition_id().alias("task")).collect()
    assert {row.number: row.task for row in placed} == {route: task for task, route in enumerate(routes)}


def test_bad_arguments_are_refused_before_the_query_starts(spark: SparkSession, cluster: Cluster) -> None:
    stream = spark.readStream.format("rate").load()
    options = {"kafka.bootstrap.servers": cluster.node.bootstrap}
    rows = stream.selectExpr("CAST(value AS STRING) AS value")
    for frame, more, words in [
        (rows, {}, "option options: the stream has 0 clusters as its sources"),
        (stream, {"options": options}, "option columns=timestamp|option columns=value: column value has type bigint"),
        (rows, {"options": options, "sink": "a.b"}, "option sink=a.b: it cannot be the name of a sink"),
        (rows, {"options": options, "tasks": 0}, "option tasks=0: write a whole number, 1 or more"),
        (rows, {"options": options, "tasks": "2"}, "option tasks=2: write a whole number, 1 or more"),
        (rows, {"options": {**options, "acks": "1"}}, "option acks=1: a write by esp does not know it: remove it"),
    ]:
        with pytest.raises(OptionError, match=words):
            exactly_once(frame, **{"topic": "t", "sink": "s", **more})
    with pytest.raises(OptionError, match=r"option transaction=a\.b: it cannot be the name of a sink: write up to 100"):
        write_once(frame_of(spark, 1), topic="t", transaction="a.b", options=options)
    with pytest.raises(ConsumerError, match=r"option topic=nowhere: it does not exist .*: create the topic"):
        write_once(frame_of(spark, 1), topic="nowhere", transaction="load", options=options)
