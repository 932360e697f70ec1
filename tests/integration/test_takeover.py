"""Files are enough to move: Kafka takes over a directory of ours, and we take it back."""

from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import HOST, NodeProcess
from esp.testing.ports import free_port
from esp.testing.real_kafka import RealKafka
from tests.integration.conftest import eventually

pytestmark = pytest.mark.kafka

OFFSETS_TOPIC = "__consumer_offsets"


def fill(node: NodeProcess, start: int) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True, "log_level": 0})
    for i in range(start, start + 500):
        producer.produce("t", b"%d" % i, b"k%d" % (i % 5))
    assert producer.flush(30) == 0


def check(node: NodeProcess, records: int) -> None:
    """The topic is as it was created and holds the numbers from 0 on."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    eventually(lambda: "t" in admin.list_topics(timeout=20).topics, timeout_s=20)
    resource = ConfigResource(ResourceType.TOPIC, "t")
    assert admin.describe_configs([resource])[resource].result(20)["retention.ms"].value == "123456789"
    # without a group, which this release does not serve
    with closing(KafkaConsumer(bootstrap_servers=node.bootstrap, consumer_timeout_ms=20_000)) as consumer:
        partitions = [TopicPartition("t", partition) for partition in range(3)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        assert sorted(int(record.value) for record in islice(consumer, records)) == list(range(records))
        assert sum(consumer.end_offsets(partitions).values()) == records


def commit_as_a_group(kafka: NodeProcess) -> None:
    """Have Kafka create its offsets topic, a compacted one, and keep an offset in it."""
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    with closing(KafkaConsumer("t", bootstrap_servers=kafka.bootstrap, group_id="g", **settings)) as consumer:
        next(iter(consumer))
        consumer.commit({TopicPartition("t", 0): OffsetAndMetadata(7, "", -1)})


def check_group(node: NodeProcess) -> None:
    """The group's offset is the one that it committed."""
    with closing(KafkaConsumer(bootstrap_servers=node.bootstrap, group_id="g", enable_auto_commit=False)) as consumer:
        assert consumer.committed(TopicPartition("t", 0)) == 7


def check_offsets_topic(ours: NodeProcess) -> None:
    """All of the topic is served, and nothing of it was put aside."""
    admin = AdminClient({"bootstrap.servers": ours.bootstrap, "log_level": 0})
    partitions = admin.list_topics(OFFSETS_TOPIC, timeout=20).topics[OFFSETS_TOPIC].partitions
    assert len(partitions) == 50
    assert all(partition.error is None for partition in partitions.values())


def test_kafka_takes_over_our_directory_and_we_take_it_back(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    controller = f"{HOST}:{free_port()}"
    settings = {"controller.listener.names": "CONTROLLER", "controller.quorum.bootstrap.servers": controller}
    ours = Node(data_dir, settings)
    ours.settings["listeners"] = f"PLAINTEXT://{ours.bootstrap},CONTROLLER://{controller}"
    kafka = RealKafka(data_dir, ours.settings, ours.port, tools=kafka_tools)

    with ours:
        admin = AdminClient({"bootstrap.servers": ours.bootstrap, "log_level": 0})
        new = NewTopic("t", 3, 1, config={"retention.ms": "123456789", "segment.bytes": "1048576"})
        admin.create_topics([new])["t"].result(20)
        fill(ours, 0)
        check(ours, 500)
    with kafka:
        check(kafka, 500)
        fill(kafka, 500)
        check(kafka, 1000)
        commit_as_a_group(kafka)
    with ours:
        check(ours, 1000)
        check_offsets_topic(ours)
        check_group(ours)
        fill(ours, 1000)
        check(ours, 1500)
    with kafka:
        check(kafka, 1500)
        check_group(kafka)
