"""Reading what has left the page cache: right, and beside everything else."""

import os
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import AGAINST_KAFKA

RECORDS = 40_000
VALUE = os.urandom(1000)

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="looks at our own data directory")


def forget_pages(directory: Path) -> None:
    """Write a partition's segments to the device and take them out of the page cache."""
    for segment in directory.glob("*.log"):
        with segment.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def is_cached(segment: Path) -> bool:
    with segment.open("rb") as file:
        try:
            return bool(os.preadv(file.fileno(), [bytearray(4096)], segment.stat().st_size // 2, os.RWF_NOWAIT))
        except BlockingIOError:
            return False


def read_all(bootstrap: str, topic: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    keys: list[bytes] = []
    while len(keys) < RECORDS:
        for message in consumer.consume(5000, 20):
            assert message.error() is None, message.error()
            assert message.value() == VALUE
            keys.append(message.key())
    consumer.close()
    return keys


def test_a_cold_log_is_read_whole_while_producers_go_on(node: NodeProcess, topic: str):
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 50, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(topic, VALUE, key=str(number))
        producer.poll(0)
    assert producer.flush(60) == 0
    directory = node.data_dir / f"{topic}-0"
    forget_pages(directory)
    if any(is_cached(segment) for segment in directory.glob("*.log")):
        pytest.skip("this file system keeps its pages: nothing is cold here")

    stop = threading.Event()
    acknowledged: list[int] = []

    def go_on() -> None:
        other = Producer({"bootstrap.servers": node.bootstrap, "acks": "all"})
        while not stop.is_set():
            other.produce(f"{topic}-hot", b"hot", on_delivery=lambda error, _: acknowledged.append(error is None))
            assert other.flush(10) == 0

    beside = threading.Thread(target=go_on)
    beside.start()
    try:
        keys = read_all(node.bootstrap, topic)
    finally:
        stop.set()
        beside.join()
    assert keys == [str(number).encode() for number in range(RECORDS)]
    assert acknowledged
    assert all(acknowledged)
