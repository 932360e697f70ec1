"""Groups that retention overtakes."""

from esp.doctor.snapshot import RebalancingGroup, UnreadRecords
from tests.unit.doctor.snapshots import hits, snapshot


def test_records_that_are_near_deletion_are_told_with_a_remedy():
    unread = (
        UnreadRecords("g", "t", 0, 1, 10_000, is_held=False),
        UnreadRecords("h", "t", 3, 2, 20_000, is_held=True),
        UnreadRecords("gone", "t", 3, 0, 10_000, is_held=False),
    )
    first, second = hits("unread-records-near-deletion", snapshot(1, [], unread=unread))
    assert str(first.place) == "topic t"
    assert first.detail == "group g has unread records in the last tenth of 10000 ms, in 1 partition"
    assert "--add-config retention.hold.groups=g`" in first.remedy
    assert "up to which retention.hold.groups keeps them, in 2 partitions" in second.detail
    assert "--add-config retention.hold.max.ms=40000`" in second.remedy


def test_records_that_soon_are_too_many_are_told_with_a_remedy():
    unread = (
        UnreadRecords("g", "t", 0, 0, -1, False, 1, 1_000),
        UnreadRecords("h", "t", 0, 1, 10, True, 2, 2_000, True),
    )
    first, of_time, of_size = hits("unread-records-near-deletion", snapshot(1, [], unread=unread))
    assert first.detail == "group g has unread records in the last tenth of 1000 bytes, in 1 partition"
    assert "give records more room" in first.remedy
    assert "--add-config retention.hold.groups=g`" in first.remedy
    assert "10 ms" in of_time.detail
    assert "2000 bytes, up to which retention.hold.groups keeps them, in 2 partitions" in of_size.detail
    assert "--add-config retention.hold.max.bytes=4000`" in of_size.remedy


def test_groups_that_do_not_stop_rebalancing_are_named():
    (hit,) = hits("group-rebalances", snapshot(1, [], rebalancing=(RebalancingGroup("g", "Assigning", 15.0),)))
    assert hit.detail == "group g was Assigning, or rebalanced otherwise, in each look for 15 s"
    assert "`esp groups --describe --group g --members`" in hit.remedy
    assert hits("group-rebalances", snapshot(1, [])) == []


def test_records_that_are_gone_are_counted():
    unread = (UnreadRecords("g", "t", 3, 1, 10_000, is_held=False), UnreadRecords("h", "t", 0, 1, 9, is_held=False))
    (hit,) = hits("unread-records-deleted", snapshot(1, [], unread=unread))
    assert hit.detail == "group g had not read 3 offsets that are gone"
    assert "--delete-offsets --group g --topic t" in hit.remedy


def test_groups_that_keep_up_are_no_finding():
    assert hits("unread-records-deleted", snapshot(1, [])) == []
    assert hits("unread-records-near-deletion", snapshot(1, [])) == []
