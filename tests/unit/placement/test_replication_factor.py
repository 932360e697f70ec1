"""More replicas, and fewer."""

from hypothesis import given, settings
from hypothesis import strategies as st

from esp.placement.intents import ReplicationFactor
from esp.placement.limits import Limits
from esp.placement.planner import Refusal, make_plan
from tests.unit.placement.clusters import after, cluster, partition, views


def _changed(view, factor):
    return after(view, make_plan(view, ReplicationFactor("t", factor), Limits(), 0).moves).partitions


@settings(max_examples=60)
@given(views(), st.integers(1, 5))
def test_each_partition_of_the_topic_has_as_many_replicas_and_others_stay(view, factor):
    topic = view.partitions[0].topic
    plan = make_plan(view, ReplicationFactor(topic, factor), Limits(), 0)
    if isinstance(plan, Refusal):
        return
    for before, one in zip(view.partitions, after(view, plan.moves).partitions, strict=True):
        if one.topic != topic:
            assert one.replicas == before.replicas
        else:
            assert len(one.replicas) == factor
            assert set(one.replicas) <= set(before.replicas) or set(one.replicas) >= set(before.replicas)


def test_replica_in_a_rack_of_another_goes_first():
    view = cluster(3, [partition("t-0", [1, 2, 3])], racks=["a", "b", "b"])
    assert len({("a", "b", "b")[node - 1] for node in _changed(view, 2)[0].replicas}) == 2


def test_dead_replica_goes_before_all_others_and_one_out_of_sync_before_the_rest():
    dead = cluster(3, [partition("t-0", [1, 2, 3], leader=2, isr=[2, 3])], dead={1})
    assert set(_changed(dead, 2)[0].replicas) == {2, 3}
    lagging = cluster(3, [partition("t-0", [1, 2, 3], isr=[1, 3])])
    assert set(_changed(lagging, 2)[0].replicas) == {1, 3}


def test_preferred_leader_is_kept():
    assert _changed(cluster(3, [partition("t-0", [3, 1, 2])]), 1)[0].replicas == (3,)


def test_new_replicas_go_to_new_racks_and_empty_brokers():
    view = cluster(4, [partition("t-0", [1]), partition("u-0", [3])], racks=["a", "a", "b", "b"])
    assert _changed(view, 2)[0].replicas == (1, 4)
