"""Where the replicas of drained brokers go."""

from esp.model.ids import NodeId
from esp.placement.intents import Drain
from esp.placement.limits import Limits
from esp.placement.planner import make_plan
from tests.unit.placement.clusters import MB, after, cluster, partition, random_cluster


def _drain(view, *nodes):
    return make_plan(view, Drain(tuple(map(NodeId, nodes))), Limits(), 0)


def test_the_emptiest_broker_gets_it():
    view = cluster(4, [partition("t-0", [1]), partition("t-1", [2]), partition("t-2", [3])])
    assert _drain(view, 1).moves[0].after == (4,)


def test_what_is_drained_is_spread_over_all_that_are_left():
    view = random_cluster(1, brokers=6, partitions=300, skew=0.5)
    plan = _drain(view, 1)
    had = {load.broker_id: load.size_bytes for load in plan.loads_before}
    left = {load.broker_id: load.size_bytes for load in plan.loads_after if load.broker_id != 1}
    assert max(left.values()) / min(left.values()) <= max(1.1, max(had.values()) / min(had.values()))
    assert plan.imbalance_after.size_bytes <= 1.06


def test_rack_that_none_of_the_others_is_in_comes_first():
    view = cluster(4, [partition("t-0", [1, 2]), partition("t-1", [4], size_bytes=9 * MB)], racks=["a", "b", "b", "a"])
    assert set(after(view, _drain(view, 1).moves).partitions[0].replicas) == {4, 2}


def test_last_broker_of_a_rack_can_be_drained():
    view = cluster(4, [partition("t-0", [1, 2, 3])], racks=["a", "b", "c", "c"])
    (move,) = _drain(view, 1).moves
    assert set(move.after) == {2, 3, 4}


def test_copies_of_a_dead_broker_are_made_from_the_leader_that_is_alive():
    view = cluster(3, [partition("t-0", [1, 2], leader=2, isr=[2])], dead={1})
    (move,) = _drain(view, 1).moves
    assert (move.source, move.adding, move.removing) == (2, (3,), (1,))


def test_partition_that_moves_is_named_as_what_it_is():
    view = cluster(3, [partition("t-0", [3, 1, 2], leader=1, isr=[1, 2], is_reassigning=True)])
    (reason,) = _drain(view, 1).reasons
    assert str(reason) == "not-moving: t-0: it is being reassigned already"


def test_two_brokers_can_be_drained_at_once():
    view = cluster(4, [partition("t-0", [1, 2])])
    (move,) = _drain(view, 1, 2).moves
    assert set(move.after) == {3, 4}
