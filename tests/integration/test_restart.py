"""An orderly stop and a start keep everything, and what a stopped node leaves behind satisfies Kafka's dump-log."""

import re
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from esp.simulation.checkers.client_history import Read, check
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import NodeFactory
from esp.testing.segment_files import read_batch_headers, segment_paths
from tests.integration.dump_log import check_files, dump, dumpable_files
from tests.integration.load import Load, read_everything

SMALLEST_SEGMENT = "1048576"


def create(node: NodeProcess, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    new = NewTopic(topic, partitions, 1, config={name.replace("_", "."): value for name, value in config.items()})
    admin.create_topics([new])[topic].result(20)


def fill(node: NodeProcess, topic: str, records: int, size: int, **settings: object) -> None:
    """Write records of which some compress; every partition gets its share."""
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 5, "log_level": 0, **settings})
    for i in range(records):
        producer.produce(topic, b"%d " % i + bytes(range(256)) * (size // 256), b"%d" % i)
        producer.poll(0)
    assert producer.flush(60) == 0


def sorted_records(node: NodeProcess, topic: str) -> list[Read]:
    return sorted(read_everything(node, topic))


def test_writer_goes_on_over_orderly_restarts(fresh_node: NodeFactory, topic: str) -> None:
    node = fresh_node()
    create(node, topic, 3)
    with Load(node, topic) as load:
        for _ in range(2):
            load.wait_for_acks(500)
            node.restart()
        load.wait_for_acks(500)
        load.finish()
    assert load.errors == []
    assert check(load.sent, read_everything(node, topic)) == []
    headers = [header for partition in range(3) for header in read_batch_headers(node.log_dirs, topic, partition)]
    assert len({header.producer_id for header in headers}) == 1, "the producer had to begin anew"


def test_topics_settings_and_ids_outlast_a_restart(fresh_node: NodeFactory) -> None:
    node = fresh_node()
    create(node, "kept", 4, retention_ms="123456")
    create(node, "deleted")
    fill(node, "kept", 100, 0)
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    admin.delete_topics(["deleted"])["deleted"].result(20)

    def describe() -> tuple[object, ...]:
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        metadata = admin.list_topics(timeout=20)
        resource = ConfigResource(ResourceType.TOPIC, "kept")
        settings = {
            name: entry.value for name, entry in admin.describe_configs([resource])[resource].result(20).items()
        }
        ids = {path.parent.name: path.read_text() for path in node.data_dir.glob("kept-*/partition.metadata")}
        partitions = {name: sorted(topic.partitions) for name, topic in metadata.topics.items() if name[0] != "_"}
        return metadata.cluster_id, partitions, settings, ids

    before = describe()
    assert before[1] == {"kept": [0, 1, 2, 3]}
    assert before[2]["retention.ms"] == "123456"
    assert len(before[3]) == 4
    read = sorted_records(node, "kept")
    node.restart()
    assert describe() == before
    assert sorted_records(node, "kept") == read
    node.kill()
    node.start()
    assert describe() == before
    assert sorted_records(node, "kept") == read


@pytest.mark.kafka
@pytest.mark.parametrize("ending", ["stopped", "killed, recovered and stopped"])
def test_dump_log_reads_all_files_of_a_stopped_node(
    fresh_node: NodeFactory, kafka_tools: KafkaTools, tmp_path: Path, ending: str
) -> None:
    log_dirs = [tmp_path / "disk1", tmp_path / "disk2"]
    node = fresh_node({"log.dirs": ",".join(str(path) for path in log_dirs)})
    create(node, "rolled", 2, segment_bytes=SMALLEST_SEGMENT)
    create(node, "stamped", 1, message_timestamp_type="LogAppendTime")
    create(node, "by-time", 1, segment_ms="1000")
    create(node, "empty", 3)
    fill(node, "rolled", 1500, 4096, **{"enable.idempotence": True})
    fill(node, "rolled", 1500, 4096, **{"compression.type": "zstd", "enable.idempotence": True})
    fill(node, "rolled", 300, 4096, **{"compression.type": "lz4"})
    fill(node, "stamped", 500, 1024, **{"compression.type": "gzip"})
    fill(node, "by-time", 10, 0)
    time.sleep(1.1)  # the time that segment.ms names has to go by for the next batch to roll
    fill(node, "by-time", 10, 0)
    if ending != "stopped":
        node.kill()
        node.start()
        fill(node, "rolled", 100, 4096)
    node.stop()

    assert len(segment_paths(log_dirs, "rolled")) > 2
    assert len(segment_paths(log_dirs, "by-time")) == 2
    assert all(list(directory.glob("*-*")) for directory in log_dirs), "both directories hold partitions"
    data, metadata = check_files(kafka_tools, log_dirs)

    counts = Counter(re.findall(r"^Dumping .*/([a-z-]+)-\d+/\d+\.log$", data, re.MULTILINE))
    assert counts["rolled"] > 4
    assert counts["empty"] == 3
    assert len(re.findall(r"^\| offset: ", data, re.MULTILINE)) == 3300 + 500 + 20 + (100 if ending != "stopped" else 0)
    assert re.search(r"producerId: \d+ producerEpoch: 0", data), "no producer state in a snapshot"
    assert dumpable_files(log_dirs, metadata=False) != []
    for record in (
        "REGISTER_BROKER_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "PRODUCER_IDS_RECORD",
    ):
        assert f'"type":"{record}"' in metadata
    indexes = [path for path in dumpable_files(log_dirs, metadata=False) if path.suffix.endswith("index")]
    dump(kafka_tools, indexes, "--index-sanity-check")
