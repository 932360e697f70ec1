"""Kafka's own Java tools against a running node: those that are members of consumer groups, and the tool of groups."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeProcess
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.group_members import QUICK_GROUPS
from tests.integration.java_member import JavaMember
from tests.integration.java_tools import JavaTools

WITHIN_S = 60

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

StartMember = Callable[..., JavaMember]
"""``start_member(topic, **options)``: a verifiable consumer in the group named after the topic."""


@pytest.fixture(scope="module")
def node_settings() -> Mapping[str, str]:
    """Groups begin without delay."""
    return QUICK_GROUPS


@pytest.fixture(scope="module")
def tools(kafka_tools: KafkaTools, node: NodeProcess) -> JavaTools:
    """Kafka's tools for the shared node."""
    return JavaTools(kafka_tools, node.bootstrap)


@pytest.fixture
def start_member(kafka_tools: KafkaTools, node: NodeProcess, tmp_path: Path) -> Iterator[StartMember]:
    """Start members, which are killed after the test."""
    started: list[JavaMember] = []

    def start(topic: str, **options: object) -> JavaMember:
        started.append(JavaMember(kafka_tools, node.bootstrap, topic, topic, tmp_path, **options).start())
        return started[-1]

    yield start
    for member in started:
        member.kill()


def fill(node: NodeProcess, topic: str, count: int = 20, partitions: int = 2) -> None:
    """Write records, as many to each partition."""
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    assert producer.flush(30) == 0


def test_console_consumers_of_a_group_go_on_where_the_last_one_left(
    tools: JavaTools, node: NodeProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    fill(node, topic, 10, partitions=1)
    read = ("console-consumer", "--topic", topic, "--group", topic, "--from-beginning", "--timeout-ms", "30000")
    assert tools(*read, "--max-messages", "4").split() == ["0", "1", "2", "3"]
    assert tools(*read, "--max-messages", "6").split() == [str(number) for number in range(4, 10)]


def test_perf_consumer_and_latency_tool_measure(
    tools: JavaTools, kafka_tools: KafkaTools, node: NodeProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    fill(node, topic, 2000, partitions=1)
    printed = tools(
        "consumer-perf-test", "--topic", topic, "--num-records", "2000", "--hide-header", "--timeout", "30000"
    )
    assert printed.splitlines()[-1].split(", ")[4] == "2000"
    done = kafka_tools.run("e2e-latency", node.bootstrap, make_topic(f"{topic}-e2e"), "50", "all", "100")
    assert re.search(r"Avg latency: [\d.]+ ms", done.stdout), done.stdout + done.stderr


def test_cooperative_static_members_share_and_keep_their_places(
    tools: JavaTools, node: NodeProcess, make_topic: MakeTopic, start_member: StartMember
) -> None:
    topic = make_topic(partitions=2)
    fill(node, topic)
    settings = {"strategy": "CooperativeStickyAssignor", "session_ms": 30_000}
    first = start_member(topic, options=("--group-instance-id", "a"), **settings)
    eventually(lambda: first.read == 20, WITHIN_S)
    second = start_member(topic, options=("--group-instance-id", "b"), **settings)
    eventually(lambda: (len(first.assigned), len(second.assigned)) == (1, 1), WITHIN_S)
    assert [len(event["partitions"]) for event in first.named("partitions_revoked")] == [1]

    def rebalances() -> int:
        """Those that the first member saw end since it gave a partition up: in one it does so, in the next the second one gets it."""
        names = [event["name"] for event in first.events]
        return names[names.index("partitions_revoked") :].count("partitions_assigned")

    eventually(lambda: rebalances() == 2, WITHIN_S)  # the second member may have seen the end before
    had = second.assigned
    second.leave()
    again = start_member(topic, options=("--group-instance-id", "b"), **settings)
    eventually(lambda: again.assigned == had, WITHIN_S)
    assert rebalances() == 2

    described = tools("consumer-groups", "--describe", "--group", topic, "--members", "--verbose")
    rows = [line.split() for line in described.splitlines() if line.startswith(topic)]
    assert sorted(row[2] for row in rows) == ["a", "b"]
    assert {row[3] for row in rows} == {"/127.0.0.1"}
    state = tools("consumer-groups", "--describe", "--group", topic, "--state")
    (row,) = (line.split() for line in state.splitlines() if line.startswith(topic))
    assert (row[1], row[2], row[3], row[4], row[-1]) == (node.bootstrap, "(1)", "cooperative-sticky", "Stable", "2")
    inactive = tools.said(
        "consumer-groups", "--reset-offsets", "--group", topic, "--all-topics", "--to-earliest", "--execute"
    )
    assert (
        f"Assignments can only be reset if the group '{topic}' is inactive, but the current state is Stable" in inactive
    )
    refused = tools.said("consumer-groups", "--delete", "--group", topic)
    assert "GroupNotEmptyException" in refused


def test_offsets_of_a_group_are_reset_in_each_way(
    tools: JavaTools, node: NodeProcess, make_topic: MakeTopic, start_member: StartMember, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    fill(node, topic)
    member = start_member(topic, options=("--max-messages", "20"))
    eventually(lambda: bool(member.named("shutdown_complete")), WITHIN_S)
    assert sum(event["success"] for event in member.named("offsets_committed")) >= 1

    def reset(*how: str, execute: bool = True) -> list[int]:
        printed = tools(
            *("consumer-groups", "--reset-offsets", "--group", topic, *how),
            "--execute" if execute else "--dry-run",
        )
        offsets = dict(re.findall(rf"^{topic}\s+{topic}\s+(\d)\s+(\d+)\b", printed, re.MULTILINE))
        return [int(offsets[partition]) for partition in sorted(offsets)]

    assert reset("--all-topics", "--shift-by", "-3", execute=False) == [7, 7]
    assert reset("--topic", f"{topic}:1", "--shift-by", "-3") == [7]
    exported = tools(
        *(
            "consumer-groups",
            "--reset-offsets",
            "--group",
            topic,
            "--all-topics",
            "--to-current",
            "--export",
            "--dry-run",
        )
    )
    assert sorted(exported.split()) == [f'"{topic}",0,10', f'"{topic}",1,7']
    plan = tmp_path / "plan.csv"
    plan.write_text(f'"{topic}",0,2\n"{topic}",1,5\n')
    assert reset("--from-file", str(plan)) == [2, 5]
    assert reset("--all-topics", "--by-duration", "PT1H") == [0, 0]
    assert reset("--all-topics", "--to-datetime", "2099-01-01T00:00:00.000") == [10, 10]
    tools("consumer-groups", "--delete", "--group", topic)
    gone = tools.said("consumer-groups", "--describe", "--group", topic)
    assert f"Consumer group '{topic}' does not exist." in gone or "GroupIdNotFoundException" in gone
