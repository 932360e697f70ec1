"""Estimates: the range holds the time that a simulated fair sharing of budgets takes."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from esp.model.ids import NodeId
from esp.placement.estimate import Duration, estimate_moves
from esp.placement.links import LinkBytes

_LINKS = st.dictionaries(
    st.tuples(st.integers(1, 5), st.integers(6, 9)), st.integers(1, 1000), min_size=1, max_size=12
).map(lambda sizes: [LinkBytes(NodeId(a), NodeId(b), size) for (a, b), size in sizes.items()])


def _shared_fairly(links, rate):
    """How long it takes if rates are max-min fair: the fullest end is shared equally, again and again, until all rates are known."""
    left = {(link.source, link.target): float(link.size_bytes) for link in links}
    passed = 0.0
    while left:
        rates, open_flows, room = {}, set(left), Counter()
        for flow in left:
            for end in flow:
                room[end] = rate
        while open_flows:
            users = Counter(end for flow in open_flows for end in flow)
            tight = min(users, key=lambda end: (room[end] / users[end], end))
            share = room[tight] / users[tight]
            for flow in sorted(flow for flow in open_flows if tight in flow):
                rates[flow] = share
                open_flows.remove(flow)
                for end in flow:
                    room[end] -= share
        step = min(left[flow] / rates[flow] for flow in left)
        passed += step
        left = {flow: size - rates[flow] * step for flow, size in left.items() if size - rates[flow] * step > 1e-6}
    return passed


@given(_LINKS, st.integers(1, 100))
def test_fair_sharing_ends_within_the_range(links, rate):
    duration = estimate_moves(1, links, rate)  # the simulation knows bytes only
    assert duration.low_s * (1 - 1e-6) <= _shared_fairly(links, rate) <= duration.high_s * (1 + 1e-6)


def test_busiest_broker_is_the_least_that_it_takes():
    links = [LinkBytes(NodeId(1), NodeId(3), 50), LinkBytes(NodeId(2), NodeId(3), 50)]
    assert estimate_moves(2, links, 10).low_s == 10


def test_nothing_takes_no_time():
    assert estimate_moves(0, [], 1) == Duration(0, 0)
    assert Duration(1, 2) + Duration(3, 4) == Duration(4, 6)


def test_moves_of_next_to_nothing_take_what_each_costs_beside_its_bytes():
    links = [LinkBytes(NodeId(1), NodeId(3), 1000)]
    few, many = estimate_moves(10, links, 10_000_000), estimate_moves(1000, links, 10_000_000)
    assert 3 <= many.low_s <= 10
    assert 20 <= many.high_s <= 60
    assert few.low_s < few.high_s < many.low_s


def test_moves_that_copy_nothing_take_time_too():
    assert estimate_moves(500, [], 1).high_s > estimate_moves(1, [], 1).low_s > 0
