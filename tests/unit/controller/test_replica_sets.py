"""The arithmetic of reassignments (REASSIGN-1 to REASSIGN-3)."""

import uuid
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from esp.controller.replica_sets import ReplicaSets, completed_sets, replica_sets, reverted_sets, sets_towards
from esp.model.ids import LeaderEpoch, NodeId, TopicId
from esp.model.partition import PartitionState


def _ids(numbers):
    return tuple(map(NodeId, numbers))


def _state(replicas, isr=(), elr=(), adding=(), removing=(), last_known=()):
    return PartitionState(
        topic_id=TopicId(uuid.UUID(int=5)),
        partition=0,
        replicas=_ids(replicas),
        isr=_ids(isr),
        leader=NodeId(-1),
        leader_epoch=LeaderEpoch(4),
        partition_epoch=9,
        adding_replicas=_ids(adding),
        removing_replicas=_ids(removing),
        elr=_ids(elr),
        last_known_elr=_ids(last_known),
    )


def _with(state, sets):
    return replace(state, replicas=sets.replicas, adding_replicas=sets.adding, removing_replicas=sets.removing)


NODES = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True).map(_ids)


def test_the_target_comes_first_and_those_that_go_follow_it_in_the_order_of_their_ids():
    assert sets_towards(_state((3, 2, 1)), _ids((4, 2))) == ReplicaSets(_ids((4, 2, 1, 3)), _ids((4,)), _ids((1, 3)))


def test_another_order_of_the_same_replicas_moves_nothing():
    assert sets_towards(_state((3, 2, 1)), _ids((1, 2, 3))) == ReplicaSets(_ids((1, 2, 3)))


def test_a_replica_that_is_wanted_no_more_and_that_nobody_counts_on_is_dropped_at_once():
    running = _state((4, 1, 2), isr=(1, 2), adding=(4,), removing=(2,))
    assert sets_towards(running, _ids((1, 5))) == ReplicaSets(_ids((1, 5, 2)), _ids((5,)), _ids((2,)))


def test_a_complete_copy_that_is_wanted_no_more_stays_until_the_end():
    kept = ReplicaSets(_ids((1, 5, 2, 4)), _ids((4, 5)), _ids((2, 4)))
    for complete in ({"isr": (1, 4)}, {"isr": (1,), "elr": (4,)}, {"last_known": (4,)}):
        running = _state((4, 1, 2), adding=(4,), removing=(2,), **complete)
        assert sets_towards(running, _ids((1, 5))) == kept
        assert _with(running, kept).original_replicas == (1, 2)


@given(NODES, st.lists(NODES, min_size=1, max_size=4), st.data())
def test_however_often_a_reassignment_changes_it_runs_from_the_original_to_the_last_target(original, targets, data):
    state = _state(original, isr=original)
    for target in targets:
        before = {*state.isr, *state.elr}
        state = _with(state, sets_towards(state, target))
        assert before <= set(state.replicas), "REASSIGN-5"
        assert set(state.original_replicas) == set(original)
        assert state.target_replicas == target
        assert len(set(state.replicas)) == len(state.replicas)
        joined = data.draw(st.sets(st.sampled_from(state.replicas)))
        state = replace(state, isr=tuple(sorted({*state.isr, *joined})))
    assert set(reverted_sets(state).replicas) == set(original)


@given(NODES, NODES, st.sets(st.integers(1, 6)))
def test_it_ends_when_every_target_is_in_sync_and_not_before(original, target, isr):
    sets = sets_towards(_state(original), target)
    completed = completed_sets(sets, isr)
    if set(original) == set(target):
        assert completed is None, "nothing is running"
    elif set(target) <= isr:
        assert completed == ReplicaSets(target)
    else:
        assert completed is None


def test_without_a_reassignment_nothing_ends_and_the_sets_are_what_they_are():
    state = _state((1, 2), isr=(1, 2))
    assert replica_sets(state) == ReplicaSets(_ids((1, 2)))
    assert completed_sets(replica_sets(state), state.isr) is None
