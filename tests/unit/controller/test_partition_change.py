"""Leader and in-sync set; ids are those of the replication rules (ELECT-*, ELR-*, ISR-*)."""

import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.controller.partition_change import (
    Election,
    apply_partition_change,
    is_online,
    is_unclean_election,
    plan_partition_change,
)
from esp.model.ids import DirectoryId, LeaderEpoch, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.schemas.metadata_records import RECOVERED, RECOVERING, PartitionChangeRecord
from tests.unit.controller.samples import Cluster

_TOPIC = TopicId(uuid.UUID(int=5))


def _ids(numbers):
    return tuple(map(NodeId, numbers))


def _state(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, elr=(), last_known=(), recovering=False):
    return PartitionState(
        topic_id=_TOPIC,
        partition=0,
        replicas=_ids(replicas),
        isr=_ids(isr),
        leader=NodeId(leader),
        leader_epoch=LeaderEpoch(4),
        partition_epoch=9,
        directories=(DirectoryId(uuid.UUID(int=1)),) * len(replicas),
        elr=_ids(elr),
        last_known_elr=_ids(last_known),
        recovering=recovering,
    )


def _change(state, isr, online, *, minimum=1, unclean=None, election=Election.ONLINE):
    change = plan_partition_change(
        state,
        election=election,
        target_isr=_ids(isr),
        is_acceptable=lambda node: node in online,
        min_insync_replicas=minimum,
        unclean_shutdown=unclean,
    )
    return state if change is None else apply_partition_change(state, change)


def test_a_leader_that_may_stay_stays_and_its_epoch_with_it():
    after = _change(_state(leader=2), (1, 2), {1, 2})
    assert (after.leader, after.leader_epoch, after.partition_epoch, after.isr) == (2, 4, 10, (1, 2))


def test_the_first_assigned_replica_in_sync_leads_next():
    after = _change(_state(replicas=(3, 2, 1)), (2, 3), {2, 3})  # ELECT-1.2
    assert (after.leader, after.leader_epoch) == (3, 5)


def test_whoever_was_in_sync_when_the_isr_fell_below_the_minimum_stays_eligible():
    after = _change(_state(), (1,), {1}, minimum=2)  # ELR-1
    assert (after.isr, after.elr, after.leader) == ((1,), (2, 3), 1)
    empty = _change(after, (), set(), minimum=2)
    assert (empty.isr, empty.elr, empty.leader, empty.last_known_elr) == ((), (1, 2, 3), -1, (1,))  # ELECT-2
    assert empty.leader_epoch == 5


def test_an_eligible_replica_is_elected_cleanly_while_nobody_is_in_sync():
    state = _state(isr=(), leader=-1, elr=(2, 3), last_known=(1,))
    after = _change(state, (), {1, 3}, minimum=2)  # ELECT-1.3
    assert (after.leader, after.isr, after.elr, after.last_known_elr) == (3, (3,), (2,), ())
    assert not after.recovering


def test_the_elr_is_empty_as_soon_as_enough_are_in_sync():
    after = _change(_state(isr=(1,), elr=(2, 3)), (1, 2), {1, 2}, minimum=2)
    assert after.elr == ()


def test_a_replica_that_may_have_lost_its_tail_is_not_eligible():
    after = _change(_state(isr=(1,), elr=(2, 3)), (1,), {1}, minimum=2, unclean=NodeId(2))  # BRK-2
    assert after.elr == (3,)


def test_the_last_known_leader_is_elected_when_nobody_else_is_left():
    state = _state(isr=(), leader=-1, last_known=(2,))
    after = _change(state, (), {1, 2, 3}, minimum=2)  # ELECT-1.4
    assert (after.leader, after.isr, after.recovering, after.last_known_elr) == (2, (2,), True, ())


def test_a_fenced_last_known_leader_is_not_elected():
    state = _state(isr=(), leader=-1, last_known=(2,))
    assert _change(state, (), {1, 3}, minimum=2) == state  # BRK-8


def test_the_last_known_leader_waits_while_somebody_is_eligible():
    state = _state(isr=(), leader=-1, elr=(3,), last_known=(2,))
    assert _change(state, (), {1, 2}, minimum=2) == state


def test_an_unclean_election_is_the_last_resort():
    unclean = {"minimum": 2, "election": Election.UNCLEAN}
    in_sync = _change(_state(isr=(2, 3)), (2, 3), {1, 3}, **unclean)
    assert (in_sync.leader, in_sync.isr, in_sync.recovering) == (3, (2, 3), False)
    eligible = _change(_state(isr=(), leader=-1, elr=(2, 3), last_known=(1,)), (), {1, 3}, **unclean)
    assert (eligible.leader, eligible.isr, eligible.elr, eligible.recovering) == (3, (3,), (2,), False)
    last_known = _change(_state(isr=(), leader=-1, last_known=(3,)), (), {1, 3}, **unclean)
    assert (last_known.leader, last_known.isr, last_known.recovering) == (3, (3,), True)
    anybody = _change(_state(isr=(), leader=-1, elr=(3,), last_known=(3,)), (), {2}, **unclean)
    assert (anybody.leader, anybody.isr, anybody.elr, anybody.last_known_elr) == (2, (2,), (), ())
    assert anybody.recovering


