"""The order of moves: how many at once, and who waits for whom."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from esp.model.ids import NodeId
from esp.placement.limits import Limits
from esp.placement.measures import LoadCount
from esp.placement.step import Move
from esp.placement.steps import plan_steps
from tests.unit.placement.clusters import cluster


def _move(number, before, after, size_bytes=1, source=None):
    before, after = tuple(map(NodeId, before)), tuple(map(NodeId, after))
    return Move("t", number, before, after, source or before[0], size_bytes)


def _ordered(moves, used=(), limit=(), per_broker=5):
    brokers = cluster(9, []).brokers
    loads = LoadCount(brokers, brokers)
    return plan_steps(moves, dict(used), dict(limit), Limits(moves_per_broker_max=per_broker), loads)


@settings(max_examples=50)
@given(
    st.lists(st.permutations([1, 2, 3, 4, 5]), min_size=1, max_size=40),
    st.integers(1, 4),
)
def test_no_broker_takes_part_in_too_many_copies_of_a_step(placements, per_broker):
    moves = [_move(number, [nodes[0]], [nodes[1]]) for number, nodes in enumerate(placements)]
    ordered = _ordered(moves, per_broker=per_broker)
    assert sorted(move.partition for step in ordered.steps for move in step.moves) == list(range(len(moves)))
    for step in ordered.steps:
        part = Counter(node for move in step.moves for node in (move.source, *move.adding))
        assert max(part.values()) <= per_broker
    busiest = max(Counter(node for move in moves for node in (move.source, *move.adding)).values())
    assert len(ordered.steps) <= 2 * -(-busiest // per_broker)


def test_moves_that_free_room_are_waited_for():
    moves = [_move(0, [1], [2], 5), _move(1, [3], [1], 5)]
    ordered = _ordered(moves, used={1: 8, 2: 0, 3: 5}, limit={1: 10, 2: 10}, per_broker=1)
    assert [(step.moves[0].partition, step.waits_for) for step in ordered.steps] == [(0, ()), (1, (0,))]
    disks = {disk.broker_id: disk for disk in ordered.steps[1].disks}
    assert disks[1].peak_bytes == 8


def test_step_with_room_waits_for_nobody():
    moves = [_move(0, [1], [2], 5), _move(1, [3], [1], 5)]
    ordered = _ordered(moves, used={1: 5, 2: 0, 3: 5}, limit={1: 10, 2: 10}, per_broker=1)
    assert [step.waits_for for step in ordered.steps] == [(), ()]


def test_move_that_comes_too_early_is_put_off():
    moves = [_move(0, [3], [1], 5), _move(1, [1], [2], 5)]
    ordered = _ordered(moves, used={1: 8, 2: 0, 3: 5}, limit={1: 10, 2: 10})
    assert [(step.moves[0].partition, step.waits_for) for step in ordered.steps] == [(1, ()), (0, (0,))]


def test_circle_of_full_disks_is_left_over():
    moves = [_move(0, [1], [2], 5), _move(1, [2], [1], 5), _move(2, [3], [4], 1)]
    ordered = _ordered(moves, used={1: 8, 2: 8}, limit={1: 10, 2: 10})
    assert [move.partition for move in ordered.left_over] == [0, 1]
    assert [move.partition for step in ordered.steps for move in step.moves] == [2]


def test_reorders_come_last_and_cost_nothing():
    ordered = _ordered([_move(0, [1, 2], [2, 1], 7), _move(1, [1], [3], 7)])
    assert [step.moves[0].partition for step in ordered.steps] == [1, 0]
    assert [step.copied_bytes for step in ordered.steps] == [7, 0]
    assert ordered.steps[1].disks == ()


def test_figures_of_a_step_are_those_of_its_moves():
    (step,) = _ordered([_move(0, [1, 2], [3, 4], 7), _move(1, [1], [3, 1], 2)], used={3: 1}).steps
    assert step.links == ((1, 3, 9), (1, 4, 7))
    assert [(d.broker_id, d.written_bytes, d.freed_bytes, d.peak_bytes) for d in step.disks] == [
        (1, 0, 7, 0),
        (2, 0, 7, 0),
        (3, 9, 0, 10),
        (4, 7, 0, 7),
    ]
