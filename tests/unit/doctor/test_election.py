"""Who leads next, held against the controller's own decisions."""

import uuid

from hypothesis import given, settings
from hypothesis import strategies as st

from esp.controller.partition_change import Election, apply_partition_change, plan_partition_change
from esp.doctor.what_if import succeed
from esp.model.ids import NO_NODE, LeaderEpoch, NodeId, TopicId
from esp.model.partition import PartitionState
from tests.unit.placement.clusters import partition

NODES = tuple(map(NodeId, range(1, 6)))


def decided(state, online, minimum, election):
    """What the controller makes of a partition when those brokers are there."""
    change = plan_partition_change(
        state,
        is_acceptable=lambda node: node in online,
        min_insync_replicas=minimum,
        target_isr=tuple(node for node in state.isr if node in online),
        election=election,
    )
    return state if change is None else apply_partition_change(state, change)


@given(st.data())
@settings(max_examples=400)
def test_prediction_is_what_the_controller_decides_one_broker_at_a_time(data):
    replicas = tuple(data.draw(st.permutations(NODES), "replicas")[: data.draw(st.integers(1, 4), "how many")])
    minimum = data.draw(st.integers(1, 3), "min.insync.replicas")
    election = data.draw(st.sampled_from([Election.ONLINE, Election.UNCLEAN]))
    state = PartitionState(TopicId(uuid.UUID(int=5)), 0, replicas, replicas, replicas[0], LeaderEpoch(1), 1)
    away = data.draw(st.lists(st.sampled_from(replicas), unique=True, max_size=3), "down before")
    online = set(NODES)
    for node in away:
        online.discard(node)
        state = decided(state, online, minimum, Election.ONLINE)
    if data.draw(st.booleans(), "one is back, and behind") and away:
        online.add(away[0])
        state = decided(state, online, minimum, election)
    view = partition("t-0", replicas, leader=None if state.leader == NO_NODE else state.leader, isr=state.isr)
    down = data.draw(st.lists(st.sampled_from(replicas), unique=True), "down now")
    found = succeed(
        view,
        state.elr,
        lambda node: node in online and node not in down,
        may_be_unclean=election is Election.UNCLEAN,
    )
    for node in down:
        online.discard(node)
    state = decided(state, online, minimum, election)
    assert (NO_NODE if found.leader is None else found.leader) == state.leader
    assert set(found.isr) == set(state.isr)


def test_leader_stays_whatever_the_order_of_assignment():
    view = partition("t-0", (1, 2, 3), leader=3)
    assert succeed(view, (), lambda node: node != 2, may_be_unclean=False).leader == 3


def test_first_in_the_order_of_assignment_leads_next():
    view = partition("t-0", (3, 2, 1), leader=3, isr=(1, 2, 3))
    assert succeed(view, (), lambda node: node != 3, may_be_unclean=False).leader == 2


def test_replica_that_is_not_in_sync_leads_only_where_that_is_allowed():
    view = partition("t-0", (1, 2), leader=1, isr=(1,))
    assert succeed(view, (), lambda node: node != 1, may_be_unclean=False).leader is None
    found = succeed(view, (), lambda node: node != 1, may_be_unclean=True)
    assert (found.leader, found.isr, found.is_unclean) == (2, (2,), True)


def test_eligible_replica_leads_without_loss():
    view = partition("t-0", (1, 2), leader=1, isr=(1,))
    found = succeed(view, (2,), lambda node: node != 1, may_be_unclean=True)
    assert (found.leader, found.is_unclean) == (2, False)
