"""Placement of new replicas."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.ids import NodeId
from esp.placement.striped import PlacementBroker, PlacementError, place_replicas
from tests.unit.controller.samples import SeededRandom

_BROKERS = st.lists(st.tuples(st.sampled_from([None, "r1", "r2", "r3"]), st.booleans()), min_size=1, max_size=9).map(
    lambda rows: [PlacementBroker(NodeId(number), *row) for number, row in enumerate(rows)]
)


def _place(brokers, partitions, factor, seed=0):
    return place_replicas(brokers, partitions=partitions, replication_factor=factor, random=SeededRandom(seed))


@given(_BROKERS, st.integers(1, 12), st.integers(1, 9), st.integers(0, 99))
def test_every_placement_keeps_the_promises(brokers, partitions, factor, seed):
    serving = {broker.node_id for broker in brokers if not broker.fenced}
    rack_of = {broker.node_id: broker.rack for broker in brokers}
    if not serving or factor > len(brokers):
        with pytest.raises(PlacementError):
            _place(brokers, partitions, factor, seed)
        return
    placed = _place(brokers, partitions, factor, seed)
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert len({rack_of[node] for node in replicas}) == min(factor, len(set(rack_of.values())))
        assert replicas[0] in serving
    led = Counter(replicas[0] for replicas in placed)
    assert max(led.values()) - min(led[node] for node in serving) <= 1
    assert placed == _place(brokers, partitions, factor, seed)


def test_replicas_are_spread_evenly_where_racks_are_alike():
    brokers = [PlacementBroker(NodeId(number), f"r{number % 3}", fenced=False) for number in range(6)]
    counts = Counter(node for replicas in _place(brokers, 60, 3) for node in replicas)
    assert set(counts) == {broker.node_id for broker in brokers}
    assert max(counts.values()) - min(counts.values()) <= 6


def test_the_followers_of_a_leader_differ_from_partition_to_partition():
    brokers = [PlacementBroker(NodeId(number), None, fenced=False) for number in range(5)]
    assert len(set(_place(brokers, 20, 2))) == 20


def test_placements_begin_at_different_brokers():
    brokers = [PlacementBroker(NodeId(number), None, fenced=False) for number in range(5)]
    assert len({_place(brokers, 1, 1, seed)[0] for seed in range(30)}) > 1


@pytest.mark.parametrize(
    ("brokers", "message"),
    [
        ([], "All brokers are currently fenced or have all their log directories cordoned."),
        (
            [PlacementBroker(NodeId(1), None, fenced=True)],
            "All brokers are currently fenced or have all their log directories cordoned.",
        ),
        (
            [PlacementBroker(NodeId(1), None, fenced=False)],
            (
                "The target replication factor of 2 cannot be reached because only 1 broker(s) are registered or some brokers "
                "have all their log directories cordoned."
            ),
        ),
    ],
)
def test_what_cannot_be_placed_is_refused_in_kafkas_words(brokers, message):
    with pytest.raises(PlacementError) as refused:
        _place(brokers, 1, 2)
    assert str(refused.value) == message
