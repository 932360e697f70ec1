from esp.model.ids import TopicPartition
from esp.rebalance.cluster import FOLLOWER_THROTTLED_REPLICAS, LEADER_THROTTLED_REPLICAS, Reassignment
from esp.rebalance.throttles import brokers_of, copying_now, copying_with, throttled_replicas

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_old_replicas_are_slowed_as_leaders_and_new_ones_as_followers() -> None:
    copying = copying_with({}, {A0: (1, 2), A1: (2, 3), B0: (1,)}, {A0: (3, 2), A1: (2, 1), B0: (1, 2)})
    assert throttled_replicas(copying) == {
        "a": {LEADER_THROTTLED_REPLICAS: "0:1,0:2,1:2,1:3", FOLLOWER_THROTTLED_REPLICAS: "0:3,1:1"},
        "b": {LEADER_THROTTLED_REPLICAS: "0:1", FOLLOWER_THROTTLED_REPLICAS: "0:2"},
    }
    assert brokers_of(copying) == {1, 2, 3}


def test_partition_that_moves_already_keeps_its_sources() -> None:
    now = copying_now({A0: Reassignment((4, 2, 1), frozenset({4}), frozenset({1}))})
    found = copying_with(now, {A0: (4, 2, 1), B0: (1,)}, {A0: (3, 2), B0: (2,)})
    assert found[A0] == (frozenset({1, 2}), frozenset({3}))
    assert found[B0] == (frozenset({1}), frozenset({2}))


def test_what_moves_otherwise_stays_throttled() -> None:
    now = copying_now({A1: Reassignment((4, 2), frozenset({4}), frozenset({2}))})
    lists = throttled_replicas(copying_with(now, {A0: (1,)}, {A0: (3,)}))["a"]
    assert lists == {LEADER_THROTTLED_REPLICAS: "0:1,1:2", FOLLOWER_THROTTLED_REPLICAS: "0:3,1:4"}
