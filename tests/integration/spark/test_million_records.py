"""A million records of a plain producer, read by Spark whole and in place."""

import json

import pytest
from confluent_kafka import Producer
from kafka.admin import KafkaAdminClient
from pyspark.sql import functions as F  # noqa: N812  the name that every PySpark program uses

from tests.integration.spark.cluster import Cluster, ParquetSink, Source

RECORDS, PARTITIONS = 1_000_000, 4
STREAMED = {"kafka": RECORDS, "esp": RECORDS // 5}
"""The last records of the topic that a stream reads; fewer by the second source, for the time that it takes."""


def fill(bootstrap: str, topic: str) -> None:
    """Write the numbers from 0 in turn over the partitions, each padded to a hundred bytes: ``n`` is at offset n // 4 of n % 4."""
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 20,
            "queue.buffering.max.messages": 2 * RECORDS,
            "log_level": 0,
        }
    )

    def on_delivery(error: object, _message: object) -> None:
        if error is not None:
            failures.append(error)

    for number in range(RECORDS):
        producer.produce(topic, b"%0100d" % number, partition=number % PARTITIONS, on_delivery=on_delivery)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0
    assert failures == []


@pytest.fixture(scope="module")
def million(cluster: Cluster, admin: KafkaAdminClient) -> str:
    """A topic with a million records, which all tests read."""
    admin.create_topics({"million": {"num_partitions": PARTITIONS}}, wait_for_metadata=True)
    fill(cluster.node.bootstrap, "million")
    return "million"


def test_a_million_records_are_read_whole_and_in_place(source: Source, million: str) -> None:
    numbered = source.cluster.read(source.name, subscribe=million).selectExpr(
        "partition", "offset", "CAST(CAST(value AS STRING) AS BIGINT) AS number"
    )
    found = numbered.groupBy("partition").agg(
        F.count("*").alias("records"),
        F.count_distinct("offset").alias("offsets"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.sum("number").alias("sum"),
        F.count_if(F.col("number") == F.col("offset") * PARTITIONS + F.col("partition")).alias("in_place"),
    )
    each = RECORDS // PARTITIONS
    assert sorted(tuple(row) for row in found.collect()) == [
        (partition, each, each, 0, each - 1, sum(range(partition, RECORDS, PARTITIONS)), each)
        for partition in range(PARTITIONS)
    ]


def test_a_stream_reads_very_many_records_once_each(source: Source, million: str, parquet: ParquetSink) -> None:
    first, each = RECORDS - STREAMED[source.name], STREAMED[source.name] // 4
    starts = {million: {str(number): first // PARTITIONS for number in range(PARTITIONS)}}
    stream = source.stream(subscribe=million, startingOffsets=json.dumps(starts), maxOffsetsPerTrigger=each)
    assert source.drain(parquet, stream) == [each] * 4
    numbers = parquet.rows().selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS number")
    [row] = numbers.agg(F.count("*"), F.count_distinct("number"), F.min("number"), F.max("number")).collect()
    assert tuple(row) == (4 * each, 4 * each, first, RECORDS - 1)
