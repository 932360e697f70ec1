"""How even a spread cluster is, and how little is moved for that.

The lower bound of the bytes that any plan copies which brings all brokers into the band of tolerance around their fair shares: what brokers
have above the band must leave them, and what brokers lack below it must come to them; a byte that moves can do both at once, and nothing
else. So it is the larger of both sums. Where every partition has a replica in every rack, no byte can change its rack, and the bound is the
sum of the racks' bounds. Partitions are indivisible: what leaves a broker, or comes to one, is a multiple of the greatest common divisor of
all sizes, and at least as large as the smallest partition; so each term is rounded up to that.

A plan evens out numbers too. A broker that has some replicas more than its band allows must give as many, so at least the bytes of its
smallest ones; and likewise one that has fewer. That is a second bound, and the larger of both counts.
"""

from collections import Counter
from math import ceil, floor, gcd

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.model.ids import NodeId
from esp.placement.intents import Spread
from esp.placement.limits import Limits
from esp.placement.planner import Refusal, make_plan
from esp.placement.shares import fair_shares
from tests.unit.placement.clusters import MB, after, cluster, partition, random_cluster

LIMITS = Limits()


def _plan(view, intent=None, seed=0):
    plan = make_plan(view, intent or Spread(), LIMITS, seed)
    assert not isinstance(plan, Refusal), plan.reasons
    return plan


def _shares(view, weight):
    racks = {}
    for broker in view.brokers:
        racks.setdefault(broker.rack, []).append(broker.broker_id)
    weights = Counter()
    for one in view.partitions:
        weights[len(one.replicas)] += weight(one)
    return racks, fair_shares(racks, weights)


def lower_bound_bytes(view):
    """What any plan copies at least; see the docstring of this module."""
    return max(_bound_by_bytes(view), _bound_by_numbers(view))


def _bound_by_numbers(view):
    _, shares = _shares(view, lambda _: 1)
    surplus = shortage = 0
    for node, share in shares.items():
        held = sorted(one.size_bytes for one in view.partitions if node in one.replicas)
        others = sorted(one.size_bytes for one in view.partitions if node not in one.replicas)
        surplus += sum(held[: max(0, len(held) - ceil(share * (1 + LIMITS.tolerance)))])
        shortage += sum(others[: max(0, floor(share * (1 - LIMITS.tolerance)) - len(held))])
    return max(surplus, shortage)


def _bound_by_bytes(view):
    racks, shares = _shares(view, lambda one: one.size_bytes)
    sizes = [one.size_bytes for one in view.partitions]
    unit, smallest = gcd(*sizes), min(sizes)
    held = Counter()
    for one in view.partitions:
        for node in one.replicas:
            held[node] += one.size_bytes

    def indivisible(size_bytes):
        return max(smallest, ceil(size_bytes / unit) * unit) if size_bytes > 0 else 0

    def surplus(nodes):
        return sum(indivisible(held[node] - shares[node] * (1 + LIMITS.tolerance)) for node in nodes)

    def shortage(nodes):
        return sum(indivisible(shares[node] * (1 - LIMITS.tolerance) - held[node]) for node in nodes)

    closed = {len(one.replicas) for one in view.partitions} == {len(racks)}
    groups = racks.values() if closed else [list(held.keys() | shares.keys())]
    return sum(max(surplus(nodes), shortage(nodes)) for nodes in groups)


@st.composite
def _clusters(draw):
    """Clusters with some dozens of replicas on each broker, so that sizes can be combined."""
    brokers = draw(st.integers(4, 12))
    return random_cluster(
        draw(st.integers(0, 2**20)),
        brokers=brokers,
        partitions=brokers * draw(st.integers(20, 60)),
        racks=draw(st.sampled_from([0, 0, 3])) if brokers % 3 == 0 else 0,
        skew=draw(st.sampled_from([0.0, 0.5, 1.0])),
        empty=draw(st.integers(0, 1)),
    )


@settings(max_examples=40)
@given(_clusters(), st.integers(0, 9))
def test_bytes_moved_are_within_a_fifth_and_one_partition_of_the_lower_bound(view, seed):
    largest = max(one.size_bytes for one in view.partitions)
    assert _plan(view, seed=seed).copied_bytes <= 1.2 * lower_bound_bytes(view) + largest


@pytest.mark.parametrize("seed", range(12))
def test_bytes_moved_are_within_a_fifth_of_the_lower_bound_where_partitions_are_many(seed):
    racks, empty, skew = (0, 3)[seed % 2], seed // 2 % 2, (0.0, 0.5, 1.0)[seed % 3]
    view = random_cluster(seed, brokers=9, partitions=1200, racks=racks, skew=skew, empty=empty)
    assert _plan(view, seed=seed).copied_bytes <= 1.2 * lower_bound_bytes(view)


