"""Spark's streams over topics that change under them: partitions added, topics created anew, records deleted."""

import json
import time

import pytest
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from esp.testing.pytest_plugin import NodeFactory
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.spark.cluster import (
    BatchSink,
    Cluster,
    ParquetSink,
    Positions,
    Record,
    positions_of,
    records_in_turn,
)
from tests.integration.topic_changes import add_partitions, recreate

PARTITIONS = 2
FILLED = 50
"""Records in each of the two partitions of a topic that the fixture ``filled`` made."""
TIMEOUT_S = 120


@pytest.fixture
def filled(cluster: Cluster, make_topic: MakeTopic, topic: str) -> Positions:
    """The test's own topic with its first records, and what they are by position."""
    make_topic(partitions=PARTITIONS)
    return cluster.produce(topic, records_in_turn(PARTITIONS * FILLED, PARTITIONS))


def end_offsets(query: StreamingQuery, topic: str) -> dict[str, int]:
    """How far the query has planned, by partition; empty before its first batch."""
    progress = query.lastProgress
    if progress is None or not progress.sources[0].endOffset:
        return {}
    return json.loads(progress.sources[0].endOffset)[topic]


def failure(query: StreamingQuery) -> str:
    """Why the query ended, which it must do by itself."""
    try:
        with pytest.raises(StreamingQueryException) as failed:
            query.awaitTermination(TIMEOUT_S)
    finally:
        query.stop()
    return str(failed.value)


def test_partitions_that_are_added_are_read_from_their_start(
    cluster: Cluster, topic: str, make_topic: MakeTopic, admin: KafkaAdminClient, parquet: ParquetSink
) -> None:
    make_topic()
    cluster.produce(topic, records_in_turn(20, 1))
    stream = cluster.read_stream(subscribe=topic, startingOffsets="latest")
    query = parquet.start(stream, processingTime="50 milliseconds")
    try:
        eventually(lambda: end_offsets(query, topic) == {"0": 20}, TIMEOUT_S)
        add_partitions(admin, topic, 3)
        written = cluster.produce(topic, records_in_turn(30, 3, first=20))
        query.processAllAvailable()
    finally:
        query.stop()
    assert positions_of(parquet.rows()) == written
    add_partitions(admin, topic, 5)
    written |= cluster.produce(topic, records_in_turn(50, 5, first=50))
    parquet.drain(stream)
    assert positions_of(parquet.rows()) == written


@pytest.mark.parametrize("is_planned", [True, False], ids=["under-a-planned-batch", "between-batches"])
def test_partitions_that_are_added_under_available_now_are_read_by_the_next_run(
    cluster: Cluster, topic: str, make_topic: MakeTopic, admin: KafkaAdminClient, batches: BatchSink, is_planned: bool
) -> None:
    make_topic(partitions=PARTITIONS)
    written = cluster.produce(topic, records_in_turn(60, PARTITIONS))
    later: Positions = {}

    def grow() -> None:
        add_partitions(admin, topic, 4)
        later.update(cluster.produce(topic, records_in_turn(40, 4, first=60)))

    (batches.before if is_planned else batches.after)[1] = grow
    stream = cluster.read_stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    for expected in (lambda: written, lambda: written | later):
        batches.start(stream, availableNow=True).awaitTermination()
        assert batches.positions() == expected()


def test_a_stopped_stream_takes_a_longer_topic_of_the_same_name_for_the_old_one(
    cluster: Cluster, topic: str, filled: Positions, admin: KafkaAdminClient, parquet: ParquetSink
) -> None:
    stream = cluster.read_stream(subscribe=topic, startingOffsets="earliest", failOnDataLoss=True)
    parquet.drain(stream)
    recreate(admin, topic, PARTITIONS)
    later = cluster.produce(topic, records_in_turn(PARTITIONS * FILLED + 30, PARTITIONS, first=1000))
    assert parquet.drain(stream) == [30]
    assert positions_of(parquet.rows()) == filled | {p: r for p, r in later.items() if p[1] >= FILLED}


def test_a_topic_created_anew_fails_the_stream_that_runs(
    cluster: Cluster, topic: str, filled: Positions, admin: KafkaAdminClient, batches: BatchSink
) -> None:
    batches.after[0] = lambda: recreate(admin, topic, PARTITIONS)
    stream = cluster.read_stream(subscribe=topic, startingOffsets="earliest", failOnDataLoss=True)
    query = batches.start(stream, processingTime="50 milliseconds")
    with pytest.raises(StreamingQueryException, match="offset was changed from 50 to 0"):
        query.awaitTermination()
    assert batches.positions() == filled


