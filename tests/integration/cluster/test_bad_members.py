"""Who does not belong to a cluster is refused with words that tell the operator what to do, and changes nothing."""

import shutil

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from esp.testing.cluster import Cluster
from esp.testing.node_process import NodeError, NodeProcess
from esp.testing.pytest_plugin import AGAINST_KAFKA, ClusterFactory
from tests.integration.cluster.observer import Observe
from tests.integration.cluster.quorum import active_controller
from tests.integration.conftest import eventually
from tests.integration.load import Load

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="our own messages")


def refusal(node: NodeProcess) -> str:
    """Start a node that cannot run like this and return what it said."""
    with pytest.raises(NodeError):
        node.start()
    message = node.stderr_path.read_text()
    assert node.exit_status == 1, message
    assert "Traceback" not in message, message
    return message


def require_kept_out(node: NodeProcess, *words: str) -> None:
    """Start a node that the others do not take: it says why, tries on, and serves nobody."""
    node.launch()
    try:
        eventually(lambda: all(word in node.stderr_path.read_text() for word in words), 30)
        assert "ready" not in node.stdout_path.read_text()
        assert "Traceback" not in node.stderr_path.read_text()
    finally:
        node.kill()


def require_service(cluster: Cluster, topic: str) -> None:
    with Load(cluster, topic) as load:
        load.wait_for_acks(200)
        load.finish()
    assert load.errors == []


@pytest.mark.timeout(120)
def test_a_broker_of_another_cluster_is_refused(make_cluster: ClusterFactory, observe: Observe, topic: str) -> None:
    cluster = make_cluster()
    observer = observe(cluster)
    observer.create(topic)
    stranger = cluster.make(4)
    stranger.format("AAAAAAAAAAAAAAAAAAAAAA")
    require_kept_out(stranger, "inconsistent_cluster_id", "correct controller.quorum.bootstrap.servers")
    assert len(observer.admin.list_topics(timeout=10).brokers) == 3
    require_service(cluster, topic)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("leads_the_quorum", [False, True])
def test_a_second_node_of_the_same_number_is_refused_while_the_first_lives(
    make_cluster: ClusterFactory, observe: Observe, topic: str, leads_the_quorum: bool
) -> None:
    cluster = make_cluster(4)
    observer = observe(cluster)
    observer.create(topic)
    leader_epochs = observer.partitions(topic)
    leader = active_controller(cluster)
    number = leader if leads_the_quorum else next(number for number in cluster.nodes if number != leader)
    twin = cluster.make(
        number,
        {"process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:0", "advertised.listeners": ""},
        name="twin",
    )
    twin.format(cluster.cluster_id)
    if leads_the_quorum:  # the twin takes the leader for itself, and does not get as far as to register
        require_kept_out(twin, f"no other node may have node.id {number}")
    else:
        require_kept_out(twin, f"another broker with node.id {number} is registered")
    assert observer.partitions(topic) == leader_epochs
    require_service(cluster, topic)


@pytest.mark.timeout(120)
def test_a_voter_with_an_empty_disk_must_be_formatted_and_does_not_vote(
    make_cluster: ClusterFactory, observe: Observe, topic: str
) -> None:
    cluster = make_cluster()
    observer = observe(cluster)
    observer.create(topic)
    victim = cluster.nodes[3]
    victim.stop()
    shutil.rmtree(victim.data_dir)
    message = refusal(victim)
    assert "is not formatted" in message
    assert "esp format --cluster-id" in message
    victim.format(cluster.cluster_id, "--no-initial-controllers")
    victim.start()
    observer.wait_until_whole(topic)
    require_service(cluster, topic)
    # its disk is not the voter that it was: of the three voters one is left, and nobody may commit (RAFT-45)
    cluster.nodes[1].stop()
    with pytest.raises(KafkaException):
        observer.make_all([NewTopic("uncommitted", 1, 1)], timeout_s=5)
    cluster.nodes[1].start()
    observer.create("committed", 1)


@pytest.mark.timeout(120)
def test_the_disk_of_another_voter_or_cluster_is_refused(
    make_cluster: ClusterFactory, observe: Observe, topic: str
) -> None:
    cluster = make_cluster()
    observer = observe(cluster)
    observer.create(topic)
    before = observer.partitions(topic)
    cluster.nodes[3].stop()
    copied = cluster.make(3, name="copied")
    shutil.copytree(cluster.nodes[2].data_dir, copied.data_dir)
    assert "node.id" in refusal(copied)
    foreign = cluster.make(3, name="foreign")
    foreign.format("AAAAAAAAAAAAAAAAAAAAAA", "--no-initial-controllers")
    require_kept_out(foreign, "inconsistent_cluster_id", "it belongs to another cluster")
    cluster.nodes[3].start()
    observer.wait_until_whole(topic)
    assert {number: one.replicas for number, one in observer.partitions(topic).items()} == {
        number: one.replicas for number, one in before.items()
    }
    require_service(cluster, topic)
