"""Single changes of a partition that is reassigned: those that may be, and those that are found."""

import uuid
from dataclasses import replace

import pytest

from esp.model.ids import LeaderEpoch, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.simulation.checkers.reassignment import check_reassignment
from esp.simulation.checkers.violation import ViolationError


def nodes(*numbers):
    return tuple(map(NodeId, numbers))


IDLE = PartitionState(TopicId(uuid.UUID(int=7)), 0, nodes(1, 2, 3), nodes(1, 2, 3), NodeId(1), LeaderEpoch(5), 9)
MOVING = replace(IDLE, replicas=nodes(1, 4, 2, 3), adding_replicas=nodes(4), removing_replicas=nodes(2, 3))
ENDED = replace(IDLE, replicas=nodes(1, 4), isr=nodes(1, 4), leader_epoch=LeaderEpoch(6))


def test_beginning_end_and_cancel_are_well():
    check_reassignment(IDLE, MOVING, "p", min_isr=2)
    check_reassignment(MOVING, ENDED, "p", min_isr=2)
    check_reassignment(MOVING, replace(IDLE, leader_epoch=LeaderEpoch(6)), "p", min_isr=2)


@pytest.mark.parametrize(
    ("before", "after", "invariant"),
    [
        (IDLE, replace(MOVING, replicas=nodes(1, 4, 2), isr=nodes(1, 2), leader_epoch=LeaderEpoch(6)), "INV-REASSIGN"),
        (MOVING, replace(ENDED, isr=nodes(1)), "INV-REASSIGN"),
        (MOVING, replace(ENDED, leader_epoch=LeaderEpoch(5)), "INV-EPOCHS-MONO"),
        (
            replace(MOVING, isr=nodes(1, 4)),
            replace(IDLE, isr=nodes(1), leader_epoch=LeaderEpoch(6)),
            "INV-REASSIGN",
        ),
    ],
)
def test_what_takes_a_copy_too_early_is_found(before, after, invariant):
    with pytest.raises(ViolationError, match=invariant):
        check_reassignment(before, after, "p", min_isr=2)


def test_cancel_that_leaves_the_minimum_may_take_a_copy_that_the_target_does_not_have():
    before = replace(
        IDLE, replicas=nodes(1, 2, 3, 4), isr=nodes(1, 2, 4), adding_replicas=nodes(4), removing_replicas=nodes(4)
    )
    after = replace(IDLE, isr=nodes(1, 2), leader_epoch=LeaderEpoch(6))
    check_reassignment(before, after, "p", min_isr=2)
