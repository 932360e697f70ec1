"""Kafka's own Java tools against a running node: those that write and read. What they print is checked, not their exit status."""

import json
import re
import time

import pytest

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeProcess
from esp.testing.segment_files import read_batch_headers
from tests.integration.conftest import MakeTopic
from tests.integration.java_tools import JavaTools
from tests.integration.samples import CODECS

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def tools(kafka_tools: KafkaTools, node: NodeProcess) -> JavaTools:
    """Kafka's tools for the shared node."""
    return JavaTools(kafka_tools, node.bootstrap)


def test_topic_is_created_listed_described_and_deleted(tools: JavaTools, topic: str) -> None:
    topic = topic.replace("_", "-")  # with underscores the tool warns of metric names
    created = tools("topics", "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=123456")
    assert created.strip() == f"Created topic {topic}."
    assert topic in tools("topics", "--list").split()
    described = tools("topics", "--describe", "--topic", topic)
    assert re.search(
        rf"Topic: {topic}\tTopicId: \S{{22}}\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: .*retention.ms=123456",
        described,
    )
    for partition in range(3):
        assert re.search(rf"Partition: {partition}\tLeader: 1\tReplicas: 1\tIsr: 1", described)
    refused = tools.refused("topics", "--create", "--topic", topic)
    assert f"Topic '{topic}' already exists" in refused
    tools("topics", "--delete", "--topic", topic)
    assert topic not in tools("topics", "--list").split()
    assert "does not exist as expected" in tools.refused("topics", "--describe", "--topic", topic)


@pytest.mark.parametrize("codec", CODECS)
def test_console_producer_writes_what_console_consumer_reads(
    tools: JavaTools, node: NodeProcess, make_topic: MakeTopic, codec: str
) -> None:
    topic = make_topic()
    lines = [f"h:{i}\tk{i % 7}\tvalue {i} of many" for i in range(300)]
    tools(
        "console-producer",
        *("--topic", topic, "--compression-codec", codec),
        *("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"),
        stdin="\n".join(lines),
    )
    printed = tools(
        "console-consumer",
        *("--topic", topic, "--partition", "0", "--offset", "0", "--max-messages", "300", "--timeout-ms", "20000"),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true"),
        *("--formatter-property", "print.offset=true"),
    )
    assert printed.splitlines() == [f"Offset:{i}\t{line}" for i, line in enumerate(lines)]
    headers = read_batch_headers(node.log_dirs, topic)
    assert {header.codec for header in headers} == {CODECS[codec]}
    assert headers[0].producer_id >= 0, "the console producer is idempotent"


def test_console_consumer_starts_in_the_middle_of_a_batch(tools: JavaTools, make_topic: MakeTopic) -> None:
    topic = make_topic()
    tools("console-producer", "--topic", topic, stdin="\n".join(f"{i}" for i in range(100)))
    where = ("--topic", topic, "--partition", "0", "--offset", "97", "--max-messages", "3", "--timeout-ms", "20000")
    for isolation in ("read_uncommitted", "read_committed"):
        printed = tools("console-consumer", *where, "--isolation-level", isolation)
        assert printed.split() == ["97", "98", "99"]


def test_offsets_are_listed_for_every_kind_of_time(tools: JavaTools, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    before_ms = time.time_ns() // 1_000_000
    tools(
        "console-producer",
        *("--topic", topic, "--reader-property", "parse.key=true"),
        stdin="\n".join(f"k{i}\t{i}" for i in range(50)),
    )

    def offsets(when: str) -> dict[int, int]:
        lines = tools("get-offsets", "--topic", topic, "--time", when).split()
        parts = [line.split(":") for line in lines]
        assert all(part[0] == topic for part in parts)
        return {int(part[1]): int(part[2]) for part in parts}

    latest = offsets("-1")
    assert sum(latest.values()) == 50
    assert offsets("latest") == latest
    assert offsets("-2") == offsets("earliest") == {0: 0, 1: 0}
    max_timestamp = offsets("-3")
    assert all(0 <= max_timestamp[partition] < latest[partition] for partition in (0, 1))
    assert offsets(str(before_ms - 1)) == {0: 0, 1: 0}
    assert offsets(str(before_ms + 3_600_000)) == {}


def test_perf_producer_writes_every_record(tools: JavaTools, node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    printed = tools(
        "producer-perf-test",
        *("--topic", topic, "--num-records", "20000", "--record-size", "1000", "--throughput", "-1"),
        *("--command-property", "acks=all", "--command-property", "batch.size=131072"),
    )
    assert "20000 records sent" in printed
    assert sum(header.record_count for header in read_batch_headers(node.log_dirs, topic)) == 20_000
    assert tools("get-offsets", "--topic", topic).strip() == f"{topic}:0:20000"


@pytest.mark.parametrize("acks", ["0", "1", "-1"])
def test_verifiable_producer_sees_every_record_acknowledged(tools: JavaTools, make_topic: MakeTopic, acks: str) -> None:
    topic = make_topic()
    printed = tools("verifiable-producer", "--topic", topic, "--max-messages", "500", "--acks", acks)
    events = [json.loads(line) for line in printed.splitlines()]
    assert [event["name"] for event in events].count("producer_send_success") == 500
    [totals] = [event for event in events if event["name"] == "tool_data"]
    assert (totals["sent"], totals["acked"]) == (500, 500)
    assert tools("get-offsets", "--topic", topic).strip() == f"{topic}:0:500"


def test_every_advertised_api_is_one_that_kafka_knows(tools: JavaTools, node: NodeProcess) -> None:
    printed = tools("broker-api-versions")
    assert f"{node.bootstrap} (id: 1 rack: null isFenced: false) -> (" in printed
    assert "UNKNOWN(" not in printed
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", printed)
    assert re.search(r"Fetch\(1\): 4 to 18 \[usable: 18\]", printed)
    assert re.search(r"ApiVersions\(18\): 0 to 4 \[usable: 4\]", printed)


def test_settings_are_described(tools: JavaTools, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms=123_456)
    of_topic = tools("configs", "--describe", "--entity-type", "topics", "--entity-name", topic)
    assert "retention.ms=123456 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=123456" in of_topic
    of_node = tools("configs", "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1")
    assert re.search(r"log\.segment\.bytes=1073741824 sensitive=false", of_node)
