"""Leaders are killed, stopped and paused under an idempotent load with acks=all: nothing acknowledged is lost, doubled or reordered."""

import random

import pytest
from confluent_kafka import KafkaError, Producer

from esp.simulation.checkers.client_history import Outcome, check
from esp.testing.cluster import Cluster
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.cluster.observer import Observe
from tests.integration.conftest import eventually
from tests.integration.load import Load, read_everything

SILENT_HOST_S = 3 + 7
"""Seconds within which a paused node is replaced: a session, whether or not it led the quorum; the rest is the client's, and slack."""


def require_all_kept(cluster: Cluster, topic: str, load: Load) -> None:
    """Everything was acknowledged, and all of it is there once, in order, at its offsets."""
    assert load.errors == []
    assert {sent.outcome for sent in load.sent} == {Outcome.ACKED}
    assert check(load.sent, read_everything(cluster, topic)) == []


@pytest.mark.timeout(300)
def test_killed_leaders_lose_nothing(make_cluster: ClusterFactory, observe: Observe, topic: str) -> None:
    rng = random.Random(4)
    cluster = make_cluster()
    observer = observe(cluster)
    observer.create(topic, segment_bytes=1_048_576)
    with Load(cluster, topic) as load:
        for round_number in range(6):
            load.wait_for_acks(rng.randrange(300, 1500))
            leader = observer.leader(topic, round_number % 3)
            cluster.nodes[leader].kill()
            observer.wait_for_leader_other_than(leader, topic, round_number % 3)
            load.wait_for_acks(300)
            cluster.nodes[leader].start()
            observer.wait_until_whole(topic)
        load.finish()
    require_all_kept(cluster, topic, load)


@pytest.mark.timeout(300)
def test_rolling_restart_loses_nothing(make_cluster: ClusterFactory, observe: Observe, topic: str) -> None:
    cluster = make_cluster()
    observer = observe(cluster)
    observer.create(topic)
    with Load(cluster, topic) as load:
        for node in cluster.nodes.values():
            load.wait_for_acks(500)
            node.stop()
            load.wait_for_acks(500)
            node.start()
            observer.wait_until_whole(topic)
        load.finish()
    require_all_kept(cluster, topic, load)


@pytest.mark.timeout(300)
def test_a_paused_leader_does_no_harm_when_it_goes_on(
    make_cluster: ClusterFactory, observe: Observe, topic: str
) -> None:
    cluster = make_cluster(settings={"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"})
    observer = observe(cluster)
    observer.create(topic)
    with Load(cluster, topic, socket_timeout_ms=4000) as load:
        for partition in range(3):
            load.wait_for_acks(500)
            old = observer.leader(topic, partition)
            cluster.nodes[old].pause()
            try:
                observer.wait_for_leader_other_than(old, topic, partition)
                load.wait_for_acks(500)
            finally:
                cluster.nodes[old].resume()
            observer.wait_until_whole(topic)
        load.finish()
        assert load.longest_gap_s < SILENT_HOST_S, load.longest_gap_s
    require_all_kept(cluster, topic, load)


@pytest.mark.timeout(120)
def test_writes_with_acks_all_are_refused_below_the_least_in_sync_replicas_and_served_again(
    make_cluster: ClusterFactory, observe: Observe, topic: str
) -> None:
    cluster = make_cluster()
    observer = observe(cluster)
    observer.create(topic, 1, min_insync_replicas=3)
    follower = next(number for number in cluster.nodes if number != observer.leader(topic))
    settings = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "retries": 0, "message.timeout.ms": 20_000}
    results: list[KafkaError | None] = []

    def produce(value: bytes) -> KafkaError | None:
        producer = Producer(settings)
        producer.produce(topic, value, on_delivery=lambda error, _: results.append(error))
        assert producer.flush(30) == 0
        return results[-1]

    assert produce(b"before") is None
    cluster.nodes[follower].kill()
    eventually(lambda: follower not in observer.partitions(topic)[0].isr, 60)
    refused = produce(b"refused")
    assert refused is not None
    assert refused.code() in (KafkaError.NOT_ENOUGH_REPLICAS, KafkaError._MSG_TIMED_OUT)
    cluster.nodes[follower].start()
    observer.wait_until_whole(topic)
    assert produce(b"after") is None


@pytest.mark.timeout(180)
def test_a_cluster_whose_nodes_are_all_killed_comes_back_with_everything(
    make_cluster: ClusterFactory, observe: Observe, topic: str
) -> None:
    cluster = make_cluster()
    observer = observe(cluster)
    observer.create(topic)
    with Load(cluster, topic) as load:
        for _ in range(2):
            load.wait_for_acks(1000)
            for node in cluster.nodes.values():
                node.kill()
            cluster.start()
            observer.wait_until_whole(topic)
        load.finish()
    require_all_kept(cluster, topic, load)
