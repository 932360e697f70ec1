"""Share groups (KIP-932) of real clients: librdkafka's share consumer and Kafka's Java tools, against a node that offers them."""

import contextlib
import io
import json
import re
import shlex
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import AcknowledgeType, KafkaException, Producer, ShareConsumer
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.share_acknowledge.v2 import request as share_acknowledge
from kio.schema.share_fetch.v2 import request as share_fetch
from kio.schema.share_group_heartbeat.v1 import request as share_heartbeat
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from esp.cli.app import run_tools
from esp.cli.node.format import random_uuid
from esp.records.builder import NewRecord, build_batch
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import HOST, NodeProcess
from esp.testing.ports import free_port
from esp.testing.pytest_plugin import AGAINST_KAFKA
from esp.testing.real_kafka import RealKafka
from tests.integration import messages
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.java_tools import JavaTools
from tests.integration.wire import Wire

RECORDS: Final = 1000
PARTITIONS: Final = 3
WITHIN_S: Final = 60

SETTINGS: Final[Mapping[str, str]] = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.heartbeat.interval.ms": "5000",
}

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

MakeNode = Callable[[Path], NodeProcess]


@pytest.fixture(scope="module")
def make_share_node(request: pytest.FixtureRequest) -> MakeNode:
    """Make a node that offers share groups."""

    def make(directory: Path) -> NodeProcess:
        if AGAINST_KAFKA:
            return RealKafka(directory / "data", SETTINGS, tools=request.getfixturevalue("kafka_tools"))
        port = free_port()
        listeners = {"node.id": "1", "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{free_port()}"}
        made = Node(directory / "data", {**SETTINGS, **listeners}, port)
        made.format(random_uuid(), "--standalone")
        return made

    return make


@pytest.fixture(scope="module")
def node(make_share_node: MakeNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """One node for all tests."""
    with make_share_node(tmp_path_factory.mktemp("node")) as made:
        yield made


@pytest.fixture(scope="module")
def tools(kafka_tools: KafkaTools, node: NodeProcess) -> JavaTools:
    """Kafka's tools for the node."""
    return JavaTools(kafka_tools, node.bootstrap)


def produce(node: NodeProcess, topic: str, values: range) -> None:
    """Write values, each record to the partition that comes next."""
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 2})
    for number in values:
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(30) == 0


