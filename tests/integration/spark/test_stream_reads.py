"""Spark's streaming reads: where they start, how they batch, and how they go on from a checkpoint."""

import json
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from esp.cli.app import run_tools
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.spark.cluster import (
    START_MS,
    Cluster,
    ParquetSink,
    Record,
    positions_of,
    records_in_turn,
)
from tests.integration.topic_changes import recreate
from tests.unit.checkpoints.made_checkpoint import let_age

PARTITIONS = 2


def records(count: int, first: int = 0) -> list[Record]:
    """So many records in turn over the partitions, numbered from ``first``."""
    return records_in_turn(count, PARTITIONS, first)


@pytest.fixture
def filled(cluster: Cluster, make_topic: MakeTopic, topic: str):
    """The test's own topic with a hundred records, and what they are by position."""
    make_topic(partitions=PARTITIONS)
    return cluster.produce(topic, records(100))


def test_available_now_reads_all_in_batches_of_the_size_asked_for(
    cluster: Cluster, topic: str, filled, parquet: ParquetSink
) -> None:
    stream = cluster.read_stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=30)
    assert parquet.drain(stream) == [30, 30, 30, 10]
    assert positions_of(parquet.rows()) == filled


def test_a_restart_reads_what_came_since_the_checkpoint(
    cluster: Cluster, topic: str, filled, parquet: ParquetSink
) -> None:
    stream = cluster.read_stream(subscribe=topic, startingOffsets="earliest")
    assert parquet.drain(stream) == [100]
    assert parquet.drain(stream) == []
    later = cluster.produce(topic, records(21, first=100))
    assert parquet.drain(stream) == [21]
    assert positions_of(parquet.rows()) == filled | later


def test_a_batch_that_was_planned_but_not_committed_is_read_again_as_it_was(
    cluster: Cluster, topic: str, filled, parquet: ParquetSink, tmp_path: Path
) -> None:
    stream = cluster.read_stream(subscribe=topic, startingOffsets="earliest")
    parquet.drain(stream)
    later = cluster.produce(topic, records(10, first=100))
    parquet.drain(stream)
    # as if the driver had died after it planned batch 1 and before its sink took it
    for log in ("checkpoint/commits", "rows/_spark_metadata"):
        for name in ("1", ".1.crc"):
            (tmp_path / log / name).unlink()
    even_later = cluster.produce(topic, records(5, first=110))
    assert parquet.drain(stream) == [10, 5]
    assert positions_of(parquet.rows()) == filled | later | even_later


def test_a_query_that_was_set_back_reads_again_under_new_batch_numbers(
    cluster: Cluster, topic: str, filled, parquet: ParquetSink, tmp_path: Path
) -> None:
    """Also a sink that keeps the numbers of its batches takes what comes again."""
    stream = cluster.read_stream(subscribe=topic, startingOffsets="earliest")
    assert parquet.drain(stream) == [100]
    let_age(tmp_path / "checkpoint", 60)
    to = json.dumps({topic: {"0": 40, "1": 45}})
    command = ("spark", "checkpoints", "set-back", str(tmp_path / "checkpoint"), "--to", to, "--execute")
    assert run_tools((*command, "--bootstrap-server", cluster.node.bootstrap)) == 0
    assert parquet.drain(stream) == [15]
    assert parquet.rows().count() == 115
    assert (tmp_path / "checkpoint" / "commits" / "1").exists()


def test_latest_starts_at_the_end_and_sees_what_comes(
    cluster: Cluster, topic: str, filled, parquet: ParquetSink
) -> None:
    query = parquet.start(
        cluster.read_stream(subscribe=topic, startingOffsets="latest"), processingTime="100 milliseconds"
    )
    try:
        eventually(lambda: query.lastProgress is not None and query.lastProgress.batchId >= 0, 60)
        query.processAllAvailable()
        later = cluster.produce(topic, records(10, first=100))
        query.processAllAvailable()
    finally:
        query.stop()
    assert positions_of(parquet.rows()) == later


def test_specific_offsets_start_the_first_run_only(cluster: Cluster, topic: str, filled, parquet: ParquetSink) -> None:
    stream = cluster.read_stream(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 45, "1": -1}}))
    assert parquet.drain(stream) == [5]
    later = cluster.produce(topic, records(4, first=100))
    assert parquet.drain(stream) == [4]
    expected = {position: record for position, record in filled.items() if position[0] == 0 and position[1] >= 45}
    assert positions_of(parquet.rows()) == expected | later


