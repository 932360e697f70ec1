"""Share groups by their id: those that come after deleted ones (SHARE-50)."""

from esp.groups.assigned_group import FIRST_EPOCH
from esp.groups.share import directory
from esp.groups.share.directory import ShareGroups
from esp.schemas.consumer_group_records import GroupEpochValue
from esp.schemas.share_group_records import ShareGroupKey, ShareGroupRecord, ShareGroupRecordType


def change(groups, name, epoch):
    key = ShareGroupKey(ShareGroupRecordType.GROUP_EPOCH, name)
    groups.replay(ShareGroupRecord(key, None if epoch is None else GroupEpochValue(epoch)))


def test_a_group_begins_where_the_last_one_of_its_name_ended():
    groups = ShareGroups()
    change(groups, "g", 7)
    change(groups, "g", None)
    assert groups.find("g") is None
    assert groups.find_or_make("g").epoch == 7
    assert groups.find_or_make("other").epoch == FIRST_EPOCH


def test_a_creation_that_is_undone_leaves_no_epoch():
    groups = ShareGroups()
    key = ShareGroupKey(ShareGroupRecordType.GROUP_EPOCH, "g")
    groups.undo([groups.apply(ShareGroupRecord(key, GroupEpochValue(9)))])
    assert groups.find_or_make("g").epoch == FIRST_EPOCH


def test_epochs_of_very_many_deleted_groups_are_kept_as_one():
    groups = ShareGroups()
    for number in range(directory.ENDED_MAX + 1):
        change(groups, f"g{number}", 10_000_000 - number)
        change(groups, f"g{number}", None)
    assert groups.find_or_make("g0").epoch == 10_000_000
    assert groups.find_or_make("new").epoch == 10_000_000
    assert groups.find_or_make("g1").epoch == 9_999_999
