"""Spark's streams where it is hard to keep count: skewed partitions, a node that restarts under them, many queries at once."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
from kafka.admin import KafkaAdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that every PySpark program uses
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

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
    Source,
    positions_of,
    records_in_turn,
)

QUERIES = {"kafka": 8, "esp": 3}
"""At once. Each of ``esp`` has Python processes of its own, which take a second of processor time to start."""
LARGE, SMALL = 3000, 10
"""Records of the large partition of a skewed topic, and of each of its two small ones."""


class MemorySink(NamedTuple):
    """A table in the driver's memory.

    Attributes:
        spark: the session.
        name: of the query and of the table.
    """

    spark: SparkSession
    name: str

    def writer(self, stream: DataFrame) -> DataStreamWriter:
        """The writer of a stream to this table."""
        return stream.writeStream.format("memory").queryName(self.name)

    def start(self, stream: DataFrame, **trigger: object) -> StreamingQuery:
        return self.writer(stream).trigger(**trigger).start()

    def drain(self, stream: DataFrame) -> list[int]:
        """Stream all that is there now; the answer is how many records each batch had."""
        query = self.start(stream, availableNow=True)
        query.awaitTermination()
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


@pytest.fixture
def skewed(cluster: Cluster, topic: str, make_topic: MakeTopic) -> Positions:
    """The test's own topic, of which one partition has nearly all records."""
    make_topic(partitions=3)
    partitions = [0] * SMALL + [1] * LARGE + [2] * SMALL
    return cluster.produce(
        topic, [Record(p, None, str(n).encode(), START_MS + n) for n, p in enumerate(partitions)], batch=500
    )


def test_min_partitions_split_a_skewed_topic_where_its_records_are(
    cluster: Cluster, source: Source, topic: str, skewed: Positions, parquet: ParquetSink
) -> None:
    frame = cluster.read(source.name, subscribe=topic, minPartitions=8)
    shares = frame.groupBy("partition", F.spark_partition_id().alias("task")).count().collect()
    assert Counter(row["partition"] for row in shares) == {0: 1, 1: 6, 2: 1}
    assert {row["count"] for row in shares} == {SMALL, LARGE // 6}
    stream = source.stream(subscribe=topic, startingOffsets="earliest", minPartitions=8)
    assert source.drain(parquet, stream) == [LARGE + 2 * SMALL]
    assert positions_of(parquet.rows()) == skewed


def test_a_stream_up_to_its_ends_reads_every_record_once_while_its_node_restarts(
    spark: SparkSession, fresh_node: NodeFactory, source: Source, topic: str, batches: BatchSink
) -> None:
    node = fresh_node()
    cluster = Cluster(spark, node)
    source = source._replace(cluster=cluster)
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
    stream = source.stream(
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=50,
        kafka__max__partition__fetch__bytes=500,  # too little for a consumer to hold a later batch's records already
    )
    source.drain(batches, stream)
    assert not batches.before | batches.after, "the node did not restart"
    assert [len(batch) for _, batch in sorted(batches.batches.items())] == [50] * 6
    assert batches.positions() == written


def test_many_queries_of_one_session_read_all_that_is_theirs(
    cluster: Cluster, source: Source, node: NodeProcess, spark: SparkSession, topic: str, make_topic: MakeTopic
) -> None:
    topics = [make_topic(f"{topic}-{number}", partitions=2) for number in range(3)]
    written = {name: cluster.produce(name, records_in_turn(60, 2, first=100 * n)) for n, name in enumerate(topics)}

    def run(number: int) -> None:
        name = f"many_{number}"
        stream = source.stream(
            subscribe=topics[number % len(topics)], startingOffsets="earliest", maxOffsetsPerTrigger=30
        )
        source.drain(MemorySink(spark, name), stream)
        assert positions_of(spark.table(name)) == written[topics[number % len(topics)]]
        spark.catalog.dropTempView(name)

    with ThreadPoolExecutor(QUERIES[source.name]) as threads:
        for query in [threads.submit(run, number) for number in range(QUERIES[source.name])]:
            query.result()
    later = cluster.produce(topics[0], records_in_turn(10, 2, first=300))
    assert cluster.consume(topics[0]) == written[topics[0]] | later
    assert node.is_ready
