"""Disks that have no room for the trash."""

import pytest

from esp.doctor.rule import Severity
from esp.doctor.rules import RULES
from esp.doctor.snapshot import Disk
from esp.model.ids import NodeId
from tests.unit.doctor.snapshots import hits, snapshot

DISKS = (
    Disk(NodeId(1), "/full", 1_000, 99, 10),
    Disk(NodeId(1), "/near", 1_000, 149, 10),
    Disk(NodeId(2), "/has-room", 1_000, 150, 10),
    Disk(NodeId(2), "/needs-none", 1_000, 51, 0),
    Disk(NodeId(2), "/does-not-tell", -1, -1, 10),
)


def test_a_disk_at_or_near_its_bound_comes_with_the_topic_that_goes_first():
    at_once, soon = hits("trash-without-room", snapshot(2, [], trash=("t", "u"), disks=DISKS))
    assert str(at_once.place) == "broker 1"
    assert at_once.detail == "/full has 9% free: below 10% the trash goes, t and 1 other first"
    assert at_once.remedy.startswith("`esp topics restore t`")
    assert soon.detail == "/near has 14% free: below 10% the trash will go, t and 1 other first"
    assert RULES["trash-without-room"].severity is Severity.WARNING


@pytest.mark.parametrize("trash", [("t",), ("t", "u", "v")])
def test_the_first_topics_are_counted(trash):
    (hit,) = hits("trash-without-room", snapshot(1, [], trash=trash, disks=DISKS[:1]))
    assert hit.detail.endswith("t first" if len(trash) == 1 else "t and 2 others first")


def test_a_disk_without_trash_is_no_business_of_this_rule():
    assert hits("trash-without-room", snapshot(2, [], disks=DISKS)) == []
