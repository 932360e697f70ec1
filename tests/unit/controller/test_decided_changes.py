import uuid
from dataclasses import replace

import pytest

from esp.controller.decided_changes import check_decided_change
from esp.model.ids import LeaderEpoch, NodeId, TopicId
from esp.model.partition import PartitionState

BEFORE = PartitionState(
    topic_id=TopicId(uuid.UUID(int=5)),
    partition=0,
    replicas=(NodeId(1), NodeId(2), NodeId(3)),
    isr=(NodeId(1), NodeId(2)),
    leader=NodeId(1),
    leader_epoch=LeaderEpoch(4),
    partition_epoch=9,
)
NEXT = replace(BEFORE, partition_epoch=10)
ELECTED = replace(NEXT, leader=2, leader_epoch=5, isr=(2,), elr=(1,))


def check(after, *, before=BEFORE, proposed_isr=(), min_isr=2, is_clean=True, unclean_shutdown=None, gone=None):
    check_decided_change(
        before,
        after,
        proposed_isr=proposed_isr,
        min_isr=min_isr,
        is_clean=is_clean,
        unclean_shutdown=unclean_shutdown,
        gone=gone,
    )


@pytest.mark.parametrize(
    ("after", "given"),
    [
        (NEXT, {}),
        (ELECTED, {}),
        (replace(NEXT, isr=(1, 2, 3)), {"proposed_isr": (1, 2, 3)}),
        (replace(ELECTED, elr=()), {"min_isr": 1}),
        (replace(ELECTED, elr=()), {"unclean_shutdown": 1}),
        (replace(ELECTED, elr=()), {"gone": 1}),
        (replace(ELECTED, leader=3, isr=(3,), elr=(), recovering=True), {"is_clean": False, "gone": 3}),
        (replace(ELECTED, leader=3, isr=(3,), elr=(), recovering=True), {"is_clean": False}),
        (replace(NEXT, leader=-1, isr=(), elr=(1, 2), leader_epoch=5), {}),
        (replace(NEXT, replicas=(1, 2), leader_epoch=5), {}),
    ],
)
def test_what_may_be_decided_passes(after, given):
    check(after, **given)


@pytest.mark.parametrize(
    ("after", "given", "complaint"),
    [
        (replace(NEXT, leader=3, leader_epoch=5), {}, "the leader is not in sync"),
        (BEFORE, {}, "raises the partition epoch"),
        (replace(NEXT, leader_epoch=3), {}, "do not fall"),
        (replace(ELECTED, leader_epoch=4), {}, "is another epoch"),
        (replace(NEXT, replicas=(1, 2)), {}, "is another epoch"),
        (ELECTED, {"unclean_shutdown": 1}, "lost its tail"),
        (ELECTED, {"gone": 1}, "no log to be eligible"),
        (ELECTED, {"gone": 2}, "no log to be in sync"),
        (replace(ELECTED, elr=()), {"gone": 3}, "stays eligible"),
        (replace(ELECTED, elr=()), {"is_clean": False}, "is recovering"),
        (replace(BEFORE, partition_epoch=10, recovering=True, isr=(1,), elr=(2,)), {"is_clean": False}, "ELR-2"),
        (replace(ELECTED, leader=3, isr=(3,), elr=(1, 2)), {}, "outside ISR and ELR"),
        (ELECTED, {"min_isr": 1}, "no other replica is eligible"),
        (replace(ELECTED, elr=()), {}, "stays eligible"),
    ],
)
def test_what_must_not_be_decided_is_noticed(after, given, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check(after, **given)


def test_what_was_wrong_before_may_stay_so():
    odd = replace(BEFORE, leader=3)
    check(replace(odd, partition_epoch=10), before=odd, min_isr=1)
