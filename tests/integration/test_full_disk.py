"""A node on a full disk stops in order and starts again: it has room in reserve for what it cannot do without (REC-9)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from esp.testing.pytest_plugin import AGAINST_KAFKA, NodeFactory
from tests.integration.small_disk import fill, mounted

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="our own reserve")

RECORDS = 200


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MiB, where the node ``small`` keeps its data."""
    with mounted(tmp_path / "small", "48m") as disk:
        yield disk


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
    consumer.assign([TopicPartition(topic, 0, 0)])
    read: list[int] = []
    while len(read) < RECORDS and (messages := consumer.consume(RECORDS, 10)):
        read += [int(message.value()) for message in messages]
    consumer.close()
    assert read == list(range(RECORDS))
