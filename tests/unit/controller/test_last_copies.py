from esp.controller.brokers import forced_removals, listed, partitions_last_on
from esp.model.ids import NodeId, TopicPartition
from tests.unit.controller.samples import Cluster

_ONE = NodeId(1)


def alone(cluster):
    return [str(name) for name in partitions_last_on(cluster.image, _ONE)]


def test_a_copy_is_the_last_one_whether_its_broker_is_alive_or_not():
    cluster = Cluster(3)
    cluster.create_partition(1, topic="one")
    cluster.create_partition(1, 2, topic="two")
    assert alone(cluster) == ["one-0"]
    cluster.fence(1)
    assert alone(cluster) == ["one-0"]


def test_who_left_the_in_sync_set_first_has_no_complete_copy():
    cluster = Cluster(2)
    cluster.create_partition(1, 2)
    cluster.fence(2)
    assert alone(cluster) == ["t-0"]
    cluster.fence(1)
    assert alone(cluster) == ["t-0"]


def test_an_eligible_replica_counts_as_a_complete_copy():
    cluster = Cluster(2, min_insync_replicas=2)
    cluster.create_partition(1, 2)
    cluster.fence(1)
    assert (cluster.partition("t").isr, cluster.partition("t").elr) == ((2,), (1,))
    assert alone(cluster) == []
    cluster.fence(2)
    assert alone(cluster) == []
    cluster.register(2)  # after an unclean stop
    assert alone(cluster) == ["t-0"]


def test_the_last_known_leader_counts_where_nobody_is_eligible():
    cluster = Cluster(2, min_insync_replicas=2)
    cluster.create_partition(1, 2)
    cluster.fence(2)
    cluster.register(2)
    cluster.fence(1)
    cluster.register(1)
    state = cluster.partition("t")
    assert (state.isr, state.elr, state.last_known_elr) == ((), (), (1,))
    assert alone(cluster) == ["t-0"]


def test_forced_removals_are_ids_in_a_list():
    cluster = Cluster(1)
    assert forced_removals(cluster.image) == ()
    cluster.set_cluster_config("broker.removal.forced", " 3 ,4,")
    assert forced_removals(cluster.image) == ("3", "4")


def test_a_long_list_of_partitions_is_cut_short():
    names = [TopicPartition("t", number) for number in range(12)]
    assert listed(names[:2]) == "t-0, t-1"
    assert listed(names).endswith("t-9 and 2 more")
