"""Topics on three real nodes are deleted and restored, as users do it: acknowledged records are there again, and committed offsets."""

import json

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

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


@pytest.mark.timeout(300)
def test_a_topic_whose_last_replica_is_away_waits_for_it_and_the_command_says_so(
    make_cluster: ClusterFactory, observe: Observe, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = make_cluster(nodes=2, settings=SETTINGS, brokers_only=(2,))
    observer = observe(cluster)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, replica_assignment=[[2], [1]], num_partitions=2)])[topic].result(30)
    with Load(cluster, topic) as load:
        load.wait_for_acks(RECORDS)
        load.finish()
    topics(cluster, "--delete", "--topic", topic)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    assert run_tools(["topics", "--bootstrap-server", cluster.bootstrap, "restore", topic]) == 1
    assert f"There is another topic named '{topic}'" in _said(capsys)
    topics(cluster, "--delete", "--topic", topic)
    topics(cluster, "trash", "--json")
    [first, _second] = json.loads(capsys.readouterr().out)
    cluster.nodes[2].kill()
    bootstrap = f"{cluster.nodes[1].host}:{cluster.nodes[1].port}"
    arguments = ["topics", "--bootstrap-server", bootstrap, "restore", first["id"]]

    remove = ["brokers", "remove", "2", "--bootstrap-server", bootstrap]

    def is_kept_for_the_trash() -> bool:
        assert run_tools(remove) == 1
        return f"in the trash: {topic}-0" in _said(capsys)

    eventually(is_kept_for_the_trash, timeout_s=60)  # not before it counts as dead
    assert run_tools([*remove, "--force"]) == 0
    _said(capsys)
    assert run_tools(arguments) == 1
    assert "No broker is registered that was in sync with partition 0" in _said(capsys)
    assert run_tools([*arguments, "--force"]) == 0
    assert "no complete replica is left of 1 partitions (0)" in _said(capsys)
    cluster.nodes[2].start()
    observer.wait_until_whole(topic)
    assert check(load.sent, read_everything(cluster, topic)) == []
    topics(cluster, "--delete", "--topic", topic)
    cluster.nodes[2].kill()
    assert run_tools(arguments) == 0
    assert "1 partitions have no leader (0)" in _said(capsys)
    assert run_tools(["get-offsets", "--bootstrap-server", bootstrap, "--topic", topic]) == 1
    assert f"left out, as their leaders do not answer (there is none): {topic}:0" in _said(capsys)
    cluster.nodes[2].start()
    observer.wait_until_whole(topic)
    assert check(load.sent, read_everything(cluster, topic)) == []


def _said(capsys: pytest.CaptureFixture[str]) -> str:
    """All that commands have printed to stderr since, in one line."""
    return " ".join(capsys.readouterr().err.split())


def _directories(cluster: Cluster, topic: str) -> list[str]:
    """Whatever is left of the topic on the disks of all nodes."""
    return [
        str(path)
        for node in cluster.nodes.values()
        for path in node.data_dir.iterdir()
        if path.name.startswith(f"{topic}-")
    ]
