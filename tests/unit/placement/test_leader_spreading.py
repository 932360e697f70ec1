"""Preferred leaders: as even as the replicas allow, by reordering alone."""

from collections import Counter
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from esp.placement.draft import Draft
from esp.placement.leader_spreading import spread_leaders
from esp.placement.limits import Limits
from tests.unit.placement.clusters import cluster, partition


def _draft(view):
    return Draft(view, view.brokers, Limits(), 0, lambda _: True)


def _leads(draft):
    return Counter(replicas[0] for replicas in draft.replicas)


@settings(max_examples=60)
@given(st.lists(st.permutations([1, 2, 3, 4, 5]), min_size=1, max_size=60), st.integers(2, 4))
def test_leaders_are_as_even_as_any_order_makes_them(placements, factor):
    view = cluster(5, [partition(f"t-{n}", nodes[:factor]) for n, nodes in enumerate(placements)])
    draft = _draft(view)
    spread_leaders(draft, range(len(placements)), tolerance=0.0)
    assert [sorted(replicas) for replicas in draft.replicas] == [sorted(nodes[:factor]) for nodes in placements]
    most = max(_leads(draft).values())
    mean = len(placements) / 5
    assert most <= ceil(mean) or not _can_lead(placements, factor, most - 1)


def _can_lead(placements, factor, most):
    """Whether every partition can have a leader with no broker leading more than ``most``: bipartite matching by Kuhn's algorithm."""
    led = {}

    def place(number, seen):
        for node in placements[number][:factor]:
            for slot in range(most):
                if (node, slot) in seen:
                    continue
                seen.add((node, slot))
                if (node, slot) not in led or place(led[node, slot], seen):
                    led[node, slot] = number
                    return True
        return False

    return all(place(number, set()) for number in range(len(placements)))


def test_way_over_a_third_broker_is_found():
    """1 leads too many and shares nothing with 3, which leads nothing: 2 takes one from 1 and gives one to 3."""
    view = cluster(
        3, [partition("t-0", [1, 2]), partition("t-1", [1, 2]), partition("t-2", [2, 3]), partition("t-3", [1])]
    )
    draft = _draft(view)
    spread_leaders(draft, range(4), tolerance=0.0)
    assert _leads(draft)[1] == 2
    assert set(_leads(draft)) == {1, 2, 3}


def test_even_leaders_stay():
    view = cluster(2, [partition("t-0", [1, 2]), partition("t-1", [2, 1])])
    draft = _draft(view)
    spread_leaders(draft, range(2), tolerance=0.0)
    assert draft.moves() == []


def test_partition_that_may_not_change_keeps_its_order():
    view = cluster(2, [partition(f"t-{n}", [1, 2]) for n in range(4)])
    draft = _draft(view)
    spread_leaders(draft, [0], tolerance=0.0)
    assert [replicas[0] for replicas in draft.replicas] == [2, 1, 1, 1]
