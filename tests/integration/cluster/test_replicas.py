"""After quiescence the replicas of a partition are the same bytes, and Kafka's dump-log has no complaint about any file."""

from pathlib import Path

import pytest

from esp.testing.cluster import Cluster
from esp.testing.kafka_tools import KafkaTools
from esp.testing.pytest_plugin import ClusterFactory
from esp.testing.segment_files import segment_paths
from tests.integration.cluster.observer import Observe
from tests.integration.dump_log import check_files
from tests.integration.load import Load

PARTITIONS = 3


def replicas(cluster: Cluster, topic: str, partition: int) -> list[bytes]:
    """The log of each replica: its segments, one after another."""
    return [
        b"".join(path.read_bytes() for path in segment_paths(node.log_dirs, topic, partition))
        for node in cluster.nodes.values()
    ]


def tree(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.timeout(240)
def test_replicas_are_byte_identical_and_their_files_sound(
    make_cluster: ClusterFactory, observe: Observe, topic: str, kafka_tools: KafkaTools
) -> None:
    cluster = make_cluster()
    observer = observe(cluster)
    observer.create(topic, PARTITIONS, segment_bytes=1_048_576)
    with Load(cluster, topic, padding=2000) as load:
        for number in (1, 2):
            load.wait_for_acks(800)
            cluster.nodes[number].kill()
            load.wait_for_acks(800)
            cluster.nodes[number].start()
            observer.wait_until_whole(topic)
        load.finish()
    observer.wait_until_whole(topic)
    cluster.stop()
    for partition in range(PARTITIONS):
        logs = replicas(cluster, topic, partition)
        assert len(logs) == 3
        assert logs[0] == logs[1] == logs[2], [len(log) for log in logs]
        assert len(logs[0]) > 100_000
    metadata = []
    for node in cluster.nodes.values():
        _, printed = check_files(kafka_tools, node.log_dirs)
        metadata.append(printed)
    assert all("TOPIC_RECORD" in printed for printed in metadata)


@pytest.mark.timeout(120)
def test_metadata_logs_are_byte_identical(make_cluster: ClusterFactory, observe: Observe, topic: str) -> None:
    cluster = make_cluster()
    observe(cluster).create(topic)
    cluster.stop()
    logs = sorted(replicas(cluster, "__cluster_metadata", 0), key=len)
    assert logs[2].startswith(logs[0])
    assert logs[2].startswith(logs[1])
    assert len(logs[0]) > 1000
