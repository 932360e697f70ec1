"""Snapshots of the metadata: who was away while the log before one was deleted catches up by FetchSnapshot."""

from pathlib import Path

import pytest

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import AGAINST_KAFKA, ClusterFactory
from tests.integration.cluster.observer import Observe
from tests.integration.cluster.quorum import active_controller
from tests.integration.conftest import eventually
from tests.integration.dump_log import check_files

OFTEN = {"metadata.log.max.record.bytes.between.snapshots": "2000", "metadata.max.retention.bytes": "0"}
TOPICS = 40


def snapshots(node: NodeProcess) -> list[Path]:
    """The snapshots of a node, oldest first."""
    return sorted((node.data_dir / "__cluster_metadata-0").glob("*.checkpoint"))


def end_offset(snapshot: Path) -> int:
    return int(snapshot.name.partition("-")[0])


@pytest.mark.timeout(180)
@pytest.mark.kafka
@pytest.mark.skipif(AGAINST_KAFKA, reason="Kafka looks only once a minute for what it need not keep")
def test_a_node_that_is_far_behind_catches_up_by_a_snapshot(
    make_cluster: ClusterFactory, observe: Observe, topic: str, kafka_tools: KafkaTools
) -> None:
    cluster = make_cluster(settings=OFTEN)
    observer = observe(cluster)
    observer.create(topic)
    away = next(number for number in cluster.nodes if number != active_controller(cluster))
    cluster.nodes[away].stop()
    observer = observe(
        cluster
    )  # librdkafka waits for the broker that it was told is the controller, which may be the one that is gone
    there = [node for number, node in cluster.nodes.items() if number != away]
    last_seen = max(map(end_offset, snapshots(cluster.nodes[away])))
    for number in range(TOPICS):
        observer.make(f"{topic}-{number}", 1, 2)
    eventually(lambda: all(end_offset(snapshots(node)[0]) > last_seen + TOPICS for node in there), 20)
    cluster.nodes[away].start()
    observer.wait_until_whole(topic)
    assert end_offset(snapshots(cluster.nodes[away])[0]) > last_seen + TOPICS, "it was fetched"
    found = observer.admin.list_topics(timeout=10).topics
    assert {name for name in found if name.startswith(topic)} == {topic, *(f"{topic}-{n}" for n in range(TOPICS))}
    cluster.nodes[away].kill()
    cluster.nodes[away].start()
    observer.wait_until_whole(topic)
    cluster.stop()
    for node in cluster.nodes.values():
        _, metadata = check_files(kafka_tools, node.log_dirs)
        assert "SnapshotHeader" in metadata
        assert "SnapshotFooter" in metadata
        assert "TOPIC_RECORD" in metadata
