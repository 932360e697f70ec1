"""A node on a full disk stops in order and starts again: it has room in reserve for what it cannot do without (REC-9)."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from esp.testing.pytest_plugin import AGAINST_KAFKA, NodeFactory

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="our own reserve")

DISK = "48m"
RECORDS = 200


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MiB, where the node ``small`` keeps its data."""
    path = tmp_path / "small"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("file systems cannot be mounted here")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(path: Path) -> None:
    with contextlib.suppress(OSError), path.open("ab", buffering=0) as filler:
        for size in (65_536, 512):
            with contextlib.suppress(OSError):
                while True:
                    filler.write(bytes(size))


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
