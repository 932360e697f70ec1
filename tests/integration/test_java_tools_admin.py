"""Kafka's own Java tools against a running node: those of administrators."""

import json
import re
from pathlib import Path

import pytest
from confluent_kafka import Producer

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeProcess
from tests.integration.conftest import MakeTopic
from tests.integration.java_tools import JavaTools

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def tools(kafka_tools: KafkaTools, node: NodeProcess) -> JavaTools:
    """Kafka's tools for the shared node."""
    return JavaTools(kafka_tools, node.bootstrap)


def fill(node: NodeProcess, topic: str, count: int = 10) -> None:
    """Write ``count`` records to partition 0."""
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(30) == 0


def test_topic_gains_partitions(tools: JavaTools, make_topic: MakeTopic, topic: str) -> None:
    name = make_topic(topic.replace("_", "-"))
    tools("topics", "--alter", "--topic", name, "--partitions", "3")
    assert f"Topic: {name}\tPartition: 2\tLeader: 1" in tools("topics", "--describe", "--topic", name)
    refused = tools.refused("topics", "--alter", "--topic", name, "--partitions", "2")
    assert "InvalidPartitionsException: The topic" in refused
    assert "currently has 3 partition(s); 2 would not be an increase" in refused


def test_settings_of_topics_are_added_and_deleted(tools: JavaTools, make_topic: MakeTopic) -> None:
    topic = make_topic(segment_ms=5_000)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    throttled = "leader.replication.throttled.replicas=[0:1,1:1]"
    completed = f"Completed updating config for topic {topic}."
    done = tools(
        "configs",
        "--alter",
        *entity,
        "--add-config",
        f"retention.ms=123456,{throttled}",
        "--delete-config",
        "segment.ms",
    )
    assert done.strip() == completed
    described = tools("configs", "--describe", *entity)
    assert "retention.ms=123456 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=123456" in described
    assert "leader.replication.throttled.replicas=0:1,1:1 sensitive=false" in described
    assert "segment.ms" not in described
    refused = tools.said("configs", "--alter", *entity, "--add-config", "retention.ms=soon")
    assert "InvalidConfigurationException: Invalid value soon for configuration retention.ms" in refused
    unknown = tools.said("configs", "--alter", *entity, "--add-config", "no.such=1")
    assert "InvalidConfigurationException: Unknown topic config name: no.such" in unknown


@pytest.mark.parametrize(
    ("kind", "name", "told"),
    [
        ("brokers", "1", "log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2"),
        ("groups", "g", "consumer.session.timeout.ms=50000 sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:"),
    ],
    ids=["brokers", "groups"],
)
def test_settings_of_brokers_and_groups_are_added_and_deleted(
    tools: JavaTools, kind: str, name: str, told: str
) -> None:
    entity = ("--entity-type", kind, "--entity-name", name)
    setting = told.split(maxsplit=1)[0]
    changed, without_value = f"Completed updating config for {kind[:-1]} {name}.", setting.split("=")[0]
    assert tools("configs", "--alter", *entity, "--add-config", setting).strip() == changed
    assert told in tools("configs", "--describe", *entity)
    assert tools("configs", "--alter", *entity, "--delete-config", without_value).strip() == changed
    assert without_value not in tools("configs", "--describe", *entity)


def test_records_are_deleted_and_directories_told(
    tools: JavaTools, node: NodeProcess, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    fill(node, topic)
    wanted = tmp_path / "offsets.json"
    partitions = [{"topic": topic, "partition": 0, "offset": 4}, {"topic": topic, "partition": 1, "offset": 7}]
    wanted.write_text(json.dumps({"partitions": partitions, "version": 1}))
    deleted = tools.said("delete-records", "--offset-json-file", str(wanted))
    assert f"partition: {topic}-0\tlow_watermark: 4" in deleted
    assert re.search(rf"partition: {topic}-1\terror: .*OffsetOutOfRangeException", deleted)
    told = tools("log-dirs", "--describe", "--topic-list", topic)
    (line,) = (line for line in told.splitlines() if line.startswith("{"))
    (broker,) = json.loads(line)["brokers"]
    (directory,) = broker["logDirs"]
    assert (broker["broker"], directory["error"], directory["logDir"]) == (1, None, str(node.log_dirs[0]))
    sizes = {each["partition"]: each["size"] for each in directory["partitions"]}
    assert sizes[f"{topic}-0"] > 0
    assert sizes[f"{topic}-1"] == 0


def test_election_that_is_not_needed_is_told(tools: JavaTools, make_topic: MakeTopic) -> None:
    place = ("--topic", make_topic(), "--partition", "0")
    preferred = tools("leader-election", "--election-type", "preferred", *place)
    assert "Valid replica already elected for partitions" in preferred


def test_quorum_of_one_is_described(tools: JavaTools) -> None:
    status = tools("metadata-quorum", "describe", "--status")
    assert re.search(r"^LeaderId:\s+1$", status, re.MULTILINE)
    assert re.search(r"^MaxFollowerLag:\s+0$", status, re.MULTILINE)
    replication = tools("metadata-quorum", "describe", "--replication")
    (row,) = (line.split() for line in replication.splitlines()[1:] if line.strip())
    assert (row[0], row[3], row[-1]) == ("1", "0", "Leader")


def test_features_are_described(tools: JavaTools) -> None:
    described = tools("features", "describe")
    assert re.search(
        r"Feature: metadata\.version\s+SupportedMinVersion: \S+\s+SupportedMaxVersion: 4\.3-IV0", described
    )
    assert re.search(
        r"Feature: transaction\.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 2\s+FinalizedVersionLevel: 2",
        described,
    )
