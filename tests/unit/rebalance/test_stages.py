import pytest

from esp.model.ids import NodeId
from esp.placement.step import Move
from esp.rebalance.cluster import Partition, Reassignment
from esp.rebalance.execution import Moving
from esp.rebalance.stages import BELIEVED_AFTER_MS, NEXT, Seen, Stage, see

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
MOVE = Move("t", 0, (ONE, TWO), (THREE, TWO), ONE, 100)


def partition(*replicas: int) -> Partition:
    return Partition(replicas, frozenset(replicas), replicas[0])


MOVING = Reassignment((3, 2, 1), frozenset({3}), frozenset({1}))


def test_table_has_a_row_for_everything() -> None:
    assert NEXT.keys() == set(Stage)
    for row in NEXT.values():
        assert row.keys() == set(Seen)


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage.is_over])
def test_what_is_over_stays_over(stage: Stage) -> None:
    assert set(NEXT[stage].values()) == {stage}


def test_looks_are_told_apart() -> None:
    assert see(MOVE, None, None) is Seen.GONE
    assert see(MOVE, partition(1, 2), None) is Seen.BEFORE
    assert see(MOVE, partition(2, 1), None) is Seen.BEFORE, "as after a cancel in Kafka"
    assert see(MOVE, partition(3, 2, 1), MOVING) is Seen.MOVING
    assert see(MOVE, partition(3, 2), None) is Seen.AFTER
    assert see(MOVE, partition(2, 3), None) is Seen.ELSEWHERE
    assert see(MOVE, partition(1, 2, 4), Reassignment((1, 4, 2), frozenset({4}), frozenset({2}))) is Seen.ELSEWHERE


def test_metadata_that_lag_are_not_believed_at_once() -> None:
    moving = Moving(MOVE, 0)
    moving.begin(0)
    moving.observe(partition(3, 2, 1), MOVING, 10)
    assert moving.stage is Stage.COPYING
    moving.observe(partition(1, 2), None, 1000)
    moving.observe(partition(1, 2), None, 1000 + BELIEVED_AFTER_MS - 1)
    assert moving.stage is Stage.COPYING
    moving.observe(partition(3, 2), None, 1000 + BELIEVED_AFTER_MS)
    assert moving.stage is Stage.DONE


def test_move_that_somebody_cancelled_is_blocked_in_the_end() -> None:
    moving = Moving(MOVE, 0)
    moving.begin(0)
    moving.observe(partition(1, 2), None, 0)
    moving.observe(partition(1, 2), None, BELIEVED_AFTER_MS)
    assert moving.stage is Stage.BLOCKED
    assert "on [1, 2]" in moving.reason
