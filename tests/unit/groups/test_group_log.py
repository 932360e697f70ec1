from esp.groups.group_log import load_group
from esp.schemas.group_records import GroupMetadataValue


def test_a_leader_that_is_no_member_of_its_record_leads_nothing():
    value = GroupMetadataValue("consumer", 3, None, "gone", 1_000, ())
    assert load_group("g", value).leader_id is None
