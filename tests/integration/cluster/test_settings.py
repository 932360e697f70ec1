"""Settings of a cluster: changed through any broker, followed by all, agreed on by leaders and controller."""

from functools import partial

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from esp.testing.cluster import Cluster
from esp.testing.node_process import NodeProcess
from tests.integration.cluster.observer import Observe, Observer
from tests.integration.config_requests import BROKER, DELETE, FINE, SET, TOPIC, alter, describe
from tests.integration.conftest import eventually


@pytest.fixture
def observer(cluster: Cluster, observe: Observe) -> Observer:
    return observe(cluster)


def is_told(node: NodeProcess, topic: str, told: object) -> bool:
    return bool(describe(node, TOPIC, topic, "retention.ms") == told)


def test_settings_are_changed_through_any_broker_and_told_by_all(
    cluster: Cluster, observer: Observer, topic: str
) -> None:
    observer.create(topic, 1, 3)
    for number, node in cluster.nodes.items():
        assert alter(node, (TOPIC, topic, [("retention.ms", SET, f"{number}000")])) == [FINE]
        told = {"retention.ms": (f"{number}000", 1, [("retention.ms", f"{number}000", 1)])}
        for other in cluster.nodes.values():
            eventually(partial(is_told, other, topic, told))


def test_a_broker_changes_its_own_settings_and_no_other_s(cluster: Cluster) -> None:
    first, second = cluster.nodes[1], cluster.nodes[2]
    name = "log.segment.delete.delay.ms"
    refused = ("invalid_request", "Unexpected broker id, expected 2, but received 1")
    assert alter(second, (BROKER, "1", [(name, SET, "5000")])) == [refused]
    assert alter(first, (BROKER, "1", [(name, SET, "5000")])) == [FINE]
    eventually(lambda: describe(first, BROKER, "1", name)[name][:2] == ("5000", 2))
    assert describe(second, BROKER, "2", name)[name][:2] == ("60000", 5)
    assert alter(first, (BROKER, "1", [(name, DELETE, None)])) == [FINE]


def test_min_insync_replicas_counts_as_soon_as_it_is_changed(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 2, config={"min.insync.replicas": "2"})])[topic].result(30)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "message.timeout.ms": 3000})
    errors: list[object] = []

    def is_taken() -> bool:
        producer.produce(topic, b"x", on_delivery=lambda error, _message: errors.append(error))
        producer.flush(20)
        return errors.pop() is None

    try:
        eventually(is_taken, 30)
        leader = admin.list_topics(topic, 10).topics[topic].partitions[0]
        [follower] = set(leader.replicas) - {leader.leader}
        cluster.nodes[follower].kill()
        eventually(lambda: not is_taken(), 60)
        asked = cluster.nodes[leader.leader]
        assert alter(asked, (TOPIC, topic, [("min.insync.replicas", SET, "1")])) == [FINE]
        eventually(is_taken, 30)
        assert alter(asked, (TOPIC, topic, [("min.insync.replicas", SET, "2")])) == [FINE]
        eventually(lambda: not is_taken(), 30)
    finally:
        for node in cluster.nodes.values():
            if not node.is_running:
                node.start()
    eventually(is_taken, 60)
