"""One consumer group with members of all client families: they join, pause, go on, die and leave."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeProcess
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.group_members import FAMILIES, QUICK_GROUPS, ConfluentMember, Member, members_of_a_test
from tests.integration.java_member import JavaMember

WITHIN_S = 60
PARTITIONS = 8
SESSION_MS = 3_000

StartProcess = Callable[[type[Member], str], subprocess.Popen[bytes]]
"""``start_process(family, topic)``: a member in a process of its own."""


@pytest.fixture(scope="module")
def node_settings() -> Mapping[str, str]:
    """Groups begin without delay."""
    return QUICK_GROUPS


@pytest.fixture
def members() -> Iterator[list[Member]]:
    """The test's members, all of which have left in the end."""
    yield from members_of_a_test()


@pytest.fixture
def start_process(node: NodeProcess) -> Iterator[StartProcess]:
    """Start members in processes of their own, which are killed after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(family: type[Member], topic: str) -> subprocess.Popen[bytes]:
        program = (
            f"import sys; from tests.integration.group_members import {family.__name__} as M; "
            f"M(*sys.argv[1:4], session_ms={SESSION_MS})._run()"
        )
        command = [sys.executable, "-c", program, node.bootstrap, topic, topic]
        started.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def fill(node: NodeProcess, topic: str, count: int) -> None:
    """Write records, as many to each partition."""
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def committed(node: NodeProcess, topic: str) -> list[int]:
    """The group's committed offsets."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": topic})
    found = consumer.committed([TopicPartition(topic, partition) for partition in range(PARTITIONS)], 20)
    consumer.close()
    return [each.offset for each in found]


@pytest.mark.timeout(300)
def test_members_that_pause_lose_their_partitions_until_they_go_on(
    node: NodeProcess, make_topic: MakeTopic, members: list[Member], start_process: StartProcess
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    observer = ConfluentMember(node.bootstrap, topic, topic, session_ms=SESSION_MS).start()
    members.append(observer)
    processes = [start_process(family, topic) for family in FAMILIES]
    for ended in (signal.SIGSTOP, signal.SIGKILL):
        eventually(lambda: len(observer.assigned) == PARTITIONS // (1 + len(FAMILIES)), WITHIN_S)
        for process in processes:
            process.send_signal(ended)
        eventually(lambda: len(observer.assigned) == PARTITIONS, WITHIN_S)
        if ended == signal.SIGSTOP:
            for process in processes:
                process.send_signal(signal.SIGCONT)


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_member_of_kafkas_own_shares_with_the_other_families(
    node: NodeProcess, make_topic: MakeTopic, members: list[Member], kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    fill(node, topic, 80)
    members += [family(node.bootstrap, topic, topic).start() for family in FAMILIES]

    def sizes(*others: JavaMember) -> list[int]:
        assigned = [member.assigned for member in (*members, *others)]
        whole = frozenset().union(*assigned) == frozenset(range(PARTITIONS))
        return sorted(map(len, assigned)) if whole else []

    java = JavaMember(kafka_tools, node.bootstrap, topic, topic, tmp_path, session_ms=SESSION_MS).start()
    try:
        eventually(lambda: sizes(java) == [2, 2, 2, 2], WITHIN_S)
        java.pause()
        eventually(lambda: sizes() == [2, 3, 3], WITHIN_S)
        java.go_on()
        eventually(lambda: sizes(java) == [2, 2, 2, 2], WITHIN_S)
        fill(node, topic, 80)
        eventually(lambda: java.read >= 20, WITHIN_S)
        java.leave()
    finally:
        java.kill()
    eventually(lambda: sizes() == [2, 3, 3], WITHIN_S)
    while members:
        members.pop().leave()
    assert committed(node, topic) == [20] * PARTITIONS
