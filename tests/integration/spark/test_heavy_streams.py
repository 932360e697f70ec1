"""Spark's streams where it is hard to keep count: skewed partitions, a node that restarts under them, many queries at once."""

from collections import Counter

import pytest
from kafka.admin import KafkaAdminClient
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that every PySpark program uses

from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import NodeFactory
from tests.integration.conftest import MakeTopic
from tests.integration.spark.cluster import (
    START_MS,
    BatchSink,
    Cluster,
    ParquetSink,
    Positions,
    Record,
    positions_of,
    records_in_turn,
)

LARGE, SMALL = 3000, 10
"""Records of the large partition of a skewed topic, and of each of its two small ones."""


@pytest.fixture
def skewed(cluster: Cluster, topic: str, make_topic: MakeTopic) -> Positions:
    """The test's own topic, of which one partition has nearly all records."""
    make_topic(partitions=3)
    partitions = [0] * SMALL + [1] * LARGE + [2] * SMALL
    return cluster.produce(
        topic, [Record(p, None, str(n).encode(), START_MS + n) for n, p in enumerate(partitions)], batch=500
    )


def test_min_partitions_split_a_skewed_topic_where_its_records_are(
    cluster: Cluster, topic: str, skewed: Positions, parquet: ParquetSink
) -> None:
    frame = cluster.read(subscribe=topic, minPartitions=8)
    shares = frame.groupBy("partition", F.spark_partition_id().alias("task")).count().collect()
    assert Counter(row["partition"] for row in shares) == {0: 1, 1: 6, 2: 1}
    assert {row["count"] for row in shares} == {SMALL, LARGE // 6}
    stream = cluster.read_stream(subscribe=topic, startingOffsets="earliest", minPartitions=8)
    assert parquet.drain(stream) == [LARGE + 2 * SMALL]
    assert positions_of(parquet.rows()) == skewed


def test_available_now_reads_every_record_once_while_its_node_restarts(
    spark: SparkSession, fresh_node: NodeFactory, topic: str, batches: BatchSink
) -> None:
    node = fresh_node()
    cluster = Cluster(spark, node)
    admin = KafkaAdminClient(bootstrap_servers=node.bootstrap)
    admin.create_topics({topic: {"num_partitions": 2}}, wait_for_metadata=True)
    admin.close()
    written = cluster.produce(topic, records_in_turn(300, 2), batch=50)

    def end_in_order() -> None:
        node.stop()
        node.launch()

    def end_at_once() -> None:
        node.kill()
        node.launch()

    batches.before[1] = end_in_order
    batches.after[3] = end_at_once
    stream = cluster.read_stream(
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=50,
        kafka__max__partition__fetch__bytes=500,  # too little for a consumer to hold a later batch's records already
    )
    batches.start(stream, availableNow=True).awaitTermination()
    assert not batches.before | batches.after, "the node did not restart"
    assert [len(batch) for _, batch in sorted(batches.batches.items())] == [50] * 6
    assert batches.positions() == written


def test_many_queries_of_one_session_read_all_that_is_theirs(
    cluster: Cluster, node: NodeProcess, spark: SparkSession, topic: str, make_topic: MakeTopic
) -> None:
    topics = [make_topic(f"{topic}-{number}", partitions=2) for number in range(3)]
    written = {name: cluster.produce(name, records_in_turn(60, 2, first=100 * n)) for n, name in enumerate(topics)}
    queries = {}
    for number in range(8):
        stream = cluster.read_stream(
            subscribe=topics[number % len(topics)], startingOffsets="earliest", maxOffsetsPerTrigger=30
        )
        sink = stream.writeStream.format("memory").queryName(f"many_{number}")
        queries[sink.trigger(availableNow=True).start()] = topics[number % len(topics)]
    for query, name in queries.items():
        query.awaitTermination()
        assert positions_of(spark.table(query.name)) == written[name]
        spark.catalog.dropTempView(query.name)
    later = cluster.produce(topics[0], records_in_turn(10, 2, first=300))
    assert cluster.consume(topics[0]) == written[topics[0]] | later
    assert node.is_ready