@pytest.mark.parametrize("moment", ["between-batches", "under-a-planned-batch"])
def test_a_stream_that_tolerates_loss_reads_the_topic_created_anew_from_its_start(
    cluster: Cluster, topic: str, filled: Positions, admin: KafkaAdminClient, batches: BatchSink, moment: str
) -> None:
    def act() -> None:
        recreate(admin, topic, PARTITIONS)

    options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": False}
    if moment == "between-batches":
        batches.after[0], first_of_new = act, 1
    else:
        # too little is fetched at a time for a consumer to hold all of the planned batch already
        options |= {"maxOffsetsPerTrigger": FILLED, "kafka__max__partition__fetch__bytes": 200}
        batches.before[1], first_of_new = act, 2
    query = batches.start(cluster.read_stream(**options), processingTime="50 milliseconds")
    try:
        eventually(lambda: end_offsets(query, topic) == {"0": 0, "1": 0}, TIMEOUT_S)
        later = cluster.produce(topic, records_in_turn(40, PARTITIONS, first=1000))
        query.processAllAvailable()
    finally:
        query.stop()
    old = {p: r for number in range(first_of_new) for p, r in batches.batches[number].items()}
    assert old.items() <= filled.items()
    assert (old == filled) == (moment == "between-batches")
    assert batches.positions(first_of_new) == later


def test_a_topic_that_is_gone_fails_even_a_stream_that_tolerates_loss(
    cluster: Cluster, topic: str, filled: Positions, admin: KafkaAdminClient, batches: BatchSink
) -> None:
    batches.after[0] = lambda: admin.delete_topics([topic])
    stream = cluster.read_stream(subscribe=topic, startingOffsets="earliest", failOnDataLoss=False)
    assert "UnknownTopicOrPartition" in failure(batches.start(stream, processingTime="50 milliseconds"))
    assert batches.positions() == filled


def test_records_deleted_before_a_stopped_stream_read_them_fail_it_unless_loss_is_allowed(
    cluster: Cluster, topic: str, filled: Positions, admin: KafkaAdminClient, parquet: ParquetSink
) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    parquet.drain(cluster.read_stream(**options))
    first_kept = FILLED + 10
    later = cluster.produce(topic, records_in_turn(PARTITIONS * 30, PARTITIONS, first=1000))
    admin.delete_records({TopicPartition(topic, 0): first_kept})
    with pytest.raises(StreamingQueryException, match="not available in Kafka any more"):
        parquet.drain(cluster.read_stream(**options, failOnDataLoss=True))
    tolerant = cluster.read_stream(**options, failOnDataLoss=False)
    parquet.drain(tolerant)
    kept = {(p, o): r for (p, o), r in later.items() if p != 0 or o >= first_kept}
    assert positions_of(parquet.rows()) == filled | kept
    even_later = cluster.produce(topic, records_in_turn(20, PARTITIONS, first=2000))
    parquet.drain(cluster.read_stream(**options, failOnDataLoss=True))
    assert positions_of(parquet.rows()) == filled | kept | even_later


def test_retention_that_passes_a_stopped_stream_fails_it_unless_loss_is_allowed(
    spark: SparkSession, fresh_node: NodeFactory, topic: str, parquet: ParquetSink
) -> None:
    node = fresh_node({"log.initial.task.delay.ms": "100", "log.retention.check.interval.ms": "100"})
    cluster = Cluster(spark, node)
    admin = KafkaAdminClient(bootstrap_servers=node.bootstrap)
    try:
        admin.create_topics({topic: {"num_partitions": 1}}, wait_for_metadata=True)
        filled = cluster.produce(topic, records_in_turn(FILLED, 1))
        options = {"subscribe": topic, "startingOffsets": "earliest"}
        parquet.drain(cluster.read_stream(**options))
        cluster.produce(topic, records_in_turn(30, 1, first=FILLED))
        half_an_hour = {"retention.ms": "1800000"}  # all that was written is older
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, half_an_hour)])
        partition = TopicPartition(topic, 0)
        eventually(
            lambda: admin.list_partition_offsets({partition: OffsetSpec.EARLIEST})[partition].offset == FILLED + 30, 60
        )
    finally:
        admin.close()
    later = cluster.produce(topic, [Record(0, None, b"new", int(time.time() * 1000))] * 20)
    with pytest.raises(StreamingQueryException, match="not available in Kafka any more"):
        parquet.drain(cluster.read_stream(**options, failOnDataLoss=True))
    parquet.drain(cluster.read_stream(**options, failOnDataLoss=False))
    assert positions_of(parquet.rows()) == filled | later
