"""The times of first records are found in batches of all kinds, and of thousands of partitions."""

import time
from collections.abc import Iterable

import pytest
from confluent_kafka import Producer

from esp.cli.kafka.answers import PartitionId
from esp.cli.kafka.record_times import read_times
from esp.testing.node_process import NodeProcess
from tests.integration.conftest import MakeTopic

FIRST_MS = 1_700_000_000_000


def produce(node: NodeProcess, topic: str, values: Iterable[bytes], *, partition: int = 0, **how: object) -> None:
    """Write records a second apart from one another, in one transaction if the settings name an id for it."""
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 200, "message.max.bytes": 8_000_000, **how})
    if "transactional.id" in how:
        producer.init_transactions()
        producer.begin_transaction()
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=partition, timestamp=FIRST_MS + 1000 * number)
    assert producer.flush(30) == 0
    if "transactional.id" in how:
        producer.commit_transaction()


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd", "snappy"])
def test_the_record_is_found_within_its_batch(node: NodeProcess, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic()
    produce(node, topic, [b"x" * 100] * 20, **{"compression.type": codec})
    place = PartitionId(topic, 0)
    assert read_times(node.bootstrap, {place: 0}) == {place: FIRST_MS}
    assert read_times(node.bootstrap, {place: 13}) == {place: FIRST_MS + 13_000}


def test_records_of_large_batches_are_found_beside_small_ones(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=6, max_message_bytes=8_000_000)
    for partition, size in enumerate((10, 5_000, 100_000, 3_000_000, 3_000_000, 10)):
        produce(node, topic, [b"x" * size], partition=partition)
    places = {PartitionId(topic, number): 0 for number in range(6)}
    assert read_times(node.bootstrap, places) == dict.fromkeys(places, FIRST_MS)


def test_markers_of_transactions_are_no_records(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    for partition in range(2):
        produce(node, topic, [b"x"], partition=partition, **{"transactional.id": f"{topic}-{partition}"})
    produce(node, topic, [b"y", b"z"], partition=0)
    behind_the_record = {PartitionId(topic, number): 1 for number in range(2)}
    assert read_times(node.bootstrap, behind_the_record) == {PartitionId(topic, 0): FIRST_MS}


def test_the_broker_s_time_counts_where_the_topic_says_so(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before_ms = time.time_ns() // 1_000_000
    produce(node, topic, [b"x", b"y"])
    [found] = read_times(node.bootstrap, {PartitionId(topic, 0): 1}).values()
    assert before_ms <= found <= time.time_ns() // 1_000_000


def test_records_of_thousands_of_partitions_are_found(node: NodeProcess, make_topic: MakeTopic) -> None:
    topics = [make_topic(f"vast-{number}", partitions=500) for number in range(6)]
    producer = Producer({"bootstrap.servers": node.bootstrap})
    places = {PartitionId(topic, partition): 0 for topic in topics for partition in range(500)}
    for topic, partition in places:
        producer.produce(topic, b"x", partition=partition, timestamp=FIRST_MS)
    assert producer.flush(60) == 0
    assert read_times(node.bootstrap, places) == dict.fromkeys(places, FIRST_MS)


def test_without_partitions_nobody_is_asked() -> None:
    assert read_times("127.0.0.1:1", {}) == {}
