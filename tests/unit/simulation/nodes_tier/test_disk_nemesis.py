"""Which of a node's files rot first, and which must not."""

from types import SimpleNamespace

import pytest

from esp.model.ids import TopicPartition
from esp.simulation.nodes_tier.disk_nemesis import DiskNemesis, _prefer_sealed
from esp.simulation.nodes_tier.ledger import PASSING, Ledger


def target(directory, number):
    return SimpleNamespace(directory=directory, path=f"{directory}/{number:020d}.log")


def test_segments_that_nobody_appends_to_are_preferred_where_there_are_any():
    sealed, active, alone = target("/data/a-0", 0), target("/data/a-0", 7), target("/data/b-0", 3)
    assert _prefer_sealed([sealed, active, alone]) == [sealed]
    assert _prefer_sealed([alone]) == [alone]


def may_rot(topic, isr, ledger):
    """True if records of a topic may rot on node 1."""
    image = SimpleNamespace(topics_by_name={topic: SimpleNamespace(partitions=[SimpleNamespace(isr=isr)])})
    nemesis = SimpleNamespace(_ledger=ledger, newest_image=lambda: image)
    records = SimpleNamespace(partition=TopicPartition(topic, 0))
    return DiskNemesis._has_others_in_sync(nemesis, SimpleNamespace(node_id=1), records)


@pytest.mark.parametrize(("isr", "expected"), [((1,), False), ((1, 2), False), ((1, 2, 3), True)])
def test_records_do_not_rot_where_the_other_replica_in_sync_is_about_to_lose_its_eligibility(isr, expected):
    ledger = Ledger(1, copies_allowed=1, believes_markers=False)
    ledger.on_end(2, was_starting=False)
    assert may_rot("a", isr, ledger) is expected


@pytest.mark.parametrize("topic", PASSING)
def test_records_do_not_rot_where_the_other_replicas_are_soon_taken_away(topic):
    ledger = Ledger(1, copies_allowed=1)
    assert may_rot("topic-0", (1, 2, 3), ledger)
    assert not may_rot(topic, (1, 2, 3), ledger)
