"""Internal topics get replicas on brokers that come."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from esp.controller.internal_replication import decide_internal_replication
from esp.controller.reassignment import Reassignment, decide_reassignments
from esp.controller.topics import NewTopic
from esp.model.ids import UNASSIGNED_DIRECTORY, NodeId
from tests.unit.controller.samples import Cluster

TOPIC = "__consumer_offsets"
WANTED = {TOPIC: 3, "__transaction_state": 3}


def grown(cluster, wanted=WANTED):
    return cluster.decide(decide_internal_replication(cluster.image, wanted))


def offsets_topic(cluster, partitions=50, replication_factor=1):
    cluster.create(NewTopic(name=TOPIC, num_partitions=partitions, replication_factor=replication_factor))
    return cluster.image.topics_by_name[TOPIC].partitions


@given(st.integers(1, 4), st.integers(0, 3), st.integers(1, 20), st.integers(1, 4))
def test_each_partition_gets_what_the_cluster_can_hold_and_keeps_what_it_has(first, more, partitions, factor):
    cluster = Cluster(first)
    before = offsets_topic(cluster, partitions, min(first, factor))
    for number in range(more):
        cluster.start_broker(first + 1 + number)
    expected = min(factor, first + more)
    changed = grown(cluster, {TOPIC: factor})
    after = cluster.image.topics_by_name[TOPIC].partitions
    assert changed == (partitions if expected > min(first, factor) else 0)
    for old, new in zip(before, after, strict=True):
        assert len(set(new.replicas)) == len(new.replicas) == expected
        assert set(old.replicas) <= set(new.replicas)
        assert (new.isr, new.leader, new.leader_epoch) == (old.isr, old.leader, old.leader_epoch)
        assert len(new.directories) == expected
        for node, directory in zip(old.replicas, old.directories, strict=True):
            assert new.directories[new.replicas.index(node)] == directory
    assert grown(cluster, {TOPIC: factor}) == 0


def test_replicas_and_preferences_are_spread_evenly():
    cluster = Cluster(1)
    offsets_topic(cluster)
    for number in (2, 3, 4):
        cluster.start_broker(number)
    assert grown(cluster) == 50
    partitions = cluster.image.topics_by_name[TOPIC].partitions
    held = Counter(node for partition in partitions for node in partition.replicas)
    assert held[1] == 50
    assert max(held[node] for node in (2, 3, 4)) - min(held[node] for node in (2, 3, 4)) <= 1
    preferred = Counter(partition.replicas[0] for partition in partitions)
    assert max(preferred.values()) - min(preferred.values()) <= 1


def test_a_partition_that_is_being_reassigned_is_left_alone():
    cluster = Cluster(1)
    offsets_topic(cluster, partitions=2)
    for number in (2, 3):
        cluster.start_broker(number)
    cluster.decide(decide_reassignments(cluster.image, [Reassignment(TOPIC, 0, (NodeId(2),))]))
    moving = cluster.partition(TOPIC)
    assert grown(cluster) == 1
    assert cluster.partition(TOPIC) == moving
    assert len(cluster.partition(TOPIC, 1).replicas) == 3


def test_racks_are_mixed_before_one_is_used_twice():
    cluster = Cluster(1, racks=["a"])
    offsets_topic(cluster, 6)
    for number, rack in ((2, "a"), (3, "b"), (4, "c")):
        cluster.start_broker(number, rack=rack)
    grown(cluster)
    assert all(set(p.replicas) == {1, 3, 4} for p in cluster.image.topics_by_name[TOPIC].partitions)


def test_a_broker_that_does_not_serve_gets_nothing():
    cluster = Cluster(1)
    offsets_topic(cluster, 2)
    cluster.register(2)
    assert grown(cluster) == 0
    cluster.unfence(2)
    assert grown(cluster) == 2


def test_a_broker_with_several_directories_chooses_for_itself():
    cluster = Cluster(1, log_dirs=2)
    offsets_topic(cluster, 1)
    cluster.start_broker(2)
    grown(cluster)
    assert cluster.partition(TOPIC).directories[cluster.partition(TOPIC).replicas.index(2)] == UNASSIGNED_DIRECTORY


def test_topics_of_users_stay_as_they_are():
    cluster = Cluster(1)
    cluster.create(NewTopic(name="t", num_partitions=1, replication_factor=1))
    cluster.start_broker(2)
    assert grown(cluster) == 0
    assert cluster.partition("t").replicas == (1,)
