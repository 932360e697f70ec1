"""Spark's streaming reads: where they start, how they batch, and how they go on from a checkpoint."""

import json
from concurrent.futures import ThreadPoolExecutor
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
    Source,
    positions_of,
    records_in_turn,
)
from tests.integration.topic_changes import recreate
from tests.unit.checkpoints.made_checkpoint import let_age

PARTITIONS = 2
LOST = {"kafka": r"data may have been (missed|lost)", "esp": r"records were lost, or the topic was created again"}
"""What each source says of offsets that are not there any more."""


def records(count: int, first: int = 0) -> list[Record]:
    """So many records in turn over the partitions, numbered from ``first``."""
    return records_in_turn(count, PARTITIONS, first)


@pytest.fixture
def filled(cluster: Cluster, make_topic: MakeTopic, topic: str):
    """The test's own topic with a hundred records, and what they are by position."""
    make_topic(partitions=PARTITIONS)
    return cluster.produce(topic, records(100))


def test_available_now_reads_all_in_batches_of_the_size_asked_for(
    cluster: Cluster, source: Source, topic: str, filled, parquet: ParquetSink
) -> None:
    stream = source.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=30)
    assert source.drain(parquet, stream) == [30, 30, 30, 10]
    assert positions_of(parquet.rows()) == filled


def test_a_restart_reads_what_came_since_the_checkpoint(
    cluster: Cluster, source: Source, topic: str, filled, parquet: ParquetSink
) -> None:
    stream = source.stream(subscribe=topic, startingOffsets="earliest")
    assert source.drain(parquet, stream) == [100]
    assert source.drain(parquet, stream) == []
    later = cluster.produce(topic, records(21, first=100))
    assert source.drain(parquet, stream) == [21]
    assert positions_of(parquet.rows()) == filled | later


def test_a_batch_that_was_planned_but_not_committed_is_read_again_as_it_was(
    cluster: Cluster, source: Source, topic: str, filled, parquet: ParquetSink, tmp_path: Path
) -> None:
    stream = source.stream(subscribe=topic, startingOffsets="earliest")
    source.drain(parquet, stream)
    later = cluster.produce(topic, records(10, first=100))
    source.drain(parquet, stream)
    # as if the driver had died after it planned batch 1 and before its sink took it
    for log in ("checkpoint/commits", "rows/_spark_metadata"):
        for name in ("1", ".1.crc"):
            (tmp_path / log / name).unlink()
    even_later = cluster.produce(topic, records(5, first=110))
    assert source.drain(parquet, stream) == [10, 5]
    assert positions_of(parquet.rows()) == filled | later | even_later


def test_a_query_that_was_set_back_reads_again_under_new_batch_numbers(
    cluster: Cluster, source: Source, topic: str, filled, parquet: ParquetSink, tmp_path: Path
) -> None:
    """Also a sink that keeps the numbers of its batches takes what comes again."""
    stream = source.stream(subscribe=topic, startingOffsets="earliest")
    assert source.drain(parquet, stream) == [100]
    let_age(tmp_path / "checkpoint", 60)
    to = json.dumps({topic: {"0": 40, "1": 45}})
    command = ("spark", "checkpoints", "set-back", str(tmp_path / "checkpoint"), "--to", to, "--execute")
    assert run_tools((*command, "--bootstrap-server", cluster.node.bootstrap)) == 0
    assert source.drain(parquet, stream) == [15]
    assert parquet.rows().count() == 115
    assert (tmp_path / "checkpoint" / "commits" / "1").exists()


def test_latest_starts_at_the_end_and_sees_what_comes(
    cluster: Cluster, source: Source, topic: str, filled, parquet: ParquetSink
) -> None:
    stream = source.endless(subscribe=topic, startingOffsets="latest")
    with source.running(parquet, stream, processingTime="100 milliseconds") as query:
        later = cluster.produce(topic, records(10, first=100))
        query.processAllAvailable()
    assert positions_of(parquet.rows()) == later


def test_specific_offsets_start_the_first_run_only(
    cluster: Cluster, source: Source, topic: str, filled, parquet: ParquetSink
) -> None:
    stream = source.stream(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 45, "1": -1}}))
    assert source.drain(parquet, stream) == [5]
    later = cluster.produce(topic, records(4, first=100))
    assert source.drain(parquet, stream) == [4]
    expected = {position: record for position, record in filled.items() if position[0] == 0 and position[1] >= 45}
    assert positions_of(parquet.rows()) == expected | later