@settings(max_examples=40)
@given(_clusters())
def test_bytes_replicas_and_leaders_are_even_afterwards(view):
    plan = _plan(view)
    largest = max(one.size_bytes for one in view.partitions)
    _, byte_shares = _shares(view, lambda one: one.size_bytes)
    _, replica_shares = _shares(view, lambda _: 1)
    mean_leaders = len(view.partitions) / len(view.brokers)
    for load in plan.loads_after:
        share = byte_shares[load.broker_id]
        assert abs(load.size_bytes - share) <= max(0.05 * share, largest)
        assert abs(load.replicas - replica_shares[load.broker_id]) <= 0.2 * replica_shares[load.broker_id] + 2
        assert abs(load.leaders - mean_leaders) <= 0.05 * mean_leaders + 1


@settings(max_examples=40)
@given(_clusters(), st.integers(0, 9))
def test_plan_for_a_balanced_cluster_is_empty(view, seed):
    plan = _plan(view)
    spread = after(view, plan.moves)
    assert _plan(spread, seed=seed).copied_bytes <= 0.02 * plan.copied_bytes
    if all(_is_in_band(load, spread) for load in plan.loads_after):
        assert _plan(spread, seed=seed).is_empty


def _is_in_band(load, view):
    _, byte_shares = _shares(view, lambda one: one.size_bytes)
    _, replica_shares = _shares(view, lambda _: 1)
    mean_leaders = len(view.partitions) / len(view.brokers)
    return all(
        abs(have - share) <= LIMITS.tolerance * share
        for have, share in (
            (load.size_bytes, byte_shares[load.broker_id]),
            (load.replicas, replica_shares[load.broker_id]),
            (load.leaders, mean_leaders),
        )
    )


def test_new_broker_gets_its_share_and_the_others_exchange_nothing():
    view = cluster(4, [partition(f"t-{number}", [1 + number % 3]) for number in range(60)])
    plan = _plan(view)
    assert {move.adding for move in plan.moves} == {(4,)}
    assert [load.replicas for load in plan.loads_after] == [15, 15, 15, 15]


def test_empty_partitions_are_spread_by_number():
    view = cluster(3, [partition(f"t-{number}", [1], size_bytes=0) for number in range(30)])
    plan = _plan(view)
    assert plan.copied_bytes == 0
    assert max(load.replicas for load in plan.loads_after) <= 11


def test_two_replicas_in_one_rack_are_parted():
    view = cluster(4, [partition("t-0", [1, 2])], racks=["a", "a", "b", "b"])
    (move,) = _plan(view).moves
    assert len(move.adding) == 1
    assert {"a", "b"} == {view.brokers_by_id[node].rack for node in move.after}


def test_spread_of_some_topics_leaves_the_others_alone():
    partitions = [partition(f"{topic}-{number}", [1]) for topic in "tu" for number in range(9)]
    plan = _plan(cluster(3, partitions), Spread(("u",)))
    assert {move.topic for move in plan.moves} == {"u"}
    assert [load.replicas for load in plan.loads_after] == [3, 3, 3]


def test_topics_are_spread_where_that_costs_nothing():
    partitions = [partition(f"{topic}-{number}", [1]) for topic in "tu" for number in range(30)]
    view = cluster(2, partitions)
    moved = Counter(move.topic for move in _plan(view).moves)
    assert abs(moved["t"] - moved["u"]) <= 2


def test_draining_and_dead_brokers_get_nothing():
    partitions = [partition(f"t-{number}", [1 + number % 2]) for number in range(40)]
    view = cluster(5, partitions, dead={4}, draining={5})
    assert {node for move in _plan(view).moves for node in move.adding} == {NodeId(3)}


def test_partition_with_a_replica_on_a_dead_broker_stays():
    partitions = [partition(f"t-{number}", [1, 2], leader=1, isr=[1]) for number in range(20)]
    assert _plan(cluster(4, partitions, dead={2})).is_empty


def test_broker_without_room_gets_no_more_than_fits():
    partitions = [partition(f"t-{number}", [1]) for number in range(30)]
    view = cluster(2, partitions, capacity_bytes={2: 10 * MB})
    loads = {load.broker_id: load.replicas for load in _plan(view).loads_after}
    assert loads[2] == 9


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_racks_of_unequal_size_are_as_even_as_racks_allow(factor):
    view = random_cluster(5, brokers=7, partitions=210, factor=factor, racks=3, skew=0.3, empty=1)
    plan = _plan(view)
    _, shares = _shares(view, lambda one: one.size_bytes)
    for load in plan.loads_after:
        assert abs(load.size_bytes - shares[load.broker_id]) <= 0.06 * shares[load.broker_id]
