"""Spark's streams over topics that change under them: partitions added, topics created anew, records deleted."""

import json
import re
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
    Source,
    positions_of,
    records_in_turn,
)
from tests.integration.topic_changes import add_partitions, recreate

PARTITIONS = 2
FILLED = 50
"""Records in each of the two partitions of a topic that the fixture ``filled`` made."""
TIMEOUT_S = 120
RECREATED = {
    "kafka": "offset was changed from 50 to 0",
    "esp": r"was deleted and created again \(id \S+, now \S+\): set onTopicRecreated=",
}
GONE = {"kafka": "UnknownTopicOrPartition", "esp": r"subscribe=\S+: topic \S+: it does not exist"}
DELETED = {"kafka": "not available in Kafka any more", "esp": "records were deleted, or the topic was created again"}
"""What each source says of it."""


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


def test_partitions_that_are_added_are_read_from_their_start(
    cluster: Cluster, source: Source, topic: str, make_topic: MakeTopic, admin: KafkaAdminClient, parquet: ParquetSink
) -> None:
    make_topic()
    cluster.produce(topic, records_in_turn(20, 1))
    options = {"subscribe": topic, "startingOffsets": "latest"}
    with source.running(parquet, source.endless(**options), processingTime="50 milliseconds") as query:
        eventually(lambda: end_offsets(query, topic) == {"0": 20}, TIMEOUT_S)
        add_partitions(admin, topic, 3)
        written = cluster.produce(topic, records_in_turn(30, 3, first=20))
        query.processAllAvailable()
    assert positions_of(parquet.rows()) == written
    add_partitions(admin, topic, 5)
    written |= cluster.produce(topic, records_in_turn(50, 5, first=50))
    source.drain(parquet, source.stream(**options))
    assert positions_of(parquet.rows()) == written


@pytest.mark.parametrize("is_planned", [True, False], ids=["under-a-planned-batch", "between-batches"])
def test_partitions_that_are_added_under_a_run_up_to_the_ends_are_read_by_the_next(
    cluster: Cluster,
    source: Source,
    topic: str,
    make_topic: MakeTopic,
    admin: KafkaAdminClient,
    batches: BatchSink,
    is_planned: bool,
) -> None:
    make_topic(partitions=PARTITIONS)
    written = cluster.produce(topic, records_in_turn(60, PARTITIONS))
    later: Positions = {}

    def grow() -> None:
        add_partitions(admin, topic, 4)
        later.update(cluster.produce(topic, records_in_turn(40, 4, first=60)))

    (batches.before if is_planned else batches.after)[1] = grow
    stream = source.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    for expected in (lambda: written, lambda: written | later):
        source.drain(batches, stream)
        assert batches.positions() == expected()


def test_a_stopped_stream_takes_a_longer_topic_of_the_same_name_for_the_old_one(
    cluster: Cluster, source: Source, topic: str, filled: Positions, admin: KafkaAdminClient, parquet: ParquetSink
) -> None:
    stream = source.stream(subscribe=topic, startingOffsets="earliest", failOnDataLoss=True)
    source.drain(parquet, stream)
    recreate(admin, topic, PARTITIONS)
    later = cluster.produce(topic, records_in_turn(PARTITIONS * FILLED + 30, PARTITIONS, first=1000))
    assert source.drain(parquet, stream) == [30]
    assert positions_of(parquet.rows()) == filled | {p: r for p, r in later.items() if p[1] >= FILLED}


def test_a_topic_created_anew_fails_the_stream_that_runs(
    source: Source, topic: str, filled: Positions, admin: KafkaAdminClient, batches: BatchSink
) -> None:
    batches.after[0] = lambda: recreate(admin, topic, PARTITIONS)
    stream = source.endless(subscribe=topic, startingOffsets="earliest", failOnDataLoss=True)
    assert re.search(RECREATED[source.name], source.failure(batches, stream, TIMEOUT_S))
    assert batches.positions() == filled