@pytest.mark.parametrize("by_partition", [False, True], ids=["all", "by-partition"])
def test_a_timestamp_starts_at_the_first_record_not_before_it(
    cluster: Cluster, source: Source, topic: str, filled, parquet: ParquetSink, by_partition: bool
) -> None:
    start = START_MS + 70 * 1000 - 1
    if by_partition:
        options = {"startingOffsetsByTimestamp": json.dumps({topic: {"0": start, "1": start}})}
    else:
        options = {"startingTimestamp": str(start)}
    source.drain(parquet, source.stream(subscribe=topic, **options))
    assert positions_of(parquet.rows()) == {p: r for p, r in filled.items() if r.timestamp_ms >= start}


def test_assign_and_min_partitions_read_every_record_once(
    cluster: Cluster, source: Source, topic: str, filled, parquet: ParquetSink
) -> None:
    stream = source.stream(
        assign=json.dumps({topic: [0, 1]}), startingOffsets="earliest", minPartitions=8, maxOffsetsPerTrigger=60
    )
    assert source.drain(parquet, stream) == [60, 40]
    assert positions_of(parquet.rows()) == filled


def test_headers_reach_the_stream(
    cluster: Cluster, source: Source, topic: str, make_topic: MakeTopic, parquet: ParquetSink
) -> None:
    make_topic()
    written = cluster.produce(topic, [Record(0, None, b"v", START_MS, (("h", b"1"), ("h", b"2")))])
    source.drain(parquet, source.stream(subscribe=topic, startingOffsets="earliest", includeHeaders=True))
    assert positions_of(parquet.rows()) == written


def test_a_pattern_finds_topics_that_are_created_while_it_runs(
    cluster: Cluster, source: Source, topic: str, filled, make_topic: MakeTopic, parquet: ParquetSink
) -> None:
    often = {"kafka__metadata__max__age__ms": 200} if source.name == "kafka" else {}
    stream = source.endless(subscribePattern=f"^{topic}.*", startingOffsets="earliest", **often)
    with source.running(parquet, stream, processingTime="100 milliseconds") as query:
        second = make_topic(f"{topic}-second")
        cluster.produce(second, [Record(0, b"k", b"new", START_MS)])

        def has_new() -> bool:
            query.processAllAvailable()
            return parquet.rows().where(f"topic = '{second}'").count() == 1

        eventually(has_new, 60)
    assert parquet.rows().count() == 101


def test_a_continuous_stream_keeps_up_with_a_writer(
    cluster: Cluster, source: Source, topic: str, make_topic: MakeTopic, parquet: ParquetSink
) -> None:
    make_topic(partitions=PARTITIONS)
    stream = source.endless(subscribe=topic, startingOffsets="earliest")
    with source.running(parquet, stream, processingTime="50 milliseconds") as query:
        written = {}
        for burst in range(5):
            written |= cluster.produce(topic, records(40, first=40 * burst), batch=40)
        query.processAllAvailable()
    assert positions_of(parquet.rows()) == written


def test_lost_offsets_fail_the_stream_unless_loss_is_allowed(
    cluster: Cluster, source: Source, topic: str, filled, parquet: ParquetSink, admin: KafkaAdminClient
) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    if source.name == "kafka":
        options["kafkaConsumer__pollTimeoutMs"] = 2000
    source.drain(parquet, source.stream(**options))
    recreate(admin, topic, PARTITIONS)
    cluster.produce(topic, records(10, first=1000))
    with pytest.raises(StreamingQueryException, match=LOST[source.name]):
        source.drain(parquet, source.stream(**options, failOnDataLoss=True))
    tolerant = source.stream(**options, failOnDataLoss=False)
    source.drain(parquet, tolerant)
    later = cluster.produce(topic, records(6, first=2000))
    source.drain(parquet, tolerant)
    values = {record.value for record in later.values()}
    found = [bytes(row["value"]) for row in parquet.rows().select("value").collect()]
    assert values <= set(found)
    assert len(found) == len(set(found))


def test_two_streams_read_the_same_topic_independently(
    cluster: Cluster, source: Source, topic: str, filled, spark: SparkSession, tmp_path: Path
) -> None:
    sinks = [ParquetSink(spark, tmp_path / name) for name in ("one", "two")]
    stream = source.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=50)
    with ThreadPoolExecutor() as pool:
        assert [*pool.map(lambda sink: source.drain(sink, stream), sinks)] == [[50, 50], [50, 50]]
    assert [positions_of(sink.rows()) for sink in sinks] == [filled, filled]