def test_an_unclean_election_resets_the_isr_of_those_that_are_not_there():
    after = _change(_state(isr=(2, 3)), (2, 3), {1}, election=Election.UNCLEAN)
    assert (after.leader, after.isr, after.recovering) == (1, (1,), True)


def test_the_preferred_replica_leads_when_that_is_asked_for_and_it_is_in_sync():
    preferred = {"election": Election.PREFERRED}
    assert _change(_state(leader=2), (1, 2, 3), {1, 2, 3}, **preferred).leader == 1
    assert _change(_state(leader=2), (1, 2, 3), {2, 3}, **preferred).leader == 2
    assert _change(_state(leader=2, isr=(2, 3)), (2, 3), {1, 2, 3}, **preferred).leader == 2


def test_only_leaders_from_outside_all_that_is_known_are_unclean():
    def unclean(**state):
        before = _state(leader=-1, **state)
        records = {
            leader: PartitionChangeRecord(
                partition_id=0, topic_id=_TOPIC, leader=leader, leader_recovery_state=RECOVERING
            )
            for leader in (-2, -1, 1, 2, 3)
        }
        return [leader for leader, record in records.items() if is_unclean_election(before, record)]

    assert unclean(isr=(2, 3)) == [1]
    assert unclean(isr=(), elr=(2,)) == [1, 3]
    assert unclean(isr=(), last_known=(3,)) == [1, 2]
    assert unclean(isr=(), elr=(2,), last_known=(3,)) == [
        1,
        3,
    ]  # while somebody was eligible, 3 was not the last resort


@pytest.mark.parametrize("directories", [(), (DirectoryId(uuid.UUID(int=9)),) * 3])
def test_a_broker_that_is_no_replica_has_none_online(directories):
    state = replace(_state(), directories=directories)
    brokers = Cluster(4).image.brokers
    assert not is_online(state, brokers[NodeId(4)])
    assert is_online(state, brokers[NodeId(3)]) is (not directories)


def test_nothing_to_change_is_no_record():
    state = _state()
    assert (
        plan_partition_change(state, target_isr=state.isr, is_acceptable=lambda _node: True, min_insync_replicas=2)
        is None
    )


def test_a_leader_tag_that_repeats_the_leader_raises_the_epoch():
    state = _state()
    after = apply_partition_change(state, PartitionChangeRecord(partition_id=0, topic_id=_TOPIC, leader=1))
    assert after == replace(state, leader_epoch=LeaderEpoch(5), partition_epoch=10)  # ISR-8


def test_a_change_replaces_whole_fields():
    change = PartitionChangeRecord(
        partition_id=0,
        topic_id=_TOPIC,
        replicas=(4, 5),
        isr=(4,),
        adding_replicas=(5,),
        removing_replicas=(1,),
        directories=(uuid.UUID(int=8), None),
        leader_recovery_state=RECOVERING,
    )
    after = apply_partition_change(_state(), change)
    assert (after.replicas, after.isr, after.adding_replicas, after.removing_replicas) == ((4, 5), (4,), (5,), (1,))
    assert (after.directories, after.recovering) == ((uuid.UUID(int=8), uuid.UUID(int=0)), True)
    recovered = PartitionChangeRecord(partition_id=0, topic_id=_TOPIC, leader_recovery_state=RECOVERED)
    assert not apply_partition_change(after, recovered).recovering


_NODES = st.sets(st.integers(1, 4), max_size=4)


@given(st.lists(st.tuples(_NODES, _NODES, st.none() | st.integers(1, 4)), max_size=12), st.integers(1, 3))
def test_any_history_keeps_the_sets_apart_and_the_leader_in_sync(history, minimum):
    state = _state(replicas=(1, 2, 3), isr=(1, 2, 3))
    for online, leaving, unclean in history:
        before = state
        isr = tuple(node for node in state.isr if node not in leaving)
        state = _change(state, isr, online, minimum=minimum, unclean=None if unclean is None else NodeId(unclean))
        assert not set(state.isr) & set(state.elr)
        assert {*state.isr, *state.elr} <= set(state.replicas)
        assert len(state.isr) < minimum or not state.elr
        if state.leader != -1:
            assert state.leader in state.isr
            assert state.leader in online
            assert not state.last_known_elr
        assert state.partition_epoch == before.partition_epoch + (state != before)
        assert state.leader_epoch == before.leader_epoch + (state.leader != before.leader)
        assert unclean not in state.elr


def test_a_partition_whose_directories_were_never_written_down_has_none_in_a_change_either():
    before = replace(_state(), directories=())
    assert _change(before, (1, 2), {1, 2}).directories == ()