@pytest.mark.parametrize("moment", ["between-batches", "under-a-planned-batch"])
def test_a_stream_that_tolerates_loss_reads_the_topic_created_anew_from_its_start(
    cluster: Cluster,
    source: Source,
    topic: str,
    filled: Positions,
    admin: KafkaAdminClient,
    batches: BatchSink,
    moment: str,
) -> None:
    if source.name == "esp" and moment == "under-a-planned-batch":
        pytest.skip(
            "a task reads by the id of the topic that was planned, and fails: tests/integration/test_esp_stream.py"
        )

    def act() -> None:
        recreate(admin, topic, PARTITIONS)

    options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": False}
    if source.name == "esp":
        options["onTopicRecreated"] = "earliest"
    if moment == "between-batches":
        batches.after[0], first_of_new = act, 1
    else:
        # too little is fetched at a time for a consumer to hold all of the planned batch already
        options |= {"maxOffsetsPerTrigger": FILLED, "kafka__max__partition__fetch__bytes": 200}
        batches.before[1], first_of_new = act, 2
    with source.running(batches, source.endless(**options), processingTime="50 milliseconds") as query:
        eventually(lambda: end_offsets(query, topic) == {"0": 0, "1": 0}, TIMEOUT_S)
        later = cluster.produce(topic, records_in_turn(40, PARTITIONS, first=1000))
        query.processAllAvailable()
    old = {p: r for number in range(first_of_new) for p, r in batches.batches[number].items()}
    assert old.items() <= filled.items()
    assert (old == filled) == (moment == "between-batches")
    assert batches.positions(first_of_new) == later


def test_a_topic_that_is_gone_fails_even_a_stream_that_tolerates_loss(
    source: Source, topic: str, filled: Positions, admin: KafkaAdminClient, batches: BatchSink
) -> None:
    batches.after[0] = lambda: admin.delete_topics([topic])
    stream = source.endless(subscribe=topic, startingOffsets="earliest", failOnDataLoss=False)
    assert re.search(GONE[source.name], source.failure(batches, stream, TIMEOUT_S))
    assert batches.positions() == filled


def test_records_deleted_before_a_stopped_stream_read_them_fail_it_unless_loss_is_allowed(
    cluster: Cluster, source: Source, topic: str, filled: Positions, admin: KafkaAdminClient, parquet: ParquetSink
) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    source.drain(parquet, source.stream(**options))
    first_kept = FILLED + 10
    later = cluster.produce(topic, records_in_turn(PARTITIONS * 30, PARTITIONS, first=1000))
    admin.delete_records({TopicPartition(topic, 0): first_kept})
    with pytest.raises(StreamingQueryException, match=DELETED[source.name]):
        source.drain(parquet, source.stream(**options, failOnDataLoss=True))
    tolerant = source.stream(**options, failOnDataLoss=False)
    source.drain(parquet, tolerant)
    kept = {(p, o): r for (p, o), r in later.items() if p != 0 or o >= first_kept}
    assert positions_of(parquet.rows()) == filled | kept
    even_later = cluster.produce(topic, records_in_turn(20, PARTITIONS, first=2000))
    source.drain(parquet, source.stream(**options, failOnDataLoss=True))
    assert positions_of(parquet.rows()) == filled | kept | even_later


@pytest.mark.parametrize("source_name", ["kafka", "esp"])
def test_retention_that_passes_a_stopped_stream_fails_it_unless_loss_is_allowed(
    spark: SparkSession, fresh_node: NodeFactory, topic: str, parquet: ParquetSink, source_name: str
) -> None:
    node = fresh_node({"log.initial.task.delay.ms": "100", "log.retention.check.interval.ms": "100"})
    cluster = Cluster(spark, node)
    source = Source(cluster, source_name)
    admin = KafkaAdminClient(bootstrap_servers=node.bootstrap)
    try:
        admin.create_topics({topic: {"num_partitions": 1}}, wait_for_metadata=True)
        filled = cluster.produce(topic, records_in_turn(FILLED, 1))
        options = {"subscribe": topic, "startingOffsets": "earliest"}
        source.drain(parquet, source.stream(**options))
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
    with pytest.raises(StreamingQueryException, match=DELETED[source_name]):
        source.drain(parquet, source.stream(**options, failOnDataLoss=True))
    source.drain(parquet, source.stream(**options, failOnDataLoss=False))
    assert positions_of(parquet.rows()) == filled | later
