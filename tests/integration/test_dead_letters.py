"""Dead letters of librdkafka's share consumer, over kill -9 of the node, and ``esp queues`` with them."""

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import AcknowledgeType, Consumer, Message, Producer, TopicPartition

from esp.cli.kafka.answers import PartitionId
from esp.cli.kafka.doctor import DoctorAdmin
from esp.cli.kafka.letters import LetterReader
from esp.cli.node.format import random_uuid
from esp.testing.node import Node
from esp.testing.node_process import HOST, NodeProcess
from esp.testing.ports import free_port
from tests.integration.conftest import eventually
from tests.integration.test_share_groups import SETTINGS, Sharer

RECORDS: Final = 60
PARTITIONS: Final = 2
WITHIN_S: Final = 60
QUEUE: Final = "dlq.t"
REASONS: Final = {
    "rejected": b"Offset rejected by client.",
    "exhausted": b"Offset delivery count exceeded the threshold.",
}

pytestmark = pytest.mark.timeout(300)


def esp(node: NodeProcess, *arguments: str, status: int = 0) -> str:
    command = [sys.executable, "-m", "esp", *arguments, "--bootstrap-server", node.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node with a topic and a dead-letter queue, and a group that has it."""
    port = free_port()
    listeners = {"node.id": "1", "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{free_port()}"}
    made = Node(tmp_path / "data", {**SETTINGS, **listeners}, port)
    made.format(random_uuid(), "--standalone", "--feature", "share.version=2")
    with made as running:
        esp(running, "topics", "--create", "--topic", "t", "--partitions", str(PARTITIONS))
        allowed = ("--config", "errors.deadletterqueue.group.enable=true")
        esp(running, "topics", "--create", "--topic", QUEUE, "--partitions", str(PARTITIONS), *allowed)
        configure(running, "share.auto.offset.reset=earliest", f"errors.deadletterqueue.topic.name={QUEUE}")
        configure(running, "share.delivery.count.limit=2")
        yield running


def configure(node: NodeProcess, *settings: str) -> None:
    added = ("--add-config", ",".join(settings))
    esp(node, "configs", "--alter", "--entity-type", "groups", "--entity-name", "t", *added)


def produce(node: NodeProcess, values: range) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 2})
    for number in values:
        headers = [("number", b"%d" % number)]
        producer.produce("t", b"%d" % number, b"key-%d" % number, partition=number % PARTITIONS, headers=headers)
        producer.poll(0)
    assert producer.flush(30) == 0


def read(node: NodeProcess, topic: str) -> list[Message]:
    """All records of a topic."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "reader", "enable.auto.commit": False})
    ends = {
        number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=WITHIN_S)
        for number in range(PARTITIONS)
    }
    consumer.assign([TopicPartition(topic, number, first) for number, (first, _end) in ends.items()])
    found: list[Message] = []
    while len(found) < sum(end - first for first, end in ends.values()):
        message = consumer.poll(1)
        if message is not None:
            assert message.error() is None
            found.append(message)
    consumer.close()
    return found


def headers_of(message: Message) -> dict[str, bytes]:
    return dict(message.headers() or ())


def judge(value: int, _count: int) -> AcknowledgeType:
    """One in ten is never done with, one in ten is rejected, the rest is accepted."""
    return {0: AcknowledgeType.RELEASE, 1: AcknowledgeType.REJECT}.get(value % 10, AcknowledgeType.ACCEPT)


