"""The proof finds each thing that can be wrong with a plan: a sound plan is spoilt in one way at a time."""

from dataclasses import replace

import pytest

from esp.model.ids import NodeId
from esp.placement.constraints import Constraint
from esp.placement.intents import Drain, Move, Spread
from esp.placement.limits import Limits
from esp.placement.links import LinkBytes
from esp.placement.planner import make_plan
from esp.placement.proof import find_violations
from tests.unit.placement.clusters import MB, after, cluster, partition, random_cluster

VIEW = cluster(
    5,
    [partition("t-0", [1, 2], min_isr=2), partition("t-1", [2, 3], min_isr=2)],
    racks=["a", "b", "c", "a", "b"],
    capacity_bytes=10 * MB,
)
PLAN = make_plan(VIEW, Move("t", 0, (NodeId(4), NodeId(2))), Limits(), 0)


def _found(view, plan):
    return {violation.constraint for violation in find_violations(view, plan)}


def _with_move(**changed):
    (step,) = PLAN.steps
    (move,) = step.moves
    return replace(PLAN, steps=(replace(step, moves=(replace(move, **changed),)),))


def _view(**changed):
    first, *others = VIEW.partitions
    return replace(VIEW, partitions=(first._replace(**changed), *others))


def _brokers(number, **changed):
    return replace(VIEW, brokers=tuple(b._replace(**changed) if b.broker_id == number else b for b in VIEW.brokers))


def test_sound_plan_has_no_violations():
    assert find_violations(VIEW, PLAN) == []


@pytest.mark.parametrize(
    ("after", "constraint"),
    [
        ((2, 2), Constraint.DISTINCT_BROKERS),
        ((), Constraint.DISTINCT_BROKERS),
        ((9, 2), Constraint.KNOWN),
        ((5, 2), Constraint.RACKS_APART),
        ((4,), Constraint.MIN_ISR),
    ],
)
def test_wrong_replicas_are_found(after, constraint):
    assert constraint in _found(VIEW, _with_move(after=tuple(map(NodeId, after))))


@pytest.mark.parametrize(
    ("view", "constraint"),
    [
        (_view(is_reassigning=True), Constraint.NOT_MOVING),
        (_view(replicas=(NodeId(1), NodeId(3))), Constraint.STARTS_FROM_VIEW),
        (_view(leader=None), Constraint.SOURCE_ALIVE),
        (_view(partition=7), Constraint.KNOWN),
        (replace(VIEW, cluster_id="other"), Constraint.KNOWN),
        (_brokers(1, is_alive=False), Constraint.SOURCE_ALIVE),
        (_brokers(2, is_alive=False), Constraint.TARGET_ALIVE),
        (_brokers(4, is_alive=False), Constraint.TARGET_ALIVE),
        (_brokers(4, is_draining=True), Constraint.TARGET_ALIVE),
        (_brokers(4, disk_used_bytes=9 * MB), Constraint.DISK_LIMIT),
    ],
)
def test_what_has_changed_since_a_plan_was_made_is_found(view, constraint):
    assert constraint in _found(view, PLAN)


def test_drained_broker_that_gets_something_is_found():
    plan = replace(PLAN, intent=Drain((NodeId(4),)))
    assert _found(VIEW, plan) == {Constraint.TARGET_ALIVE}


def test_partition_that_moves_twice_is_found():
    plan = replace(PLAN, steps=(*PLAN.steps, replace(PLAN.steps[0], waits_for=())))
    assert {Constraint.NOT_MOVING} <= _found(VIEW, plan)


@pytest.mark.parametrize(
    "changed",
    [
        {"waits_for": (0,)},
        {"waits_for": (3,)},
        {"links": ()},
        {"links": (LinkBytes(NodeId(1), NodeId(4), 3),)},
        {"disks": ()},
    ],
)
def test_figures_that_are_not_those_of_the_moves_are_found(changed):
    plan = replace(PLAN, steps=(replace(PLAN.steps[0], **changed),))
    assert _found(VIEW, plan) == {Constraint.FIGURES}


def test_both_copies_count_until_somebody_has_waited():
    """Each of two brokers has room for one partition: the second comes in only when the first is known to be gone."""
    view = cluster(3, [partition("t-0", [1], size_bytes=6), partition("t-1", [2], size_bytes=6)], capacity_bytes=10)
    there = make_plan(view, Move("t", 0, (NodeId(3),)), Limits(), 0)
    later = make_plan(after(view, there.moves), Move("t", 1, (NodeId(1),)), Limits(), 0)
    both = replace(there, steps=(*there.steps, replace(later.steps[0], waits_for=(0,))))
    assert find_violations(view, both) == []
    hasty = replace(there, steps=(*there.steps, later.steps[0]))
    assert Constraint.DISK_LIMIT in _found(view, hasty)


def test_smaller_in_sync_set_is_no_violation_if_it_is_not_made_smaller():
    view = cluster(3, [partition("t-0", [1, 2], leader=1, isr=[1], min_isr=2)], dead={2})
    plan = make_plan(view, Drain((NodeId(2),)), Limits(), 0)
    assert find_violations(view, plan) == []
    one = cluster(3, [partition("t-0", [1], min_isr=2)])
    assert find_violations(one, make_plan(one, Move("t", 0, (NodeId(3),)), Limits(), 0)) == []


def test_violation_reads_as_a_sentence():
    (found,) = find_violations(_view(is_reassigning=True), PLAN)
    assert str(found) == "not-moving: t-0 in step 0: it is being reassigned already"


def test_plan_that_was_carried_out_no_longer_starts_from_the_view():
    view = random_cluster(3, brokers=5, partitions=60, empty=1)
    plan = make_plan(view, Spread(), Limits(), 0)
    found = find_violations(after(view, plan.moves), plan)
    assert len(found) >= len(plan.moves)
    assert Constraint.STARTS_FROM_VIEW in {violation.constraint for violation in found}
