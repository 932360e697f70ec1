"""Whether brokers hold what they should, by the planner's own measures."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.doctor.snapshot import BrokerCondition, Snapshot
from esp.placement.intents import Spread
from esp.placement.limits import Limits
from esp.placement.planner import make_plan
from tests.unit.doctor.snapshots import hits, moving, name_of, places, snapshot
from tests.unit.placement.clusters import MB, after, partition, random_cluster

GB = 1024 * MB


def skewed(count, size_bytes=MB):
    """All partitions on brokers 1 and 2 of three, led by 1."""
    return [partition(f"t-{number}", (1, 2), size_bytes=size_bytes) for number in range(count)]


def even(count, size_bytes=MB):
    return [
        partition(f"t-{number}", (number % 3 + 1, (number + 1) % 3 + 1), size_bytes=size_bytes)
        for number in range(count)
    ]


def test_brokers_with_more_replicas_than_their_share_are_found():
    [one, two] = hits("uneven-replicas", snapshot(3, skewed(12)))
    assert (str(one.place), one.detail) == ("broker 1", "12 replicas, 8 would be its share")
    assert one.remedy == two.remedy == "`esp rebalance plan spread`"
    assert not hits("uneven-replicas", snapshot(3, even(12)))
    assert not hits("uneven-replicas", snapshot(3, [partition("t-0", (1, 2))])), "one more cannot be divided"


def test_broker_that_is_preferred_leader_of_too_many_is_found():
    [hit] = hits("uneven-leaders", snapshot(3, skewed(12)))
    assert (str(hit.place), hit.detail) == ("broker 1", "preferred leader of 12 partitions, 4 would be its share")
    assert not hits("uneven-leaders", snapshot(3, even(12)))


def test_brokers_with_more_bytes_than_their_share_are_found_if_it_is_worth_it():
    assert places("uneven-disks", snapshot(3, skewed(3, GB))) == ["broker 1", "broker 2"]
    assert not hits("uneven-disks", snapshot(3, skewed(3, MB)))
    assert not hits("uneven-disks", snapshot(3, even(12, GB)))


def test_shares_follow_from_racks():
    apart = [partition(f"t-{number}", (1, 2 + number % 2), size_bytes=GB) for number in range(8)]
    in_racks = snapshot(3, apart, racks=("a", "b", "b"))
    for rule in ("uneven-replicas", "uneven-disks"):
        assert not hits(rule, in_racks), "broker 1 is a rack alone and has to hold a copy of everything"
        assert hits(rule, snapshot(3, apart))


def test_lone_broker_has_nobody_to_share_with():
    alone = snapshot(1, [partition(f"t-{number}", (1,), size_bytes=GB) for number in range(9)])
    for rule in ("uneven-replicas", "uneven-leaders", "uneven-disks", "empty-broker"):
        assert not hits(rule, alone)


def test_new_broker_that_holds_nothing_is_found():
    assert places("empty-broker", snapshot(3, skewed(12))) == ["broker 3"]
    assert not places("empty-broker", snapshot(3, skewed(12), draining=(3,)))
    assert not places("empty-broker", snapshot(3, [partition("t-0", (1, 2))])), "there is nothing for it"


@pytest.mark.parametrize(("share", "filling", "full"), [(0.5, 0, 0), (0.9, 1, 0), (0.96, 0, 1)])
def test_disks_are_found_as_they_fill(share, filling, full):
    found = snapshot(1, [partition("t-0", (1,), size_bytes=GB)], capacity_bytes=int(GB / share))
    assert len(hits("disk-filling", found)) == filling
    assert len(hits("disk-full", found)) == full
    assert not hits("disk-full", snapshot(1, [partition("t-0", (1,), size_bytes=GB)])), "nobody tells how large it is"


def test_preferred_leader_that_could_lead_is_found():
    other = partition("t-0", (1, 2), leader=2)
    [hit] = hits("leader-not-preferred", snapshot(2, [other, partition("t-1", (1, 2))]))
    assert (str(hit.place), hit.detail) == ("t-0", "led by 2, and 1 is in sync")
    assert not hits("leader-not-preferred", snapshot(2, [partition("t-0", (1, 2), leader=2, isr=(2,))]))
    assert not hits("leader-not-preferred", snapshot(2, [other], moving={name_of("t-0"): moving()}))


@given(
    seed=st.integers(0, 2**20),
    brokers=st.integers(2, 9),
    partitions=st.integers(1, 60),
    racks=st.sampled_from([0, 2, 3]),
    empty=st.integers(0, 2),
)
@settings(max_examples=60)
def test_spread_mends_what_it_is_named_for(seed, brokers, partitions, racks, empty):
    view = random_cluster(
        seed, brokers=brokers, partitions=partitions, racks=racks, empty=min(empty, brokers - 1), skew=0.0
    )
    plan = make_plan(view, Spread(), Limits(20 * MB), seed=0)
    spread = after(view, plan.moves)
    found = Snapshot(spread, {broker.broker_id: BrokerCondition.SERVING for broker in spread.brokers})
    for rule in ("uneven-replicas", "uneven-leaders", "uneven-disks", "empty-broker", "shared-rack"):
        assert not hits(rule, found)