def expected_letters(count: int = RECORDS) -> set[tuple[int, int, bytes, bytes]]:
    """Partition, offset, delivery count and reason of each letter."""
    return {
        (value % PARTITIONS, value // PARTITIONS, b"2", REASONS["exhausted"])
        if value % 10 == 0
        else (value % PARTITIONS, value // PARTITIONS, b"1", REASONS["rejected"])
        for value in range(count)
        if value % 10 < 2
    }


def told_by(letters: list[Message]) -> Counter[tuple[int, int, bytes, bytes]]:
    told: Counter[tuple[int, int, bytes, bytes]] = Counter()
    for letter in letters:
        headers = headers_of(letter)
        assert (headers["__dlq.errors.topic"], headers["__dlq.errors.group"]) == (b"t", b"t")
        partition = int(headers["__dlq.errors.partition"])
        assert letter.partition() == partition
        offset, count = int(headers["__dlq.errors.offset"]), headers["__dlq.errors.delivery.count"]
        told[partition, offset, count, headers["__dlq.errors.message"]] += 1
    return told


def described(node: NodeProcess) -> list[dict[str, Any]]:
    told: dict[str, Any] = json.loads(esp(node, "queues", "describe", "--group", "t", "--json"))
    partitions: list[dict[str, Any]] = told["partitions"]
    return partitions


def test_rejected_and_exhausted_records_are_in_the_queue_and_come_back_by_redrive(node: NodeProcess) -> None:
    configure(node, "errors.deadletterqueue.copy.record.enable=true")
    produce(node, range(RECORDS))
    member = Sharer(node, "t", judge)
    eventually(lambda: len(read(node, QUEUE)) == len(expected_letters()), WITHIN_S)
    member.stop()
    letters = read(node, QUEUE)
    assert told_by(letters) == Counter(expected_letters())
    for letter in letters:
        assert letter.value() == headers_of(letter)["number"]
        assert letter.key() == b"key-" + (letter.value() or b"")
    eventually(lambda: [each["lag"] for each in described(node)] == [0] * PARTITIONS, WITHIN_S)
    records = [each["records"] for each in described(node)]
    assert [each["start_offset"] for each in records] == [RECORDS // PARTITIONS] * PARTITIONS
    assert [(each["pending_letters"], each["in_flight"]) for each in records] == [(0, 0)] * PARTITIONS

    redrive = ("queues", "redrive", "--group", "t", "--from", QUEUE, "--json")
    dry = json.loads(esp(node, *redrive, "--dry-run"))
    assert sum(each["count"] for each in dry["letters"]) == len(letters)
    some = json.loads(esp(node, *redrive, "--max", "5"))
    rest = json.loads(esp(node, *redrive))
    again = json.loads(esp(node, *redrive))
    counts = [
        sum(each["count"] for each in told["letters"] if each["outcome"] == "sent") for told in (some, rest, again)
    ]
    assert counts == [5, len(letters) - 5, 0]
    assert [told["left"] for told in (dry, some, rest, again)] == [0, len(letters) - 5, 0, 0]
    redriven = [message for message in read(node, "t") if "esp.redrive.count" in headers_of(message)]
    assert {message.value() for message in redriven} == {b"%d" % value for value in range(RECORDS) if value % 10 < 2}
    assert len(redriven) == len(letters)
    for message in redriven:
        assert headers_of(message) == {"number": message.value(), "esp.redrive.count": b"1"}


def test_letters_without_copies_name_their_records_from_which_redrive_takes_them(node: NodeProcess) -> None:
    produce(node, range(RECORDS))
    member = Sharer(node, "t", judge)
    eventually(lambda: len(read(node, QUEUE)) == len(expected_letters()), WITHIN_S)
    member.stop()
    letters = read(node, QUEUE)
    assert told_by(letters) == Counter(expected_letters())
    assert {(letter.key(), letter.value()) for letter in letters} == {(None, None)}
    told = json.loads(esp(node, "queues", "redrive", "--group", "t", "--from", QUEUE, "--filter", "rejected", "--json"))
    assert [(each["outcome"], each["reason"], each["count"]) for each in told["letters"]] == [
        ("sent", "rejected", RECORDS // 10),
        ("skipped", "exhausted", RECORDS // 10),
    ]
    redriven = [message for message in read(node, "t") if "esp.redrive.count" in headers_of(message)]
    assert {message.value() for message in redriven} == {b"%d" % value for value in range(RECORDS) if value % 10 == 1}


def test_redrive_makes_no_topic_and_goes_on_when_it_is_there_again(node: NodeProcess) -> None:
    configure(node, "errors.deadletterqueue.copy.record.enable=true")
    produce(node, range(10))
    member = Sharer(node, "t", judge)
    eventually(lambda: len(read(node, QUEUE)) == len(expected_letters(10)), WITHIN_S)
    member.stop()
    esp(node, "topics", "--delete", "--topic", "t")
    redrive = ("queues", "redrive", "--group", "t", "--from", QUEUE)
    refused = subprocess_error(node, *redrive)
    assert "there is no topic t" in " ".join(refused.split())
    assert "t" not in esp(node, "topics", "--list").split()
    esp(node, "topics", "--create", "--topic", "t", "--partitions", str(PARTITIONS))
    told = json.loads(esp(node, *redrive, "--json"))
    assert [(each["outcome"], each["topic"]) for each in told["letters"]] == [("sent", "t"), ("sent", "t")]
    assert {message.value() for message in read(node, "t")} == {b"0", b"1"}


def test_one_run_of_redrive_keeps_another_away(node: NodeProcess) -> None:
    produce(node, range(RECORDS))
    member = Sharer(node, "t", judge)
    eventually(lambda: len(read(node, QUEUE)) == len(expected_letters()), WITHIN_S)
    member.stop()
    redrive = [sys.executable, "-m", "esp", "queues", "redrive", "--group", "t", "--from", QUEUE, "--json"]
    redrive += ["--bootstrap-server", node.bootstrap]
    with LetterReader(node.bootstrap, QUEUE, "esp-redrive-t", commits=True) as other:
        letters = other.poll()
        refused = subprocess.run(redrive, capture_output=True, text=True, timeout=WITHIN_S, check=False)
        assert refused.returncode == 1, refused.stdout
        assert "another run redrives for the group esp-redrive-t" in " ".join(refused.stderr.split())
        dry = json.loads(esp(node, *redrive[3:-2], "--dry-run"))
        assert sum(each["count"] for each in dry["letters"]) == len(expected_letters())
        other.commit({PartitionId(QUEUE, each.partition): each.offset + 1 for each in letters})
    rest = json.loads(esp(node, *redrive[3:-2]))
    sent = sum(each["count"] for each in rest["letters"] if each["outcome"] == "sent")
    assert sent == len(expected_letters()) - len(letters)


def test_peek_and_describe_show_who_has_what(node: NodeProcess) -> None:
    produce(node, range(10))
    holding = threading.Event()
    member = Sharer(node, "t", lambda _value, _count: AcknowledgeType.ACCEPT if holding.wait(WITHIN_S) else None)  # type: ignore[arg-type,return-value]
    eventually(lambda: any(each["records"] and each["records"]["in_flight"] for each in described(node)), WITHIN_S)
    text = esp(node, "queues", "describe", "--group", "t")
    assert "IN-FLIGHT" in text
    told = json.loads(esp(node, "doctor", "--rule", "queue-blocked,dead-letters-wait", "--json"))
    assert told["findings"] == []
    with DoctorAdmin(node.bootstrap) as admin:
        seen = admin.queues([1])
    assert {each.group for each in seen} == {"t"}
    assert any(each.holder is not None for each in seen)
    peeked = [
        json.loads(line) for line in esp(node, "queues", "peek", "--group", "t", "--max", "2", "--json").splitlines()
    ]
    holding.set()
    member.stop()
    assert len(peeked) == 2 * PARTITIONS
    assert {each["state"] for each in peeked} <= {"ACQUIRED", "NEW"}
    held = [each for each in peeked if each["state"] == "ACQUIRED"]
    assert held
    assert {each["delivery_count"] for each in held} == {1}
    assert "there is no share group nobody" in subprocess_error(node, "queues", "describe", "--group", "nobody")


def subprocess_error(node: NodeProcess, *arguments: str) -> str:
    command = [sys.executable, "-m", "esp", *arguments, "--bootstrap-server", node.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 1
    return done.stderr


def test_no_letter_is_left_out_when_the_node_is_killed(node: NodeProcess) -> None:
    """Every record is rejected, and the node is killed in the middle of the letters, twice."""
    produce(node, range(RECORDS))
    member = Sharer(node, "t", lambda _value, _count: AcknowledgeType.REJECT)
    for _ in range(2):
        begun = len(member.deliveries)
        eventually(lambda begun=begun: len(member.deliveries) > begun or begun == RECORDS, WITHIN_S)
        node.kill()
        node.start()
    expected = {(value % PARTITIONS, value // PARTITIONS) for value in range(RECORDS)}
    eventually(lambda: {each[:2] for each in told_by(read(node, QUEUE))} == expected, WITHIN_S)
    member.stop()
