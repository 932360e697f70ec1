"""A node on a full disk stops in order and starts again: it has room in reserve for what it cannot do without (REC-9)."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from esp.cli.app import run_tools
from esp.testing.pytest_plugin import AGAINST_KAFKA, NodeFactory
from tests.integration.conftest import eventually
from tests.integration.small_disk import fill, mounted

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="our own reserve")

RECORDS = 200


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MiB, where the node ``small`` keeps its data."""
    with mounted(tmp_path / "small", "48m") as disk:
        yield disk


def read_values(consumer: Consumer, topic: str, count: int) -> list[int]:
    """The numbers in the records of the topic, which has so many; then the consumer is closed."""
    consumer.assign([TopicPartition(topic, 0, 0)])
    read: list[int] = []
    while len(read) < count and (messages := consumer.consume(count, 10)):
        read += [int(message.value() or b"") for message in messages]
    consumer.close()
    return read


def test_a_node_stops_and_starts_in_order_on_a_full_disk(fresh_node: NodeFactory, small_disk: Path, topic: str) -> None:
    node = fresh_node(name="small")
    reserve = small_disk / ".esp-reserve"
    assert reserve.stat().st_size == 1024 * 1024
    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(20) == 0
    fill(small_disk / "filler")
    node.stop()
    assert (small_disk / ".kafka_cleanshutdown").exists()
    assert not reserve.exists()
    node.start()
    node.stop()
    (small_disk / "filler").unlink()
    node.start()
    assert reserve.exists()
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    assert read_values(consumer, topic, RECORDS) == list(range(RECORDS))


TRASH = {
    "topic.trash.retention.ms": "3600000",
    "topic.trash.min.free.percent": "0",  # else a topic would be purged for the room that it takes
    "log.retention.check.interval.ms": "600000",
}


@pytest.mark.timeout(180)
def test_a_topic_that_is_restored_on_a_full_disk_goes_on_when_there_is_room(
    fresh_node: NodeFactory, small_disk: Path, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    node = fresh_node(TRASH, name="small")
    run = ["topics", "--bootstrap-server", node.bootstrap]
    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(20) == 0
    assert run_tools([*run, "--delete", "--topic", topic]) == 0
    assert run_tools([*run, "--create", "--topic", "other"]) == 0
    fill(small_disk / "filler")
    refused: list[object] = []
    writer = Producer({"bootstrap.servers": node.bootstrap, "message.timeout.ms": 5000})
    while not any(refused):  # the reserve is used up, too
        writer.produce("other", os.urandom(400_000), on_delivery=lambda error, _: refused.append(error))
        assert writer.flush(20) == 0
    fill(small_disk / "filler")
    assert run_tools([*run, "restore", topic]) == 0
    assert "1 partitions have no leader (0)" in " ".join(capsys.readouterr().err.split())
    assert f"{topic}-0 cannot be restored from" in node.output
    (small_disk / "filler").unlink()
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    eventually(lambda: consumer.list_topics(topic, 10).topics[topic].partitions[0].leader == 1, 30)
    producer.produce(topic, b"%d" % RECORDS)
    assert producer.flush(30) == 0
    assert read_values(consumer, topic, RECORDS + 1) == list(range(RECORDS + 1))
