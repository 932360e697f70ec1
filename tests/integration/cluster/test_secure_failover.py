"""Clients that log in over TLS lose nothing when the leader of what they write, and the coordinator of their group, is killed."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer

from esp.settings.properties import parse_properties
from esp.testing.cluster import Cluster
from tests.integration.conftest import eventually

pytestmark = pytest.mark.timeout(240)

BEFORE, COUNT = 150, 400
"""Records that are acknowledged before the leader is killed, and all."""


class SecureCluster:
    """Three nodes as ``--secure`` makes them, and the settings of the administrator's clients."""

    def __init__(self, cluster: Cluster) -> None:
        assert cluster.security is not None
        self.nodes = cluster.nodes
        admin = cluster.security.path / "admin"
        text = (admin / "librdkafka.properties").read_text()
        self.librdkafka: dict[str, Any] = {each.name: each.value for each in parse_properties(text)} | {"log_level": 0}
        self.kafka_python: dict[str, Any] = json.loads((admin / "kafka-python.json").read_text())

    @property
    def aiokafka(self) -> dict[str, Any]:
        settings = dict(self.kafka_python)
        return settings | {"ssl_context": create_ssl_context(cafile=settings.pop("ssl_cafile"))}

    def is_in_sync(self) -> bool:
        """True if every partition, those of groups' offsets too, has all its replicas."""
        topics = AdminClient(self.librdkafka).list_topics(timeout=30).topics.values()
        return all(len(each.isrs) == len(each.replicas) for topic in topics for each in topic.partitions.values())

    def kill_leader(self, topic: str) -> int:
        leader = AdminClient(self.librdkafka).list_topics(topic, 30).topics[topic].partitions[0].leader
        self.nodes[leader].kill()
        return int(leader)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    with Cluster(tmp_path_factory.mktemp("secure"), secure=True) as made:
        yield SecureCluster(made)


class GroupReader:
    """A consumer in a group that reads on in a thread of its own, until all records are there."""

    def __init__(self, poll: Callable[[set[bytes]], None], close: Callable[[], None]) -> None:
        self.read: set[bytes] = set()
        self._poll, self._close = poll, close
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._done.is_set():
            self._poll(self.read)
        self._close()

    def finish(self) -> set[bytes]:
        try:
            eventually(lambda: len(self.read) >= COUNT, 90)
        finally:
            self._done.set()
            self._thread.join()
        return self.read


def read_by_kafka_python(cluster: SecureCluster, topic: str) -> GroupReader:
    consumer = KafkaConsumer(topic, group_id=f"of-{topic}", auto_offset_reset="earliest", **cluster.kafka_python)

    def poll(read: set[bytes]) -> None:
        for records in consumer.poll(timeout_ms=200).values():
            read.update(record.value for record in records)

    return GroupReader(poll, consumer.close)


def read_by_librdkafka(cluster: SecureCluster, topic: str) -> GroupReader:
    consumer = Consumer(cluster.librdkafka | {"group.id": f"of-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])

    def poll(read: set[bytes]) -> None:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            read.add(message.value())

    return GroupReader(poll, consumer.close)


def write_by_librdkafka(cluster: SecureCluster, topic: str) -> int:
    producer = Producer(cluster.librdkafka | {"enable.idempotence": True, "linger.ms": 0})
    failed: list[object] = []
    killed = 0
    for number in range(COUNT):
        if number == BEFORE:
            killed = cluster.kill_leader(topic)
        producer.produce(
            topic, b"%d" % number, on_delivery=lambda error, _message: failed.append(error) if error else None
        )
        assert producer.flush(60) == 0
    assert not failed
    return killed


def write_and_read_by_aiokafka(cluster: SecureCluster, topic: str) -> tuple[int, set[bytes]]:
    async def body() -> tuple[int, set[bytes]]:
        killed, read = 0, set()
        group = {"group_id": f"of-{topic}", "auto_offset_reset": "earliest"}
        async with (
            AIOKafkaProducer(enable_idempotence=True, **cluster.aiokafka) as producer,
            AIOKafkaConsumer(topic, **group, **cluster.aiokafka) as consumer,
        ):
            for number in range(COUNT):
                if number == BEFORE:
                    killed = await asyncio.to_thread(cluster.kill_leader, topic)
                await producer.send_and_wait(topic, b"%d" % number)
            while len(read) < COUNT:
                read.add((await consumer.getone()).value)
        return killed, read

    return asyncio.run(asyncio.wait_for(body(), 120))


@pytest.mark.parametrize("reader", ["kafka-python", "librdkafka", "aiokafka"])
def test_nothing_is_lost_when_a_leader_is_killed(cluster: SecureCluster, reader: str) -> None:
    topic = f"read-by-{reader}"
    eventually(cluster.is_in_sync, 60)  # after the test before
    admin = AdminClient(cluster.librdkafka)
    new = NewTopic(topic, 1, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([new])[topic].result(60)
    if reader == "aiokafka":
        killed, read = write_and_read_by_aiokafka(cluster, topic)
    else:  # kafka-python 3.0.12 now and then calls a killed leader again and again: it reads only
        group = (read_by_kafka_python if reader == "kafka-python" else read_by_librdkafka)(cluster, topic)
        try:
            killed = write_by_librdkafka(cluster, topic)
        finally:
            read = group.finish()
    assert read == {b"%d" % number for number in range(COUNT)}
    cluster.nodes[killed].start()
