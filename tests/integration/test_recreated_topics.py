"""Groups of all client families read on over the deletion of their topic and its creation by the same name: each offset is one record."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka.admin import KafkaAdminClient

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeProcess
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.group_members import FAMILIES, QUICK_GROUPS, Member, members_of_a_test
from tests.integration.java_member import JavaMember
from tests.integration.java_tools import JavaTools

WITHIN_S = 60
PARTITIONS = 2
EACH = 10
"""Records that each partition gets, before and after."""


@pytest.fixture(scope="module")
def node_settings() -> Mapping[str, str]:
    """Groups begin without delay, offsets of all topics go on, and only the test creates topics."""
    return {**QUICK_GROUPS, "topic.recreate.offsets": "continue", "auto.create.topics.enable": "false"}


@pytest.fixture
def members() -> Iterator[list[Member]]:
    """The test's members, all of which have left in the end."""
    yield from members_of_a_test()


def fill(node: NodeProcess, topic: str) -> list[int]:
    """Write records to each partition; return the offsets that were acknowledged."""
    offsets: list[int] = []
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(PARTITIONS * EACH):
        producer.produce(
            topic, b"x", partition=number % PARTITIONS, on_delivery=lambda _, message: offsets.append(message.offset())
        )
    assert producer.flush(30) == 0
    return offsets


def create_again(admin: KafkaAdminClient, make_topic: MakeTopic, topic: str) -> None:
    """Delete the topic, and create it at once."""
    admin.delete_topics([topic])
    make_topic(topic, partitions=PARTITIONS)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_members_read_on_in_the_new_topic(
    node: NodeProcess, admin: KafkaAdminClient, make_topic: MakeTopic, members: list[Member], family: type[Member]
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    member = family(node.bootstrap, topic, topic).start()
    members.append(member)
    for round_ in range(3):
        offsets = fill(node, topic)
        assert sorted(offsets) == sorted(list(range(round_ * EACH, (round_ + 1) * EACH)) * PARTITIONS)
        wanted = Counter(
            (partition, offset) for partition in range(PARTITIONS) for offset in range((round_ + 1) * EACH)
        )
        eventually(lambda wanted=wanted: Counter(member.read) == wanted or member.error is not None, WITHIN_S)
        assert member.error is None
        create_again(admin, make_topic, topic)


@pytest.mark.kafka
@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_java_members_read_on_in_the_new_topic(
    node: NodeProcess,
    admin: KafkaAdminClient,
    make_topic: MakeTopic,
    kafka_tools: KafkaTools,
    tmp_path: Path,
    protocol: str,
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    member = JavaMember(kafka_tools, node.bootstrap, topic, topic, tmp_path, protocol=protocol).start()
    try:
        for round_ in range(3):
            fill(node, topic)
            eventually(lambda count=(round_ + 1) * PARTITIONS * EACH: member.read >= count, WITHIN_S)
            create_again(admin, make_topic, topic)
    finally:
        member.leave()
    read: Counter[tuple[int, int]] = Counter()
    for event in member.named("records_consumed"):
        for part in event["partitions"]:
            offsets = range(part["minOffset"], part["maxOffset"] + 1)
            read.update((part["partition"], offset) for offset in offsets)
    assert read == Counter((partition, offset) for partition in range(PARTITIONS) for offset in range(3 * EACH))


@pytest.mark.kafka
@pytest.mark.timeout(180)
def test_kafkas_tools_read_on(
    node: NodeProcess, admin: KafkaAdminClient, make_topic: MakeTopic, kafka_tools: KafkaTools
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    fill(node, topic)
    create_again(admin, make_topic, topic)
    tools = JavaTools(kafka_tools, node.bootstrap)
    assert f"{topic}:0:{EACH}" in tools("get-offsets", "--topic", topic, "--time", "earliest")
    assert "esp.offset" not in tools(
        "configs", "--describe", "--all", "--entity-type", "topics", "--entity-name", topic
    )
    files = [str(file) for file in sorted((node.data_dir / "__cluster_metadata-0").glob("*.log"))]
    dumped = kafka_tools.run("dump-log", "--cluster-metadata-decoder", "--files", ",".join(files))
    assert dumped.returncode == 0, dumped.stderr
    about = [line for line in dumped.stdout.splitlines() if "esp.offset.floors.0" in line and topic in line]
    assert f"{EACH}:1 {EACH}:1" in about[-1], "offset and epoch of each partition, as their last leader said"
    assert '"leaderEpoch":1' in dumped.stdout
