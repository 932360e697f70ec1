"""``esp groups`` looks at groups that live, of every family of clients; and ``esp consume`` leaves its group however it is ended."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeProcess
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.group_members import (
    FAMILIES,
    QUICK_GROUPS,
    ConsumerProtocolMember,
    Member,
    members_of_a_test,
)
from tests.integration.java_member import JavaMember

WITHIN_S = 60
PARTITIONS = 4


@pytest.fixture(scope="module")
def node_settings() -> Mapping[str, str]:
    """Groups begin without delay."""
    return QUICK_GROUPS


@pytest.fixture
def members() -> Iterator[list[Member]]:
    """The test's members, all of which have left in the end."""
    yield from members_of_a_test()


def command(node: NodeProcess, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "esp", arguments[0], "--bootstrap-server", node.bootstrap, *arguments[1:]]


def esp(node: NodeProcess, *arguments: str, status: int = 0) -> str:
    done = subprocess.run(command(node, *arguments), capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def rows(text: str) -> list[list[str]]:
    """Each line's columns."""
    return [line.split() for line in text.splitlines() if line]


def fill(node: NodeProcess, topic: str, count: int = 40) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def described(node: NodeProcess, group: str) -> dict[str, Any]:
    [told] = json.loads(esp(node, "groups", "--describe", "--group", group, "--json"))
    found: dict[str, Any] = told
    return found


def look_at(node: NodeProcess, group: str, members: int) -> None:
    """Look at a group that has read and committed everything, whose members share the partitions."""
    eventually(lambda: sum(each["lag"] or 0 for each in described(node, group)["offsets"]) == 0, WITHIN_S)
    told = described(node, group)
    assert told["state"] == "Stable"
    assert len(told["members"]) == members
    readers = {each["partition"]: member["member_id"] for member in told["members"] for each in member["assignment"]}
    assert sorted(readers) == list(range(PARTITIONS))
    assert {each["partition"]: each["member_id"] for each in told["offsets"]} == readers
    listed = rows(esp(node, "groups", "--describe", "--group", group, "--members", "--verbose"))[1:]
    assert {row[1] for row in listed} == set(readers.values())
    assert all(any(re.fullmatch(rf"{group}:[\d,]+", column) for column in row) for row in listed)


@pytest.mark.parametrize("family", FAMILIES)
def test_group_with_a_member_of_a_family_is_described(
    node: NodeProcess, make_topic: MakeTopic, members: list[Member], family: type[Member]
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    fill(node, topic)
    members.append(family(node.bootstrap, topic, topic).start())
    eventually(lambda: len(members[0].read) == 40, WITHIN_S)
    look_at(node, topic, 1)


def test_the_time_until_unread_records_are_lost_is_told(node: NodeProcess, make_topic: MakeTopic) -> None:
    hour_ms = 3_600_000
    topic = make_topic(partitions=PARTITIONS, retention_ms=hour_ms)
    bounded = make_topic(f"{topic}-bounded", partitions=PARTITIONS, retention_bytes=1)
    group = ("--group", topic)
    for name in (topic, bounded):
        fill(node, name)
        to_the_third = ("--reset-offsets", "--topic", name, "--to-offset", "3", "--execute")
        esp(node, "groups", *group, *to_the_third)
    told = json.loads(esp(node, "groups", "--describe", *group, "--times", "--json"))[0]["offsets"]
    assert [(each["topic"], each["lag"], each["note"]) for each in told] == [
        (name, 7, "") for name in (topic, bounded) for _ in range(PARTITIONS)
    ]
    assert all(0 <= each["behind_ms"] <= WITHIN_S * 1000 for each in told)
    by_age, by_size = told[:PARTITIONS], told[PARTITIONS:]
    assert all(each["loss_ms"] == hour_ms - each["behind_ms"] for each in by_age)
    assert all(each["loss_ms"] <= 0 for each in by_size), "more than a byte follows each of them"
    head, *lines = (
        row for row in rows(esp(node, "groups", "--describe", *group, "--times")) if row[0] in ("GROUP", topic)
    )
    assert head[5:8] == ["LAG", "BEHIND", "LOSS-IN"]
    assert len(lines) == 2 * PARTITIONS


def test_the_doctor_finds_groups_that_retention_overtakes(node: NodeProcess, make_topic: MakeTopic) -> None:
    hour_ms = 3_600_000
    topic = make_topic(retention_ms=hour_ms)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for _ in range(10):
        producer.produce(topic, b"old", timestamp=int(time.time() * 1000) - hour_ms * 95 // 100)
    assert producer.flush(30) == 0
    esp(node, "groups", "--group", topic, "--reset-offsets", "--topic", topic, "--to-offset", "3", "--execute")
    rules = ("unread-records-near-deletion", "unread-records-deleted")

    def findings() -> dict[str, list[str]]:
        told = json.loads(esp(node, "doctor", "--rule", ",".join(rules), "--fail-on", "never", "--json"))
        places = {
            each["rule"]: [place for place in each["places"] if place["name"] == topic] for each in told["findings"]
        }
        return {rule: [place["detail"] for place in some] for rule, some in places.items() if some}

    near = f"group {topic} has unread records in the last tenth of {hour_ms} ms, in 1 partition"
    assert findings() == {rules[0]: [near]}
    esp(node, "delete-records", "--topic", topic, "--before", "5")
    gone = f"group {topic} had not read 2 offsets that are gone"
    assert findings() == {rules[0]: [near], rules[1]: [gone]}
    esp(node, "groups", "--group", topic, "--reset-offsets", "--topic", topic, "--to-latest", "--execute")
    assert findings() == {}


def test_the_epochs_of_a_group_whose_coordinator_assigns_are_told(
    node: NodeProcess, make_topic: MakeTopic, members: list[Member]
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    fill(node, topic)
    members.append(ConsumerProtocolMember(node.bootstrap, topic, topic).start())
    eventually(lambda: len(members[0].read) == 40, WITHIN_S)
    told = described(node, topic)
    [member] = told["members"]
    assert told["type"] == "consumer"
    assert told["epoch"] == told["assignment_epoch"] == member["epoch"] > 0
    assert member["target"] == member["assignment"]
    assert len(member["target"]) == PARTITIONS


@pytest.mark.kafka
def test_group_with_members_of_all_families_is_described(
    node: NodeProcess, make_topic: MakeTopic, members: list[Member], kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    fill(node, topic)
    members += [family(node.bootstrap, topic, topic, instance=family.__name__).start() for family in FAMILIES]
    java = JavaMember(kafka_tools, node.bootstrap, topic, topic, tmp_path).start()
    try:
        eventually(lambda: all(len(member.assigned) == 1 for member in (*members, java)), WITHIN_S)
        look_at(node, topic, 4)
        assert {str(each["instance_id"]) for each in described(node, topic)["members"]} == {
            "None",
            *(family.__name__ for family in FAMILIES),
        }
        head, *lines = rows(esp(node, "groups", "--describe", "--group", topic))
        assert [line[head.index("LAG")] for line in lines] == ["0"] * PARTITIONS
        [row] = [
            line for line in rows(esp(node, "groups", "--describe", "--all-groups", "--state")) if line[0] == topic
        ]
        assert row[-3:] == ["Stable", "4", "Classic"]
        reset = ("groups", "--reset-offsets", "--group", topic, "--all-topics", "--to-earliest", "--execute")
        assert "Stable" in esp(node, *reset, status=1)
        java.leave()
    finally:
        java.kill()


Started = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(node: NodeProcess) -> Iterator[Started]:
    """Start commands that are killed after the test if they still run."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*arguments: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(command(node, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return started[-1]

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_consume_commits_and_leaves_its_group_when_it_is_told_to_end(
    node: NodeProcess, make_topic: MakeTopic, start: Started, ended_by: signal.Signals
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    fill(node, topic)
    process = start("consume", "--topic", topic, "--group", topic, "--from-beginning")
    assert process.stdout is not None
    printed = [process.stdout.readline() for _ in range(40)]
    assert sorted(int(line) for line in printed) == list(range(40))
    process.send_signal(ended_by)
    _, errors = process.communicate(timeout=WITHIN_S)
    assert b"Traceback" not in errors
    assert process.returncode == 0
    told = described(node, topic)
    assert (told["state"], told["members"]) == ("Empty", [])
    assert [each["lag"] for each in told["offsets"]] == [0] * PARTITIONS
