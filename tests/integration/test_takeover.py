"""Files are enough to move: Kafka takes over a directory of ours, and we take it back."""

from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import HOST, NodeProcess
from esp.testing.ports import free_port
from esp.testing.real_kafka import RealKafka
from tests.integration.conftest import eventually
from tests.integration.dump_log import dump
from tests.integration.dump_log import dump_here as ours

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


def run_transactions(kafka: NodeProcess) -> None:
    """Run two producers side by side: one aborts each of its transactions; at the end the other one's stays open."""
    producers = []
    for name in ("a", "b"):
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": name, "log_level": 0})
        producer.init_transactions(30)
        producers.append(producer)
    for number in range(12):
        for name, producer in zip("ab", producers, strict=True):
            producer.begin_transaction()
            producer.produce("t", f"{name}{number}", partition=0)
            assert producer.flush(30) == 0
        producers[0].abort_transaction(30)
        if number < 11:
            producers[1].commit_transaction(30)


def read_committed(node: NodeProcess) -> list[str]:
    """What a consumer of the partition sees, by a client that leaves aborted records out as the answers tell it."""
    settings = {
        "bootstrap.servers": node.bootstrap,
        "group.id": "committed",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "log_level": 0,
    }
    found: list[str] = []
    consumer = Consumer(settings)
    consumer.assign([RdPartition("t", 0, 0)])
    try:
        while True:
            message = consumer.poll(30)
            assert message is not None, found
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                return found
            found.append(message.value().decode())
    finally:
        consumer.close()


def index_bytes(data_dir: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in data_dir.glob("t-0/*.txnindex")}


def dumped(tools: KafkaTools, data_dir: Path) -> None:
    """Both tools print the same of the files, and find nothing wrong."""
    files = [path for path in sorted(data_dir.glob("t-0/*")) if path.suffix in (".log", ".txnindex", ".snapshot")]
    for options in ([], ["--print-data-log"]):
        assert ours(files, *options).splitlines() == dump(tools, files, *options).splitlines()


def test_transactions_of_kafka_are_read_by_us_and_go_back_unchanged(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    controller = f"{HOST}:{free_port()}"
    settings = {"controller.listener.names": "CONTROLLER", "controller.quorum.bootstrap.servers": controller}
    node = Node(data_dir, settings)
    node.settings["listeners"] = f"PLAINTEXT://{node.bootstrap},CONTROLLER://{controller}"
    kafka = RealKafka(data_dir, node.settings, node.port, tools=kafka_tools)
    committed = [f"b{number}" for number in range(11)]

    with node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(20)
    with kafka:
        run_transactions(kafka)
        assert read_committed(kafka) == committed
    written = index_bytes(data_dir)
    assert sum(map(len, written.values())) == 12 * 34
    dumped(kafka_tools, data_dir)
    with node:
        assert read_committed(node) == committed
        node.kill()
    assert index_bytes(data_dir) == written
    for path in data_dir.glob("t-0/*.txnindex"):
        path.unlink()  # as if the process had ended before it wrote the file
    with node:
        assert read_committed(node) == committed
    assert index_bytes(data_dir) == written
    dumped(kafka_tools, data_dir)
    with kafka:
        assert read_committed(kafka) == committed