class Sharer:
    """A member of librdkafka in a thread of its own: it says of each record what ``judge`` says, until it is stopped."""

    def __init__(self, node: NodeProcess, topic: str, judge: Callable[[int, int], AcknowledgeType]) -> None:
        self.deliveries: list[tuple[int, int]] = []
        """Value and delivery count of each record that it got."""
        self.words: list[tuple[int, AcknowledgeType]] = []
        self.errors: list[object] = []
        self._judge = judge
        self._is_stopped = threading.Event()
        self._consumer = ShareConsumer(
            {
                "bootstrap.servers": node.bootstrap,
                "group.id": topic,
                "share.acknowledgement.mode": "explicit",
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_stopped.is_set():
            try:
                self._take(self._consumer.poll(0.2))
            except KafkaException as error:
                self.errors.append(error)
        self._consumer.close()

    def _take(self, messages: Any) -> None:
        for message in messages:
            if message.error() is not None:
                self.errors.append(message.error())
                continue
            value, count = int(message.value()), message.delivery_count()
            word = self._judge(value, count)
            self.deliveries.append((value, count))
            self.words.append((value, word))
            self._consumer.acknowledge(message, word)
        if messages:
            self.errors += [error for error in self._consumer.commit_sync(30).values() if error is not None]

    def stop(self) -> None:
        """Leave the group."""
        self._is_stopped.set()
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive()


def read_all(tools: JavaTools, group: str) -> None:
    """Let the group begin at the start of its topics."""
    tools(
        "configs",
        "--alter",
        "--entity-type",
        "groups",
        "--entity-name",
        group,
        "--add-config",
        "share.auto.offset.reset=earliest",
    )


def lags(tools: JavaTools, group: str) -> dict[int, str]:
    """The lag of each partition, as Kafka's tool tells it."""
    told = tools("share-groups", "--describe", "--group", group, "--offsets")
    rows = [line.split() for line in told.splitlines() if line.startswith(group)]
    return {int(row[2]): row[-1] for row in rows}


def judge(value: int, count: int) -> AcknowledgeType:
    """One in ten is released at first, one in ten is rejected, the rest is accepted."""
    if value % 10 == 0 and count == 1:
        return AcknowledgeType.RELEASE
    return AcknowledgeType.REJECT if value % 10 == 1 else AcknowledgeType.ACCEPT


def test_two_members_share_what_several_producers_write(
    node: NodeProcess, tools: JavaTools, make_topic: MakeTopic
) -> None:
    topic = make_topic("shared", PARTITIONS)
    read_all(tools, topic)
    produce(node, topic, range(100))
    members = [Sharer(node, topic, judge) for _ in range(2)]
    writers = [
        threading.Thread(target=produce, args=(node, topic, range(start, start + 300))) for start in (100, 400, 700)
    ]
    for writer in writers:
        writer.start()
    expected = RECORDS + RECORDS // 10
    eventually(lambda: sum(len(member.deliveries) for member in members) >= expected, WITHIN_S)
    for writer in writers:
        writer.join()
    for member in members:
        member.stop()
    assert [member.errors for member in members] == [[], []]
    deliveries = Counter(each for member in members for each in member.deliveries)
    wanted = [(value, 1) for value in range(RECORDS)] + [(value, 2) for value in range(0, RECORDS, 10)]
    assert deliveries == Counter(wanted)
    eventually(lambda: lags(tools, topic) == dict.fromkeys(range(PARTITIONS), "0"), WITHIN_S)


def test_kafkas_own_consumers_share(
    node: NodeProcess, tools: JavaTools, kafka_tools: KafkaTools, make_topic: MakeTopic
) -> None:
    topic = make_topic("java", PARTITIONS)
    read_all(tools, topic)
    produce(node, topic, range(300))
    some = tools(
        "console-share-consumer", "--topic", topic, "--group", topic, "--max-messages", "10", "--timeout-ms", "40000"
    )
    first = {int(line) for line in some.split()}
    assert len(first) == 10
    options = ("--topic", topic, "--group-id", topic, "--max-messages", "290", "--acknowledgement-mode", "sync")
    told = tools("verifiable-share-consumer", *options)
    events = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    consumed = sum(event["count"] for event in events if event["name"] == "records_consumed")
    acknowledged = sum(event["count"] for event in events if event["name"] == "offsets_acknowledged")
    assert (consumed, acknowledged) == (290, 290)
    eventually(lambda: lags(tools, topic) == dict.fromkeys(range(PARTITIONS), "0"), WITHIN_S)
    described = tools("share-groups", "--describe", "--group", topic, "--state")
    assert re.search(rf"{topic}.*Empty", described), described


def test_after_a_kill_unacknowledged_records_come_again_and_accepted_ones_never(
    make_share_node: MakeNode, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    with make_share_node(tmp_path) as node:
        tools = JavaTools(kafka_tools, node.bootstrap)
        tools("topics", "--create", "--topic", "t", "--partitions", str(PARTITIONS))
        read_all(tools, "t")
        produce(node, "t", range(300))
        lost = ShareConsumer(
            {
                "bootstrap.servers": node.bootstrap,
                "group.id": "t",
                "share.acknowledgement.mode": "explicit",
                "log_level": 0,
            }
        )
        lost.subscribe(["t"])
        got: Any = ()
        deadline = time.monotonic() + WITHIN_S
        while not got:
            assert time.monotonic() < deadline
            got = lost.poll(1)
        accepted = {int(message.value()) for message in got[::2]}
        for message in got[::2]:
            lost.acknowledge(message, AcknowledgeType.ACCEPT)
        assert set(lost.commit_sync(30).values()) == {None}
        node.kill()
        node.start()
        lost.close()  # the node knows nothing of what it had; as a member of the group it would have partitions still
        member = Sharer(node, "t", lambda _value, _count: AcknowledgeType.ACCEPT)
        rest = set(range(300)) - accepted
        eventually(lambda: {value for value, _count in member.deliveries} >= rest, WITHIN_S)
        member.stop()
        assert len(got) > len(accepted)
        assert Counter(value for value, _count in member.deliveries) == Counter(rest)
        eventually(lambda: lags(tools, "t") == dict.fromkeys(range(PARTITIONS), "0"), WITHIN_S)


def test_the_worker_of_the_documentation_works(node: NodeProcess) -> None:
    page = (Path(__file__).parents[2] / "docs" / "QUEUES.md").read_text(encoding="utf-8")
    [commands], [program] = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("sh", "python"))
    for command in commands.splitlines():
        esp, *arguments = shlex.split(command)
        assert esp == "esp"
        assert run_tools([*arguments, "--bootstrap-server", node.bootstrap]) == 0, command
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program.replace("127.0.0.1:9092", node.bootstrap), {})
    [promised] = re.findall(r"It prints `(.*?)`", page)
    assert printed.getvalue() == f"{promised}\n"


BATCH: Final = 10
"""Records of each batch that the member of the next test is given."""

MANY: Final = 5_000

WORDS: Final[tuple[tuple[str, list[tuple[int, int, tuple[int, ...]]], ErrorCode], ...]] = (
    ("each by itself", [(one, one, (1,)) for one in range(BATCH)], ErrorCode.none),
    ("a type for each", [(0, BATCH - 1, (1, 3, 3, 0, 1, 1, 0, 3, 1, 1))], ErrorCode.none),
    ("neighbours of several types", [(one, one, ((0, 1, 3)[one % 3],)) for one in range(BATCH)], ErrorCode.none),
    ("reversed", [(9, 0, (1,))], ErrorCode.invalid_request),
    ("reversed at the end of another", [(0, 4, (1,)), (5, 3, (1,))], ErrorCode.invalid_request),
    ("descending", [(5, 9, (1,)), (0, 4, (1,))], ErrorCode.invalid_request),
    ("overlapping", [(0, 5, (1,)), (4, 9, (1,))], ErrorCode.invalid_request),
    ("overlapping by one", [(0, 5, (1,)), (5, 9, (1,))], ErrorCode.invalid_record_state),
    ("the same one twice", [(0, 0, (1,)), (0, 0, (1,))], ErrorCode.invalid_record_state),
    (
        "the same one twice, then past the last one",
        [(0, 0, (1,)), (0, 0, (1,)), (5, 99, (1,))],
        ErrorCode.invalid_record_state,
    ),
    ("no types", [(0, 1, ())], ErrorCode.invalid_request),
    ("too few types", [(0, 4, (1, 1))], ErrorCode.invalid_request),
    ("unknown types", [(0, 0, (1,)), (1, 1, (5,))], ErrorCode.invalid_request),
    ("a negative type", [(0, 0, (-1,))], ErrorCode.invalid_request),
    ("a renewal that is not announced", [(0, 9, (4,))], ErrorCode.invalid_request),
    ("past the last acquired record", [(one, one, (1,)) for one in range(BATCH + 1)], ErrorCode.invalid_request),
    ("past them by 2^31", [(0, 2**31, (1,))], ErrorCode.invalid_request),
    (
        "very many, descending",
        [(9 - one % BATCH, 9 - one % BATCH, (1,)) for one in range(MANY)],
        ErrorCode.invalid_request,
    ),
    ("very many, overlapping", [(0, 9, (1,))] * MANY, ErrorCode.invalid_request),
    ("very many, past the last one", [(one, one, (1 + one % 2,)) for one in range(MANY)], ErrorCode.invalid_request),
    ("very many types", [(0, MANY - 1, (1, 2) * (MANY // 2))], ErrorCode.invalid_request),
)
"""What a member says of the ten records that it was given last, by their places, and the answer."""


def test_words_are_taken_or_refused_as_a_whole(node: NodeProcess, tools: JavaTools, make_topic: MakeTopic) -> None:
    topic = make_topic("words", 1)
    read_all(tools, topic)
    with Wire(node) as wire:
        member = WireSharer(wire, topic)
        found = {}
        for name, words, _ in WORDS:
            messages.send_batch(wire, topic, build_batch([NewRecord(b"x")] * BATCH, timestamp_ms=0))
            base = member.take(BATCH)
            found[name] = member.say([(base + first, base + last, types) for first, last, types in words])
        assert found == {name: error for name, _, error in WORDS}
        assert member.say([(0, 0, (1,)), (0, 0, (1,))]) is ErrorCode.none, (
            "it is below the start, and accepted for long"
        )


class WireSharer:
    """A member of a share group with a session for the one partition of a topic, which says what no client would.

    Args:
        wire: its connection.
        topic: what it reads; the group has the same name.
    """

    def __init__(self, wire: Wire, topic: str) -> None:
        self._wire = wire
        self._group = topic
        self._epoch = 0
        self._topic_id = self._join(topic)

    def _join(self, topic: str) -> uuid.UUID | None:
        epoch, deadline = 0, time.monotonic() + WITHIN_S
        lookup = FindCoordinatorRequest(key_type=i8(0), coordinator_keys=(self._group,))
        while self._wire.call(lookup).coordinators[0].error_code is not ErrorCode.none:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        while time.monotonic() < deadline:
            answer = self._wire.call(
                share_heartbeat.ShareGroupHeartbeatRequest(
                    group_id=GroupId(self._group),
                    member_id="wire",
                    member_epoch=i32(epoch),
                    subscribed_topic_names=None if epoch else (TopicName(topic),),
                )
            )
            if answer.error_code is ErrorCode.none:
                epoch = answer.member_epoch
                if answer.assignment is not None and answer.assignment.topic_partitions:
                    found: uuid.UUID | None = answer.assignment.topic_partitions[0].topic_id
                    return found
            time.sleep(0.05)
        raise AssertionError("the member was assigned nothing")

    def take(self, count: int) -> int:
        """Acquire so many records; returns the offset of the first."""
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            partition = share_fetch.FetchPartition(partition_index=i32(0), acknowledgement_batches=())
            topic = share_fetch.FetchTopic(topic_id=self._topic_id, partitions=(partition,))
            answer = self._wire.call(
                share_fetch.ShareFetchRequest(
                    group_id=GroupId(self._group),
                    member_id="wire",
                    share_session_epoch=self._next_epoch(),
                    max_wait=i32Timedelta.parse(timedelta(milliseconds=500)),
                    min_bytes=i32(1),
                    max_bytes=i32(1 << 20),
                    max_records=i32(count),
                    batch_size=i32(count),
                    topics=(topic,),
                    forgotten_topics_data=(),
                )
            )
            assert answer.error_code is ErrorCode.none, answer
            pieces = [piece for each in answer.responses for one in each.partitions for piece in one.acquired_records]
            if pieces:
                (piece,) = pieces
                assert piece.last_offset - piece.first_offset + 1 == count
                return int(piece.first_offset)
        raise AssertionError("the member got nothing")

    def say(self, words: list[tuple[int, int, tuple[int, ...]]]) -> ErrorCode:
        """Acknowledge; returns the answer about the partition."""
        batches = tuple(
            share_acknowledge.AcknowledgementBatch(
                first_offset=i64(first), last_offset=i64(last), acknowledge_types=tuple(map(i8, types))
            )
            for first, last, types in words
        )
        partition = share_acknowledge.AcknowledgePartition(partition_index=i32(0), acknowledgement_batches=batches)
        answer = self._wire.call(
            share_acknowledge.ShareAcknowledgeRequest(
                group_id=GroupId(self._group),
                member_id="wire",
                share_session_epoch=self._next_epoch(),
                topics=(share_acknowledge.AcknowledgeTopic(topic_id=self._topic_id, partitions=(partition,)),),
            )
        )
        assert answer.error_code is ErrorCode.none, answer
        found: ErrorCode = answer.responses[0].partitions[0].error_code
        return found

    def _next_epoch(self) -> i32:
        epoch, self._epoch = self._epoch, self._epoch + 1
        return i32(epoch)
