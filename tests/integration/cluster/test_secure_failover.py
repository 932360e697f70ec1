"""Clients that log in over TLS lose nothing when the leader of what they write, and the coordinator of their group, is killed."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer

from esp.settings.properties import parse_properties
from esp.testing.cluster import Cluster
from esp.testing.kafka_tools import KafkaTools
from tests.integration.conftest import eventually
from tests.integration.java_member import JavaMember
from tests.integration.kafka_python import subscribe

pytestmark = pytest.mark.timeout(240)

BEFORE, COUNT = 150, 400
"""Records that are acknowledged before the leader is killed, and all."""


class SecureCluster:
    """Three nodes as ``--secure`` makes them, and the settings of the administrator's clients."""

    def __init__(self, cluster: Cluster) -> None:
        assert cluster.security is not None
        self.nodes = cluster.nodes
        self.bootstrap = cluster.bootstrap
        admin = cluster.security.path / "admin"
        text = (admin / "librdkafka.properties").read_text()
        self.librdkafka: dict[str, Any] = {each.name: each.value for each in parse_properties(text)} | {"log_level": 0}
        self.java_settings = admin / "client.properties"
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
    consumer = KafkaConsumer(group_id=f"of-{topic}", auto_offset_reset="earliest", **cluster.kafka_python)
    subscribe(consumer, topic)

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
            await (
                consumer.commit()
            )  # a consumer that is closed while its coordinator is away asks for no other, and waits for ever
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


class JavaWriter:
    """Kafka's verifiable producer, which writes the numbers up to a count, in a process of its own, and tells which are acknowledged."""

    def __init__(self, cluster: SecureCluster, tools: KafkaTools, topic: str, count: int, scratch: Path) -> None:
        settings = scratch / "java-writer.properties"
        settings.write_text(f"{cluster.java_settings.read_text()}\nretries=1000000\nenable.idempotence=true\n")
        self.acknowledged: set[str] = set()
        self.failed: list[dict[str, Any]] = []
        self._process = tools.start(
            "verifiable-producer",
            *("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--acks", "-1"),
            *("--max-messages", str(count), "--throughput", "100", "--command-config", str(settings)),
            messages=scratch / "java-writer.stderr",
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if event["name"] == "producer_send_success":
                self.acknowledged.add(event["value"])
            elif event["name"] == "producer_send_error":
                self.failed.append(event)

    def until(self, count: int) -> None:
        eventually(lambda: len(self.acknowledged) >= count, 120)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()
        self._listener.join()


@pytest.mark.kafka
def test_java_tools_lose_nothing_when_leaders_are_killed(
    cluster: SecureCluster, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    eventually(cluster.is_in_sync, 60)
    topic, count = "of-java", 1500
    new = NewTopic(topic, 1, 3, config={"min.insync.replicas": "2"})
    admin = AdminClient(cluster.librdkafka)
    admin.create_topics([new])[topic].result(60)
    reader = JavaMember(
        kafka_tools,
        cluster.bootstrap,
        topic,
        "readers-of-java",
        tmp_path,
        options=("--verbose", "--reset-policy", "earliest"),
        client_settings=cluster.java_settings.read_text(),
    ).start()
    writer = JavaWriter(cluster, kafka_tools, topic, count, tmp_path)
    try:
        for reached in (200, 700):
            writer.until(reached)
            killed = cluster.kill_leader(topic)
            writer.until(reached + 100)
            cluster.nodes[killed].start()
            eventually(cluster.is_in_sync, 90)
        writer.until(count)
        eventually(lambda: writer.acknowledged <= {event["value"] for event in reader.named("record_data")}, 90)
    finally:
        writer.end()
        reader.kill()
    assert writer.failed == []
    assert writer.acknowledged == {str(number) for number in range(count)}
