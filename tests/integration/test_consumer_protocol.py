"""Consumers that speak the protocol of KIP-848 (``group.protocol=consumer``), of librdkafka and of Java, against a running node."""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeProcess
from tests.integration.conftest import MakeTopic
from tests.integration.java_member import JavaMember
from tests.integration.java_tools import JavaTools
from tests.integration.open_transactions import run_esp

PARTITIONS = 6
HEARTBEAT_MS = 300
pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

StartReader = Callable[..., "Reader"]


@pytest.fixture(scope="module")
def node_settings() -> Mapping[str, str]:
    """Members hear of changes soon, and a silent one is out soon."""
    return {
        "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "group.consumer.session.timeout.ms": "6000",
        "group.consumer.assignment.interval.ms": "0",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": "1",
    }


class Reader:
    """A member of librdkafka, which is polled by :meth:`poll`."""

    def __init__(self, node: NodeProcess, group: str, **settings: str) -> None:
        self.read: list[tuple[int, int]] = []
        """Partition and offset of each record."""
        self._consumer = Consumer(
            {
                "bootstrap.servers": node.bootstrap,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 100,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )

    def subscribe(self, *topics: str) -> "Reader":
        """Read these topics, or those that match a name that begins with ``^``."""
        self._consumer.subscribe(list(topics))
        return self

    @property
    def assigned(self) -> set[int]:
        """The partitions that it has."""
        return {each.partition for each in self._consumer.assignment()}

    def poll(self) -> None:
        """Take what there is, for a moment."""
        for message in self._consumer.consume(100, 0.05):
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            self.read.append((partition, offset))

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()


@pytest.fixture
def start_reader(node: NodeProcess) -> Iterator[StartReader]:
    """Start readers, which leave after the test."""
    started: list[Reader] = []

    def start(topic: str, group: str | None = None, **settings: str) -> Reader:
        started.append(Reader(node, group or topic, **settings).subscribe(topic))
        return started[-1]

    yield start
    for reader in started:
        reader.close()


def fill(node: NodeProcess, topic: str, count: int = 600) -> None:
    """Write records, as many to each partition."""
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def until(condition: Callable[[], object], *readers: Reader, within_s: float = 30) -> None:
    """Poll the readers until something holds."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "it does not come about"
        for reader in readers:
            reader.poll()


def share_all(*readers: Reader) -> bool:
    """Whether each partition has one of the readers, and no reader has more than its share."""
    owned = [number for reader in readers for number in reader.assigned]
    sizes = {len(reader.assigned) for reader in readers}
    return sorted(owned) == list(range(PARTITIONS)) and max(sizes) - min(sizes) <= 1


def test_members_share_a_topic_and_take_over_what_others_leave(
    node: NodeProcess, make_topic: MakeTopic, start_reader: StartReader
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    fill(node, topic)
    first = start_reader(topic)
    until(lambda: len(first.read) == 600, first)
    second, third = start_reader(topic), start_reader(topic)
    until(lambda: share_all(first, second, third), first, second, third)
    fill(node, topic)
    readers = first, second, third
    until(lambda: sum(len(reader.read) for reader in readers) >= 1200, *readers)
    read = [each for reader in readers for each in reader.read]
    assert len(read) == len(set(read)) == 1200
    third.close()
    until(lambda: share_all(first, second), first, second)


def test_the_next_member_goes_on_where_the_last_one_committed(
    node: NodeProcess, make_topic: MakeTopic, start_reader: StartReader
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    fill(node, topic)
    first = start_reader(topic)
    until(lambda: len(first.read) == 600, first)
    first.close()
    fill(node, topic, 60)
    second = start_reader(topic)
    until(lambda: len(second.read) >= 60, second)
    assert {offset for _, offset in second.read} == set(range(100, 110))


def test_a_group_reads_all_topics_that_match(
    node: NodeProcess, make_topic: MakeTopic, start_reader: StartReader
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    reader = start_reader(f"^{topic}.*", group=topic)
    until(lambda: share_all(reader), reader)


def test_tools_tell_of_groups_and_their_members(
    node: NodeProcess,
    kafka_tools: KafkaTools,
    make_topic: MakeTopic,
    start_reader: StartReader,
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    reader = start_reader(topic)
    until(lambda: share_all(reader), reader)
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    [described] = (each.result() for each in admin.describe_consumer_groups([topic]).values())
    assert (described.state.name, described.type.name) == ("STABLE", "CONSUMER")
    tools = JavaTools(kafka_tools, node.bootstrap)
    listed = tools("consumer-groups", "--list", "--type")
    assert f"{topic}" in listed
    assert "Consumer" in listed
    members = tools("consumer-groups", "--describe", "--group", topic, "--members", "--verbose")
    assert f"{topic}:0,1,2,3,4,5" in members or f"{topic}(0,1,2,3,4,5)" in members
    state = tools("consumer-groups", "--describe", "--group", topic, "--state")
    assert "uniform" in state
    assert "Stable" in state
    group = ("groups", "--describe", "--group", topic, "--bootstrap-server", node.bootstrap)
    assert "0,1,2,3,4,5" in run_esp(*group, "--members", "--verbose")[0]
    assert "uniform" in run_esp(*group, "--state")[0]


def test_java_and_librdkafka_are_members_of_one_group(
    node: NodeProcess,
    kafka_tools: KafkaTools,
    make_topic: MakeTopic,
    start_reader: StartReader,
    tmp_path: Path,
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    reader = start_reader(topic)
    until(lambda: share_all(reader), reader)
    java = JavaMember(kafka_tools, node.bootstrap, topic, topic, tmp_path, protocol="consumer").start()
    try:
        until(lambda: len(reader.assigned) == len(java.assigned) == PARTITIONS // 2, reader, within_s=60)
        assert sorted((*reader.assigned, *java.assigned)) == list(range(PARTITIONS))
        java.leave()
        until(lambda: share_all(reader), reader)
    finally:
        java.kill()
