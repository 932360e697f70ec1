"""Kafka's table: the states that may come before each (``ClassicGroupState``)."""

from esp.groups.group import TRANSITIONS, GroupEvent, GroupState

_BEFORE = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE},
    GroupState.PREPARING_REBALANCE: {GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE},
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
    GroupState.DEAD: {
        GroupState.EMPTY,
        GroupState.PREPARING_REBALANCE,
        GroupState.COMPLETING_REBALANCE,
        GroupState.STABLE,
    },
}


def test_a_state_follows_another_only_where_kafka_lets_it():
    before = {state: {source for (source, _), target in TRANSITIONS.items() if target is state} for state in GroupState}
    assert before == _BEFORE


def test_a_group_becomes_stable_by_committed_assignments_alone():
    events = {event for (_, event), target in TRANSITIONS.items() if target is GroupState.STABLE}
    assert events == {GroupEvent.ASSIGNMENT_COMMITTED}


def test_nothing_follows_death():
    assert all(source is not GroupState.DEAD for source, _ in TRANSITIONS)
