"""Consumer groups of real clients, of different families in one group, and Kafka's tools for them."""

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import NodeFactory
from tests.integration.conftest import eventually
from tests.integration.dump_log import dump
from tests.integration.group_members import FAMILIES, ConfluentMember, CooperativeMember, Member, members_of_a_test

FOUND_WITHIN_S = 60
PARTITIONS = 6
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "num.partitions": str(PARTITIONS),
}


@pytest.fixture
def group_node(fresh_node: NodeFactory) -> NodeProcess:
    """A node whose groups begin without delay, and whose topics have six partitions."""
    return fresh_node(SETTINGS)


@pytest.fixture
def members() -> Iterator[list[Member]]:
    """The test's members, all of which have left in the end."""
    yield from members_of_a_test()


def produce(node: NodeProcess, topic: str, count: int) -> None:
    """Write records, as many to each partition."""
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(count):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(20) == 0


def committed(node: NodeProcess, topic: str, group: str) -> list[int]:
    """The committed offsets of all partitions."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": group})
    found = consumer.committed([TopicPartition(topic, partition) for partition in range(PARTITIONS)], 20)
    consumer.close()
    return [each.offset for each in found]


def make_topic(node: NodeProcess, topic: str) -> None:
    """Have the topic made by asking for it."""
    Producer({"bootstrap.servers": node.bootstrap}).list_topics(topic, 20)
    produce(node, topic, PARTITIONS)


def are_divided(members: list[Member], sizes: list[int]) -> bool:
    """Whether each partition has one of the members, and these have so many."""
    assigned = [member.assigned for member in members]
    return sorted(map(len, assigned)) == sizes and frozenset().union(*assigned) == frozenset(range(PARTITIONS))


@pytest.mark.timeout(200)
def test_members_of_all_families_share_a_topic(group_node: NodeProcess, topic: str, members: list[Member]) -> None:
    make_topic(group_node, topic)
    members += [family(group_node.bootstrap, topic, "g").start() for family in FAMILIES]
    eventually(lambda: are_divided(members, [2, 2, 2]), FOUND_WITHIN_S)
    produce(group_node, topic, 600)
    eventually(lambda: sum(len(member.read) for member in members) >= 606, FOUND_WITHIN_S)
    for count in (2, 1):
        members.pop(0).leave()
        eventually(lambda count=count: are_divided(members, [PARTITIONS // count] * count), FOUND_WITHIN_S)
    produce(group_node, topic, 60)
    (last,) = members
    own = len(last.read)
    eventually(lambda: len({place for place in last.read[own - 60 :] if place[1] >= 101}) >= 60, FOUND_WITHIN_S)
    members.pop().leave()
    assert committed(group_node, topic, "g") == [111] * PARTITIONS
    assert len(last.read) == len(set(last.read))


@pytest.mark.timeout(120)
def test_partitions_of_a_member_that_died_go_to_the_others(
    group_node: NodeProcess, topic: str, members: list[Member]
) -> None:
    make_topic(group_node, topic)
    program = (
        "import sys; from tests.integration.group_members import KafkaPythonMember as M; "
        "M(*sys.argv[1:4], session_ms=1500)._run()"
    )
    mortal = subprocess.Popen([sys.executable, "-c", program, group_node.bootstrap, topic, "g"])
    try:
        members.append(ConfluentMember(group_node.bootstrap, topic, "g", session_ms=1500).start())
        eventually(lambda: len(members[0].assigned) == PARTITIONS // 2, FOUND_WITHIN_S)
        mortal.kill()
        eventually(lambda: are_divided(members, [PARTITIONS]), FOUND_WITHIN_S)
    finally:
        mortal.kill()
        mortal.wait()


@pytest.mark.timeout(120)
def test_a_static_member_that_comes_back_in_time_gets_its_partitions_without_a_rebalance(
    group_node: NodeProcess, topic: str, members: list[Member]
) -> None:
    make_topic(group_node, topic)
    bootstrap = group_node.bootstrap
    stays = ConfluentMember(bootstrap, topic, "g", session_ms=30_000, instance="stays").start()
    comes_back = ConfluentMember(bootstrap, topic, "g", session_ms=30_000, instance="comes-back").start()
    members += [stays, comes_back]
    eventually(lambda: are_divided(members, [3, 3]), FOUND_WITHIN_S)
    before, rebalances = comes_back.assigned, len(stays.rebalances)
    comes_back.leave()  # a static member does not tell the coordinator
    members[1] = again = ConfluentMember(bootstrap, topic, "g", session_ms=30_000, instance="comes-back").start()
    eventually(lambda: again.assigned == before, FOUND_WITHIN_S)
    assert len(stays.rebalances) == rebalances


@pytest.mark.timeout(120)
def test_cooperative_members_keep_what_they_need_not_give_up(
    group_node: NodeProcess, topic: str, members: list[Member]
) -> None:
    make_topic(group_node, topic)
    first = CooperativeMember(group_node.bootstrap, topic, "g").start()
    members.append(first)
    eventually(lambda: are_divided(members, [PARTITIONS]), FOUND_WITHIN_S)
    members.append(CooperativeMember(group_node.bootstrap, topic, "g").start())
    eventually(lambda: are_divided(members, [3, 3]), FOUND_WITHIN_S)
    revoked = frozenset().union(*(partitions for what, partitions in first.rebalances if what == "revoked"))
    assert len(revoked) == PARTITIONS // 2
    assert first.assigned == frozenset(range(PARTITIONS)) - revoked


@pytest.mark.kafka
@pytest.mark.timeout(200)
def test_offsets_outlive_kill_9_and_the_tools_read_their_topic(
    group_node: NodeProcess, topic: str, members: list[Member], kafka_tools: KafkaTools
) -> None:
    make_topic(group_node, topic)
    members.append(ConfluentMember(group_node.bootstrap, topic, "g").start())
    eventually(lambda: len(members[0].read) == PARTITIONS, FOUND_WITHIN_S)
    members.pop().leave()
    assert committed(group_node, topic, "g") == [1] * PARTITIONS
    group_node.kill()
    group_node.start()
    assert committed(group_node, topic, "g") == [1] * PARTITIONS
    group_node.stop()
    logs = sorted(path for each in group_node.log_dirs for path in each.glob("__consumer_offsets-*/*.log"))
    dumped = dump(kafka_tools, logs, "--offsets-decoder", "--deep-iteration")
    assert f'"group":"g","topic":"{topic}","partition":0' in dumped
    assert '"protocolType":"consumer"' in dumped


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_kafkas_tool_lists_describes_resets_and_deletes(
    group_node: NodeProcess, topic: str, members: list[Member], kafka_tools: KafkaTools
) -> None:
    def tool(*arguments: str) -> str:
        done = kafka_tools.run("consumer-groups", "--bootstrap-server", group_node.bootstrap, *arguments, timeout_s=120)
        assert "Exception" not in done.stdout + done.stderr, done.stdout + done.stderr
        return done.stdout

    make_topic(group_node, topic)
    produce(group_node, topic, 60)
    members.append(ConfluentMember(group_node.bootstrap, topic, "g").start())
    eventually(lambda: len(members[0].read) == 66, FOUND_WITHIN_S)
    assert re.search(r"^g\s+Classic\s+Stable", tool("--list", "--state", "--type"), re.MULTILINE | re.IGNORECASE)
    members.pop().leave()
    described = tool("--describe", "--group", "g")
    for partition in range(PARTITIONS):
        assert re.search(rf"^g\s+{topic}\s+{partition}\s+11\s+11\s+0\s", described, re.MULTILINE), described
    reset = tool("--reset-offsets", "--group", "g", "--topic", f"{topic}:0", "--to-offset", "4", "--execute")
    assert re.search(rf"g\s+{topic}\s+0\s+4\b", reset), reset
    assert committed(group_node, topic, "g") == [4, 11, 11, 11, 11, 11]
    assert "Successful" in tool("--delete-offsets", "--group", "g", "--topic", f"{topic}:1")
    assert committed(group_node, topic, "g")[:3] == [4, -1001, 11]
    assert "was successful" in tool("--delete", "--group", "g")
    assert tool("--list").split() == []
