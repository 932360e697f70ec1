"""Groups of all three kinds go on where they were when Kafka takes over a directory of ours, and when we take it back."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import (
    AcknowledgeType,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from esp.cli.node.format import random_uuid
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import HOST, NodeProcess
from esp.testing.ports import free_port
from esp.testing.real_kafka import RealKafka
from tests.integration.dump_log import dump, dump_here
from tests.integration.java_tools import JavaTools

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

TOPIC: Final = "shared"
SHARE_GROUP, CONSUMER_GROUP, CLASSIC_GROUP = "sharers", "consumers", "members"
PARTITIONS: Final = 3
STEP: Final = 100
"""Records that are produced on each side."""

WITHIN_S: Final = 60
STARTING: Final = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError._TRANSPORT)
"""Answers of a broker that has just started."""

_KINDS_OF_GROUPS: Final = frozenset((1, 2, 3, *range(5, 9), *range(10, 16)))
"""Types of records: committed offsets, and those of classic, consumer and share groups."""

_KINDS_OF_STATES: Final = frozenset((0, 1))
"""Snapshots and updates."""

_SETTINGS: Final = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.heartbeat.interval.ms": "5000",
    "group.initial.rebalance.delay.ms": "0",
}


def produce(node: NodeProcess, values: range) -> None:
    """Write values, each record to the partition that comes next."""
    producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0})
    for value in values:
        producer.produce(TOPIC, b"%d" % value, partition=value % PARTITIONS)
    assert producer.flush(30) == 0


@contextmanager
def share_consumer(node: NodeProcess) -> Iterator[Callable[[AcknowledgeType], dict[int, int]]]:
    """A member of the share group, as a function that takes what there is, acknowledges it and returns values with delivery counts."""
    settings = {"group.id": SHARE_GROUP, "share.acknowledgement.mode": "explicit", "log_level": 0}
    consumer = ShareConsumer({"bootstrap.servers": node.bootstrap, **settings})
    consumer.subscribe([TOPIC])

    def take(word: AcknowledgeType) -> dict[int, int]:
        got: Any = consumer.poll(1)
        assert [message.error() for message in got] == [None] * len(got)
        for message in got:
            consumer.acknowledge(message, word)
        if got:
            assert set(consumer.commit_sync(30).values()) == {None}
        return {int(message.value()): message.delivery_count() for message in got}

    try:
        yield take
    finally:
        consumer.close()


def accept(node: NodeProcess, wanted: set[int]) -> dict[int, int]:
    """Accept records until all that are wanted came; return all that came, with their delivery counts."""
    found: dict[int, int] = {}
    deadline = time.monotonic() + WITHIN_S
    with share_consumer(node) as take:
        while not found.keys() >= wanted:
            assert time.monotonic() < deadline, sorted(wanted - found.keys())
            found |= take(AcknowledgeType.ACCEPT)
    return found


def release(node: NodeProcess) -> set[int]:
    """Take some records, release them and leave the group; return their values."""
    deadline = time.monotonic() + WITHIN_S
    with share_consumer(node) as take:
        while not (found := take(AcknowledgeType.RELEASE)):
            assert time.monotonic() < deadline
    return set(found)


def consume(node: NodeProcess, group: str, protocol: str, wanted: set[int]) -> set[int]:
    """Read as a member of a group until all that is wanted came, and commit; return all that came."""
    settings = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "enable.auto.commit": False, **settings})
    consumer.subscribe([TOPIC])
    found: set[int] = set()
    deadline = time.monotonic() + WITHIN_S
    try:
        while not found >= wanted:
            assert time.monotonic() < deadline, sorted(wanted - found)
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.add(int(message.value() or b""))
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def told_by_its_coordinator(asking: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
    """The group's offsets, as soon as a broker that has just started coordinates the group."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            return asking.committed(partitions, timeout=30)
        except KafkaException as error:
            if error.args[0].code() not in STARTING or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def check_positions(node: NodeProcess, end: int) -> None:
    """Both groups have committed the ends of all partitions."""
    for group in (CONSUMER_GROUP, CLASSIC_GROUP):
        asking = Consumer({"bootstrap.servers": node.bootstrap, "group.id": group, "log_level": 0})
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        committed = told_by_its_coordinator(asking, partitions)
        asking.close()
        assert sum(partition.offset for partition in committed) == end, group


def work(node: NodeProcess, start: int, released: set[int]) -> set[int]:
    """Take what the side before left, produce more, and leave some of that; return what was released."""
    values = range(start, start + STEP)
    if start:
        check_positions(node, start)
        left = set(range(start - STEP, start))
        taken = accept(node, left)
        assert taken == {value: 2 if value in released else 1 for value in left}
    produce(node, values)
    for group, protocol in ((CONSUMER_GROUP, "consumer"), (CLASSIC_GROUP, "classic")):
        assert consume(node, group, protocol, set(values)) == set(values)
    return release(node)


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_groups_go_on_under_the_other_broker(kafka_tools: KafkaTools, tmp_path: Path, is_killed: bool) -> None:
    data_dir = tmp_path / "data"
    port, controller = free_port(), f"{HOST}:{free_port()}"
    settings = {
        **_SETTINGS,
        "node.id": "1",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{controller}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": controller,
    }
    ours = Node(data_dir, settings, port)
    ours.format(random_uuid(), "--standalone")
    kafka = RealKafka(data_dir, settings, port, tools=kafka_tools)
    released: set[int] = set()
    for number, node in enumerate((ours, kafka, ours, kafka)):
        with node:
            if not number:
                admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
                admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
                from_the_start = ("--entity-type", "groups", "--entity-name", SHARE_GROUP, "--add-config")
                JavaTools(kafka_tools, node.bootstrap)(
                    "configs", "--alter", *from_the_start, "share.auto.offset.reset=earliest"
                )
            released = work(node, number * STEP, released)
            if is_killed:
                node.kill()
    for topic, decoder in (
        ("__consumer_offsets", "--offsets-decoder"),
        ("__share_group_state", "--share-group-state-decoder"),
    ):
        check_dumps(kafka_tools, sorted(ours.data_dir.rglob(f"{topic}-*/*.log")), decoder)


def check_dumps(kafka_tools: KafkaTools, files: list[Path], decoder: str) -> None:
    """Both tools print the same of logs that both brokers have written, with each kind of records that these have."""
    theirs = dump(kafka_tools, files, decoder, is_compacted=True)
    assert dump_here(files, decoder).splitlines() == theirs.splitlines()
    kinds = _KINDS_OF_GROUPS if decoder == "--offsets-decoder" else _KINDS_OF_STATES
    assert kinds <= {int(found) for found in re.findall(r'key: \{"type":"(\d+)"', theirs)}
