"""Spark's Kafka sink, batch and streaming: what plain clients find in the topics afterwards."""

import time
from pathlib import Path

import pytest
from kafka.partitioner.default import murmur2
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that every PySpark program uses

from esp.spark import drain
from esp.testing.segment_files import read_batch_headers
from tests.integration.conftest import MakeTopic
from tests.integration.spark.cluster import Cluster, Record, Source, positions_of, with_slow_starts

ROWS = 100


def numbers(spark: SparkSession, count: int = ROWS):
    """Rows with a key and a value each."""
    return spark.range(count).selectExpr("CONCAT('key-', id) AS key", "CAST(id AS STRING) AS value")


def write(frame, cluster: Cluster, **options: object) -> None:
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", cluster.node.bootstrap)
    for name, value in options.items():
        writer = writer.option(name.replace("__", "."), value)
    writer.save()


def test_every_row_becomes_a_record_on_the_partition_of_its_key(
    spark: SparkSession, cluster: Cluster, topic: str, make_topic: MakeTopic
) -> None:
    make_topic(partitions=4)
    before = int(time.time() * 1000)
    write(numbers(spark), cluster, topic=topic)
    records = list(cluster.consume(topic).values())
    assert {record.key: record.value for record in records} == {
        f"key-{n}".encode(): str(n).encode() for n in range(ROWS)
    }
    assert len(records) == ROWS
    assert all(record.partition == (murmur2(record.key) & 0x7FFFFFFF) % 4 for record in records)
    assert all(before <= record.timestamp_ms <= int(time.time() * 1000) for record in records)


def test_the_partition_and_topic_columns_are_obeyed(
    spark: SparkSession, cluster: Cluster, topic: str, make_topic: MakeTopic
) -> None:
    topics = [make_topic(f"{topic}-{number}", partitions=3) for number in range(2)]
    frame = spark.range(60).selectExpr(
        f"CONCAT('{topic}-', id % 2) AS topic", "CAST(id % 3 AS INT) AS partition", "CAST(id AS STRING) AS value"
    )
    write(frame.coalesce(1), cluster)
    for number, name in enumerate(topics):
        records = cluster.consume(name)
        for partition in range(3):
            values = [int(records[p, o].value) for p, o in sorted(records) if p == partition]
            assert values == [n for n in range(60) if n % 2 == number and n % 3 == partition]


def test_headers_nulls_and_bytes_arrive_as_they_were(
    spark: SparkSession, cluster: Cluster, topic: str, make_topic: MakeTopic
) -> None:
    make_topic()
    rows = [
        (b"a", b"\x00\xff\xfe", [("h", b"1"), ("h", b"2"), ("empty", b"")]),
        (None, b"no key", []),
        (b"no value", None, None),
    ]
    schema = "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    write(spark.createDataFrame(rows, schema).coalesce(1), cluster, topic=topic, includeHeaders=True)
    found = {(record.key, record.value, record.headers) for record in cluster.consume(topic).values()}
    assert found == {(key, value, tuple(headers or ())) for key, value, headers in rows}


def test_a_topic_is_created_by_the_first_write(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    write(numbers(spark, 5), cluster, topic=topic)
    assert len(cluster.consume(topic)) == 5


@pytest.mark.parametrize(("codec", "number"), [("none", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)])
def test_a_codec_is_kept_on_disk_and_read_back(
    spark: SparkSession, cluster: Cluster, topic: str, make_topic: MakeTopic, codec: str, number: int
) -> None:
    make_topic()
    frame = numbers(spark).withColumn("value", F.repeat("value", 20)).coalesce(1)
    write(frame, cluster, topic=topic, kafka__compression__type=codec)
    headers = read_batch_headers(cluster.node.log_dirs, topic)
    assert {header.attributes & 7 for header in headers} == {number}
    for source in ("kafka", "esp"):
        read = positions_of(cluster.read(source, subscribe=topic))
        values = {record.key: record.value for record in read.values()}
        assert values == {f"key-{n}".encode(): str(n).encode() * 20 for n in range(ROWS)}, source


@pytest.mark.parametrize(
    "options", [{"kafka__acks": "1", "kafka__enable__idempotence": False}, {"kafka__acks": "0"}], ids=str
)
def test_weaker_acknowledgements_work_too(
    spark: SparkSession, cluster: Cluster, topic: str, make_topic: MakeTopic, options: dict[str, object]
) -> None:
    make_topic(partitions=2)
    write(numbers(spark), cluster, topic=topic, **options)
    assert len(cluster.consume(topic)) == ROWS


def test_large_rows_arrive_whole(spark: SparkSession, cluster: Cluster, topic: str, make_topic: MakeTopic) -> None:
    make_topic()
    frame = spark.range(3).selectExpr("CAST(id AS STRING) AS key", "REPEAT(CAST(id AS STRING), 1000000) AS value")
    write(frame, cluster, topic=topic)
    found = {record.key: record.value for record in cluster.consume(topic).values()}
    assert found == {str(n).encode(): str(n).encode() * 1_000_000 for n in range(3)}


def test_a_stream_from_topic_to_topic_writes_each_record_once(
    source: Source, topic: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    cluster = source.cluster
    origin, target = make_topic(f"{topic}-source", partitions=2), make_topic(f"{topic}-target", partitions=3)
    now = int(time.time() * 1000)

    def run() -> None:
        stream = source.stream(
            subscribe=origin, startingOffsets="earliest", maxOffsetsPerTrigger=40, includeHeaders=True
        )
        writer = (
            stream.selectExpr("key", "UPPER(CAST(value AS STRING)) AS value", "headers")
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", cluster.node.bootstrap)
            .option("topic", target)
            .option("includeHeaders", True)
            .option("checkpointLocation", str(tmp_path))
        )
        if source.name == "esp":
            with_slow_starts(lambda: drain(writer))
        else:
            writer.trigger(availableNow=True).start().awaitTermination()

    expected = set()
    for first in (0, 100):  # the second run goes on from the checkpoint
        records = [
            Record(n % 2, f"k{n}".encode(), f"v{n}".encode(), now, (("n", b"%d" % n),))
            for n in range(first, first + 100)
        ]
        cluster.produce(origin, records)
        run()
        expected |= {(record.key, record.value.upper(), record.headers) for record in records}
        found = [(record.key, record.value, record.headers) for record in cluster.consume(target).values()]
        assert len(found) == first + 100
        assert set(found) == expected


def test_what_spark_wrote_spark_reads(spark: SparkSession, source: Source, topic: str, make_topic: MakeTopic) -> None:
    make_topic(partitions=3)
    write(numbers(spark, 20_000), source.cluster, topic=topic)
    assert positions_of(source.cluster.read(source.name, subscribe=topic)) == source.cluster.consume(topic)
