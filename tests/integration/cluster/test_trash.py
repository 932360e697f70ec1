"""Topics on three real nodes are deleted and restored, as users do it: acknowledged records are there again, and committed offsets."""

import pytest
from confluent_kafka import Consumer, TopicPartition

from esp.cli.app import run_tools
from esp.simulation.checkers.client_history import Outcome, check
from esp.testing.cluster import Cluster
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.cluster.observer import Observe
from tests.integration.conftest import eventually
from tests.integration.load import Load, read_everything

SETTINGS = {
    "topic.trash.retention.ms": "3600000",
    "topic.trash.min.free.percent": "0",  # however full the disk of the machine is
    "auto.create.topics.enable": "false",
}
RECORDS = 1_000


def topics(cluster: Cluster, *arguments: str) -> None:
    """Run ``esp topics``."""
    assert run_tools(["topics", "--bootstrap-server", cluster.bootstrap, *arguments]) == 0


def committed(cluster: Cluster, topic: str) -> int:
    """The offset that the group has committed in partition 0."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": topic, "enable.auto.commit": False})
    try:
        [found] = consumer.committed([TopicPartition(topic, 0)], timeout=30)
        assert found.error is None
        return int(found.offset)
    finally:
        consumer.close()


def commit(cluster: Cluster, topic: str, offset: int) -> None:
    """Commit for the group."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": topic, "enable.auto.commit": False})
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("between", ["nothing", "a node is killed", "all nodes are restarted", "all nodes are killed"])
def test_what_was_acknowledged_is_there_again(
    make_cluster: ClusterFactory, observe: Observe, topic: str, between: str
) -> None:
    cluster = make_cluster(settings=SETTINGS)
    observer = observe(cluster)
    observer.create(topic)
    with Load(cluster, topic) as load:
        load.wait_for_acks(RECORDS)
        load.finish()
    commit(cluster, topic, 7)
    topics(cluster, "--delete", "--topic", topic)
    client = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "x"})
    eventually(lambda: topic not in client.list_topics(timeout=30).topics, timeout_s=30)
    if between == "a node is killed":
        cluster.nodes[2].kill()
    elif between == "all nodes are restarted":
        cluster.stop()
        cluster.start()
    elif between == "all nodes are killed":
        for node in cluster.nodes.values():
            node.kill()
        cluster.start()
    topics(cluster, "restore", topic)
    if between == "a node is killed":
        cluster.nodes[2].start()
    observer.wait_until_whole(topic)
    assert {sent.outcome for sent in load.sent} == {Outcome.ACKED}
    assert check(load.sent, read_everything(cluster, topic)) == []
    eventually(lambda: committed(cluster, topic) == 7, timeout_s=30)
    topics(cluster, "--delete", "--topic", topic)
    topics(cluster, "purge", topic)
    assert run_tools(["topics", "--bootstrap-server", cluster.bootstrap, "restore", topic]) == 1
    eventually(lambda: not any(_directories(cluster, topic)), timeout_s=120)


def _directories(cluster: Cluster, topic: str) -> list[str]:
    """Whatever is left of the topic on the disks of all nodes."""
    return [
        str(path)
        for node in cluster.nodes.values()
        for path in node.data_dir.iterdir()
        if path.name.startswith(f"{topic}-")
    ]
