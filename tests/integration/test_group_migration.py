"""Groups that move between the protocols under load, member by member: of librdkafka and Java, beside members that stay classic."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeProcess
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.group_members import (
    QUICK_GROUPS,
    AiokafkaMember,
    ConfluentMember,
    ConsumerProtocolMember,
    KafkaPythonMember,
    Member,
    members_of_a_test,
)
from tests.integration.java_member import JavaMember
from tests.integration.open_transactions import run_esp

PARTITIONS = 6
WITHIN_S = 40
PAUSE_S = 0.005

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def node_settings() -> Mapping[str, str]:
    """Members hear of changes soon."""
    return QUICK_GROUPS | {
        "group.consumer.heartbeat.interval.ms": "300",
        "group.consumer.session.timeout.ms": "6000",
        "group.consumer.assignment.interval.ms": "0",
    }


@pytest.fixture
def members() -> Iterator[list[Member]]:
    """The test's members, all of which have left in the end."""
    yield from members_of_a_test()


class Load:
    """Writes records all the time until the block ends; ``count`` are acknowledged then."""

    def __init__(self, node: NodeProcess, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": node.bootstrap})
        self._topic = topic
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.count = 0

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    def end(self) -> None:
        """Write no more, and wait until everything is acknowledged."""
        self._done.set()
        self._thread.join()
        assert self._producer.flush(30) == 0

    def _write(self) -> None:
        while not self._done.is_set():
            self._producer.produce(self._topic, b"%d" % self.count, partition=self.count % PARTITIONS)
            self.count += 1
            self._producer.poll(0)
            time.sleep(PAUSE_S)


def groups_command(node: NodeProcess, *words: str) -> str:
    """What a command of ``esp groups`` prints."""
    output, _ = run_esp("groups", "--bootstrap-server", node.bootstrap, *words)
    return output


def group_type(node: NodeProcess, group: str) -> str:
    """The protocol of a group."""
    listed = groups_command(node, "--list", "--json")
    [kind] = [each["type"] for each in json.loads(listed) if each["group_id"] == group]
    return str(kind).lower()


def share_all(*members: Member | JavaMember) -> bool:
    """True if each partition has one member, and each member some of them."""
    owned = [number for member in members for number in member.assigned]
    return sorted(owned) == list(range(PARTITIONS)) and all(member.assigned for member in members)


def settle(*members: Member | JavaMember) -> None:
    """Wait until the members share the partitions."""
    eventually(lambda: share_all(*members), WITHIN_S)


def once_each(load: Load, members: list[Member]) -> bool:
    """True if all records that were written are read; none was read by two."""
    read = Counter(record for member in members for record in member.read)
    assert not [record for record, count in read.items() if count > 1], "read by two"
    return len(read) == load.count


@pytest.mark.parametrize("staying", [KafkaPythonMember, AiokafkaMember])
def test_group_of_two_families_moves_there_and_back_and_reads_each_record_once(
    node: NodeProcess, make_topic: MakeTopic, members: list[Member], staying: type[Member]
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    stays = staying(node.bootstrap, topic, topic).start()
    goes = ConfluentMember(node.bootstrap, topic, topic).start()
    members += [stays, goes]
    settle(stays, goes)
    assert group_type(node, topic) == "classic"
    with Load(node, topic) as load:
        eventually(lambda: min(len(stays.read), len(goes.read)) > 20, WITHIN_S)
        for family, kind in ((ConsumerProtocolMember, "consumer"), (ConfluentMember, "classic")):
            goes.leave()
            goes = family(node.bootstrap, topic, topic).start()
            members.append(goes)
            settle(stays, goes)
            assert group_type(node, topic) == kind
            if kind == "consumer":
                told = groups_command(node, "--describe", "--group", topic, "--members", "--json")
                assert {member["protocol"] for member in json.loads(told)[0]["members"]} == {"classic", "consumer"}
            before = len(goes.read)
            eventually(lambda: len(goes.read) > before + 20, WITHIN_S)  # noqa: B023 - called before the loop goes on
        load.end()
        eventually(lambda: once_each(load, members), WITHIN_S)


def test_group_of_librdkafka_and_java_moves_whole_and_back(
    node: NodeProcess, make_topic: MakeTopic, members: list[Member], kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    java = JavaMember(kafka_tools, node.bootstrap, topic, topic, tmp_path).start()
    mine = ConfluentMember(node.bootstrap, topic, topic).start()
    members.append(mine)
    settle(java, mine)
    with Load(node, topic) as load:
        java.leave()
        java = JavaMember(kafka_tools, node.bootstrap, topic, topic, tmp_path, protocol="consumer").start()
        settle(java, mine)
        mine.leave()
        mine = ConsumerProtocolMember(node.bootstrap, topic, topic).start()
        members.append(mine)
        settle(java, mine)
        assert group_type(node, topic) == "consumer"
        java.leave()
        java = JavaMember(kafka_tools, node.bootstrap, topic, topic, tmp_path).start()
        settle(java, mine)
        mine.leave()
        mine = ConfluentMember(node.bootstrap, topic, topic).start()
        members.append(mine)
        settle(java, mine)
        assert group_type(node, topic) == "classic"
        load.end()
        java.leave()
        settle(mine)
        eventually(lambda: lag(node, topic) == 0, WITHIN_S)


def lag(node: NodeProcess, group: str) -> int:
    """Records that the group has not committed."""
    [told] = json.loads(groups_command(node, "--describe", "--group", group, "--json"))
    return sum(each["lag"] for each in told["offsets"])
