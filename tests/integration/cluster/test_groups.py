"""Groups on a cluster: their coordinator is killed, and the topic of their offsets grows with the cluster."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from esp.groups.partitioning import partition_for
from esp.testing.cluster import Cluster
from esp.testing.pytest_plugin import AGAINST_KAFKA, ClusterFactory
from tests.integration.cluster.observer import Observe, Observer
from tests.integration.conftest import eventually
from tests.integration.group_members import AiokafkaMember, ConfluentMember, Member, members_of_a_test

OFFSETS_TOPIC = "__consumer_offsets"
FOUND_WITHIN_S = 60
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "6"}
FAILOVER_S = 12 if AGAINST_KAFKA else 5
"""Within which a commit must succeed again, on a machine that is busy; a quiet one takes 0.1 to 0.6 s, Kafka a session (9 s)."""


@pytest.fixture
def members() -> Iterator[list[Member]]:
    """The test's members, all of which have left in the end."""
    yield from members_of_a_test()


def client(cluster: Cluster, group: str) -> Consumer:
    """A consumer that commits by itself."""
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
    )


def commit(consumer: Consumer, topic: str, offset: int) -> None:
    """Commit, again and again until that succeeds."""
    while True:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        except KafkaException:
            continue
        return


def coordinator(observer: Observer, group: str) -> int:
    """The node that coordinates a group."""
    partitions = observer.partitions(OFFSETS_TOPIC)
    return partitions[partition_for(group, len(partitions))].leader


@pytest.mark.timeout(300)
def test_offsets_and_members_outlive_their_coordinators(
    make_cluster: ClusterFactory, observe: Observe, topic: str, members: list[Member]
) -> None:
    cluster = make_cluster(settings=SETTINGS)
    observer = observe(cluster)
    observer.create(topic, partitions=6)
    # Not kafka-python's: it does not close the sockets of refused connections, of which Python warns.
    families = (ConfluentMember, AiokafkaMember, ConfluentMember)
    members += [family(cluster.bootstrap, topic, "g", session_ms=30_000).start() for family in families]
    eventually(lambda: sorted(len(member.assigned) for member in members) == [2, 2, 2], FOUND_WITHIN_S)
    assigned = [member.assigned for member in members]
    confluent = next(member for member in members if isinstance(member, ConfluentMember))
    rebalances = len(confluent.rebalances)
    alone = client(cluster, "alone")
    for offset in range(1, 4):
        commit(alone, topic, offset)
        dead = coordinator(observer, "alone")
        cluster.nodes[dead].kill()
        began = time.monotonic()
        (told,) = alone.committed([TopicPartition(topic, 0)], FOUND_WITHIN_S)
        assert told.offset == offset
        commit(alone, topic, offset + 100)
        assert time.monotonic() - began < FAILOVER_S
        alone.commit(offsets=[TopicPartition(topic, 0, offset + 200)], asynchronous=True)  # both on their way at once
        (told,) = alone.committed([TopicPartition(topic, 0)], FOUND_WITHIN_S)
        assert told.offset == offset + 200
        cluster.nodes[dead].start()
        observer.wait_until_whole(OFFSETS_TOPIC)
        dead = coordinator(observer, "g")
        cluster.nodes[dead].kill()
        observer.wait_for_leader_other_than(
            dead, OFFSETS_TOPIC, partition_for("g", len(observer.partitions(OFFSETS_TOPIC)))
        )
        cluster.nodes[dead].start()
        observer.wait_until_whole(OFFSETS_TOPIC)
    alone.close()
    assert [member.assigned for member in members] == assigned
    assert len(confluent.rebalances) == rebalances


@pytest.mark.skipif(AGAINST_KAFKA, reason="Kafka's internal topics do not grow")
@pytest.mark.timeout(200)
def test_the_offsets_topic_gets_the_replicas_that_the_cluster_can_hold(
    make_cluster: ClusterFactory, observe: Observe, topic: str
) -> None:
    cluster = make_cluster(1, settings=SETTINGS)
    observer = observe(cluster)
    observer.create(topic, partitions=1, replicas=1)
    consumer = client(cluster, "g")
    commit(consumer, topic, 7)
    assert {partition.replicas for partition in observer.partitions(OFFSETS_TOPIC).values()} == {frozenset({1})}
    for number in (2, 3):
        node = cluster.nodes[number] = cluster.make(number, roles="broker")
        node.format(cluster.cluster_id, "--no-initial-controllers")
        node.start()

    def is_whole() -> bool:
        partitions = observer.partitions(OFFSETS_TOPIC).values()
        return all(partition.replicas == partition.isr == {1, 2, 3} for partition in partitions)

    eventually(is_whole, FOUND_WITHIN_S)
    commit(consumer, topic, 8)
    consumer.close()