@pytest.mark.parametrize("by_partition", [False, True], ids=["all", "by-partition"])
def test_a_timestamp_starts_at_the_first_record_not_before_it(
    cluster: Cluster, topic: str, filled, parquet: ParquetSink, by_partition: bool
) -> None:
    start = START_MS + 70 * 1000 - 1
    if by_partition:
        options = {"startingOffsetsByTimestamp": json.dumps({topic: {"0": start, "1": start}})}
    else:
        options = {"startingTimestamp": str(start)}
    parquet.drain(cluster.read_stream(subscribe=topic, **options))
    assert positions_of(parquet.rows()) == {p: r for p, r in filled.items() if r.timestamp_ms >= start}


def test_assign_and_min_partitions_read_every_record_once(
    cluster: Cluster, topic: str, filled, parquet: ParquetSink
) -> None:
    stream = cluster.read_stream(
        assign=json.dumps({topic: [0, 1]}), startingOffsets="earliest", minPartitions=8, maxOffsetsPerTrigger=60
    )
    assert parquet.drain(stream) == [60, 40]
    assert positions_of(parquet.rows()) == filled


def test_headers_reach_the_stream(cluster: Cluster, topic: str, make_topic: MakeTopic, parquet: ParquetSink) -> None:
    make_topic()
    written = cluster.produce(topic, [Record(0, None, b"v", START_MS, (("h", b"1"), ("h", b"2")))])
    parquet.drain(cluster.read_stream(subscribe=topic, startingOffsets="earliest", includeHeaders=True))
    assert positions_of(parquet.rows()) == written


def test_a_pattern_finds_topics_that_are_created_while_it_runs(
    cluster: Cluster, topic: str, filled, make_topic: MakeTopic, parquet: ParquetSink
) -> None:
    stream = cluster.read_stream(
        subscribePattern=f"^{topic}.*", startingOffsets="earliest", kafka__metadata__max__age__ms=200
    )
    query = parquet.start(stream, processingTime="100 milliseconds")
    try:
        query.processAllAvailable()
        second = make_topic(f"{topic}-second")
        cluster.produce(second, [Record(0, b"k", b"new", START_MS)])

        def has_new() -> bool:
            query.processAllAvailable()
            return parquet.rows().where(f"topic = '{second}'").count() == 1

        eventually(has_new, 60)
    finally:
        query.stop()
    assert parquet.rows().count() == 101


def test_a_continuous_stream_keeps_up_with_a_writer(
    cluster: Cluster, topic: str, make_topic: MakeTopic, parquet: ParquetSink
) -> None:
    make_topic(partitions=PARTITIONS)
    query = parquet.start(
        cluster.read_stream(subscribe=topic, startingOffsets="earliest"), processingTime="50 milliseconds"
    )
    try:
        written = {}
        for burst in range(5):
            written |= cluster.produce(topic, records(40, first=40 * burst), batch=40)
        query.processAllAvailable()
    finally:
        query.stop()
    assert positions_of(parquet.rows()) == written


def test_lost_offsets_fail_the_stream_unless_loss_is_allowed(
    cluster: Cluster, topic: str, filled, parquet: ParquetSink, admin: KafkaAdminClient
) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest", "kafkaConsumer__pollTimeoutMs": 2000}
    parquet.drain(cluster.read_stream(**options))
    recreate(admin, topic, PARTITIONS)
    cluster.produce(topic, records(10, first=1000))
    with pytest.raises(StreamingQueryException, match=r"data may have been (missed|lost)"):
        parquet.drain(cluster.read_stream(**options, failOnDataLoss=True))
    tolerant = cluster.read_stream(**options, failOnDataLoss=False)
    parquet.drain(tolerant)
    later = cluster.produce(topic, records(6, first=2000))
    parquet.drain(tolerant)
    values = {record.value for record in later.values()}
    found = [bytes(row["value"]) for row in parquet.rows().select("value").collect()]
    assert values <= set(found)
    assert len(found) == len(set(found))


def test_two_streams_read_the_same_topic_independently(
    cluster: Cluster, topic: str, filled, spark: SparkSession, tmp_path: Path
) -> None:
    sinks = [ParquetSink(spark, tmp_path / name) for name in ("one", "two")]
    stream = cluster.read_stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=50)
    queries = [sink.start(stream, availableNow=True) for sink in sinks]
    for query in queries:
        query.awaitTermination()
    assert [positions_of(sink.rows()) for sink in sinks] == [filled, filled]
