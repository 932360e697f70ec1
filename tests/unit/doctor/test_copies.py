"""How many copies there are, where, and how many must be in sync."""

import pytest

from esp.doctor.snapshot import BrokerCondition
from esp.model.ids import NodeId
from tests.unit.doctor.snapshots import hits, moving, name_of, places, snapshot
from tests.unit.placement.clusters import partition


def test_topic_with_one_copy_is_found_and_gets_as_many_as_brokers_allow():
    found = snapshot(3, [partition("t-0", (1,)), partition("t-1", (1, 2, 3))])
    [hit] = hits("single-copy", found)
    assert (str(hit.place), hit.detail) == ("topic t", "1 of 2 partitions have one copy")
    assert hit.remedy == "`esp rebalance plan rf t=3`"
    [alone] = hits("single-copy", snapshot(1, [partition("t-0", (1,))]))
    assert alone.remedy == "add 1 broker, then `esp rebalance plan rf t=2`"
    assert not hits("single-copy", snapshot(2, [partition("t-0", (1, 2))]))


def test_copy_that_a_reassignment_takes_away_does_not_count():
    found = snapshot(3, [partition("t-0", (1, 2))], moving={name_of("t-0"): moving(removing=(2,))})
    assert places("single-copy", found) == ["topic t"]


@pytest.mark.parametrize(
    ("copies", "min_isr", "found"), [(2, 2, True), (3, 3, True), (2, 3, True), (3, 2, False), (1, 1, False)]
)
def test_topic_that_needs_every_copy_is_found(copies, min_isr, found):
    cluster = snapshot(4, [partition("t-0", range(1, copies + 1), min_isr=min_isr)])
    assert places("min-isr-equals-copies", cluster) == ["topic t"] * found


def test_topic_that_needs_every_copy_gets_one_more_than_it_needs():
    [hit] = hits("min-isr-equals-copies", snapshot(2, [partition("t-0", (1, 2), min_isr=2)]))
    assert hit.remedy == "add 1 broker, then `esp rebalance plan rf t=3`"
    one_down = snapshot(3, [partition("t-0", (1, 2), min_isr=2)], conditions={NodeId(3): BrokerCondition.FENCED})
    [hit] = hits("min-isr-equals-copies", one_down)
    assert hit.remedy == "start the brokers that are down, then `esp rebalance plan rf t=3`"


def test_topic_that_acknowledges_one_copy_is_found():
    [hit] = hits("min-isr-one", snapshot(3, [partition("t-0", (1, 2, 3), min_isr=1)]))
    assert hit.remedy.startswith("`esp configs --alter --entity-type topics --entity-name t")
    [short] = hits("min-isr-one", snapshot(3, [partition("t-0", (1, 2), min_isr=1)]))
    assert short.remedy.startswith("`esp rebalance plan rf t=3`; then `esp configs")
    assert not hits("min-isr-one", snapshot(3, [partition("t-0", (1, 2, 3), min_isr=2), partition("u-0", (1,))]))


def test_copies_in_one_rack_are_found_where_another_rack_has_none():
    crowded, apart = partition("t-0", (1, 2)), partition("t-1", (1, 3))
    [hit] = hits("shared-rack", snapshot(3, [crowded, apart], racks=("a", "a", "b")))
    assert hit.detail.startswith("1 of 2 partitions; t-0 has 2 copies in a")
    assert not hits("shared-rack", snapshot(3, [apart], racks=("a", "a", "b")))
    assert not hits("shared-rack", snapshot(3, [partition("t-0", (1, 2, 3))], racks=("a", "a", "b"))), "no better way"
    assert not hits("shared-rack", snapshot(3, [crowded])), "nobody has a rack"


def test_broker_without_a_rack_is_found_among_others_that_have_one():
    assert places("rack-missing", snapshot(3, [], racks=("a", None, "b"))) == ["broker 2"]
    assert not hits("rack-missing", snapshot(2, []))


def test_internal_topic_gets_as_many_copies_as_brokers_allow_up_to_three():
    def offsets(brokers, *replicas):
        return snapshot(brokers, [partition("__consumer_offsets-0", replicas), partition("t-0", (1,))])

    [hit] = hits("internal-copies", offsets(5, 1))
    assert (str(hit.place), hit.detail) == ("topic __consumer_offsets", "1 copy, and 5 brokers")
    assert hit.remedy == "`esp rebalance plan rf __consumer_offsets=3`"
    assert places("internal-copies", offsets(2, 1)) == ["topic __consumer_offsets"]
    assert not hits("internal-copies", offsets(1, 1))
    assert not hits("internal-copies", offsets(5, 1, 2, 3))
    assert places("single-copy", offsets(5, 1)) == ["topic t"], "it is told once"


def test_unclean_elections_are_found():
    found = snapshot(1, [partition("t-0", (1,)), partition("u-0", (1,))], unclean_topics=frozenset({"u"}))
    assert places("unclean-election", found) == ["topic u"]
