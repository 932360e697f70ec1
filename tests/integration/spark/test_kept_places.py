"""A query that was stopped goes on where it was: its topic was created again, its records were held, or its topic was restored."""

from collections.abc import Mapping

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Partition
from kafka.admin import KafkaAdminClient

from esp.cli.app import run_tools
from esp.spark import watch
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import AGAINST_KAFKA
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.spark.cluster import ParquetSink, Source, positions_of, records_in_turn
from tests.integration.topic_changes import recreate

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="our own settings of topics that are deleted or held")

PARTITIONS = 2
WITHIN_S = 120
RETENTION_MS = 1_000


@pytest.fixture(scope="module")
def node_settings() -> Mapping[str, str]:
    """Retention looks often; topics that are created again go on where they were, and deleted ones can be restored."""
    return {
        "log.initial.task.delay.ms": "200",
        "log.retention.check.interval.ms": "200",
        "topic.recreate.offsets": "continue",
        "topic.trash.retention.ms": "600000",
    }


@pytest.mark.timeout(300)
def test_a_query_goes_on_with_a_topic_that_was_created_again(
    source: Source, topic: str, make_topic: MakeTopic, admin: KafkaAdminClient, parquet: ParquetSink
) -> None:
    make_topic(partitions=PARTITIONS)
    first = source.cluster.produce(topic, records_in_turn(40, PARTITIONS))
    options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": True}
    source.drain(parquet, source.stream(**options))
    recreate(admin, topic, PARTITIONS)
    second = source.cluster.produce(topic, records_in_turn(100, PARTITIONS, first=1_000))
    assert not first.keys() & second.keys(), "no offset is given twice"
    source.drain(parquet, source.stream(**options))
    assert positions_of(parquet.rows()) == first | second


@pytest.mark.timeout(300)
def test_a_query_that_stood_still_finds_what_its_group_held(
    source: Source, node: NodeProcess, topic: str, make_topic: MakeTopic, parquet: ParquetSink
) -> None:
    """After more than three retention times, by which another topic has lost all its records."""
    make_topic(partitions=1, segment_ms=200, retention_hold_groups="spark.*")
    unheld = make_topic(f"{topic}-unheld", partitions=1, segment_ms=200, retention_ms=RETENTION_MS)
    first = source.cluster.produce(topic, records_in_turn(20, 1))
    options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": True}
    watching = watch(source.cluster.spark)
    source.drain(parquet, source.stream(**options))
    watching.stop()
    change = [
        "--alter",
        "--entity-type",
        "topics",
        "--entity-name",
        topic,
        "--add-config",
        f"retention.ms={RETENTION_MS}",
    ]
    assert run_tools(["configs", "--bootstrap-server", node.bootstrap, *change]) == 0
    second = source.cluster.produce(topic, records_in_turn(60, 1, first=1_000))
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "looks"})

    def starts(name: str) -> tuple[int, int]:
        return consumer.get_watermark_offsets(Partition(name, 0), timeout=10)

    eventually(lambda: starts(topic)[0] == len(first), WITHIN_S)
    for _ in range(3):
        source.cluster.produce(unheld, records_in_turn(10, 1))
        eventually(lambda: len(set(starts(unheld))) == 1, WITHIN_S)
    assert starts(topic) == (len(first), len(first) + len(second))
    consumer.close()
    source.drain(parquet, source.stream(**options))
    assert positions_of(parquet.rows()) == first | second


@pytest.mark.timeout(300)
def test_a_query_goes_on_with_a_topic_that_was_restored(
    source: Source,
    node: NodeProcess,
    topic: str,
    make_topic: MakeTopic,
    admin: KafkaAdminClient,
    parquet: ParquetSink,
) -> None:
    make_topic(partitions=PARTITIONS)
    first = source.cluster.produce(topic, records_in_turn(40, PARTITIONS))
    options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": True}
    source.drain(parquet, source.stream(**options))
    second = source.cluster.produce(topic, records_in_turn(30, PARTITIONS, first=1_000))
    admin.delete_topics([topic])
    assert run_tools(["topics", "--bootstrap-server", node.bootstrap, "restore", topic]) == 0
    third = source.cluster.produce(topic, records_in_turn(30, PARTITIONS, first=2_000))
    source.drain(parquet, source.stream(**options))
    assert positions_of(parquet.rows()) == first | second | third
