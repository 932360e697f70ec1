"""Share groups beside groups of other protocols: one name is one group, and no group of members gives way to another kind."""

import pytest

from esp.groups.effects import Transaction
from esp.groups.requests import LEAVE_EPOCH, CommittedOffset, OffsetFetch, TxnOffsetCommit
from esp.groups.share.requests import LEAVE_EPOCH as SHARE_LEAVE_EPOCH
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from tests.unit.groups.share.share_world import GROUP, ShareWorld
from tests.unit.groups.world import Topics, World


@pytest.fixture
def world():
    return ShareWorld(topics=Topics(t=1))


@pytest.mark.parametrize("has_member", [True, False])
def test_no_other_kind_of_member_joins_a_share_group(world, has_member):
    world.beat("a")
    if not has_member:
        world.beat("a", SHARE_LEAVE_EPOCH)
    assert world.error(world.join()) is ErrorCode.inconsistent_group_protocol
    refused = world.answers[world.consume("c")]
    assert refused.error is ErrorCode.group_id_not_found
    assert refused.error_message == f"Group {GROUP} is not a consumer group."
    assert world.answers[world.consume("c", LEAVE_EPOCH)].error_message == refused.error_message
    assert World.beat(world, "m", 1) is ErrorCode.unknown_member_id
    assert world.error(world.sync("m", 1)) is ErrorCode.unknown_member_id


def test_a_share_group_has_no_committed_offsets(world):
    world.beat("a")
    assert world.error(world.commit_offsets({("t", 0): 1})) is ErrorCode.group_id_not_found
    assert world.error(world.delete_offsets(("t", 0))) is ErrorCode.group_id_not_found
    fetched = world.coordinator.fetch_offsets(OffsetFetch(group_id=GROUP, partitions=(TopicPartition("t", 0),)))
    assert (fetched.error, fetched.offsets[0].offset) == (ErrorCode.none, -1)


def test_a_transaction_does_not_commit_offsets_of_a_share_group(world):
    world.beat("a")
    offsets = (CommittedOffset(TopicPartition("t", 0), 1),)
    request = TxnOffsetCommit(group_id=GROUP, transaction=Transaction(1, 0, None), offsets=offsets)
    ticket = world.ask(world.coordinator.commit_transactional_offsets, request)
    assert world.error(ticket) is ErrorCode.group_id_not_found


@pytest.mark.parametrize("make", ["offsets", "classic", "consumer"])
def test_a_share_group_takes_no_name_of_another_group(world, make):
    if make == "offsets":
        world.commit_offsets({("t", 0): 1})
    elif make == "classic":
        world.join()
    else:
        world.consume("c")
    assert world.beat("a") is ErrorCode.group_id_not_found
    assert world.answers[world.share("a", SHARE_LEAVE_EPOCH)].error_message == f"Group {GROUP} is not a share group."
    assert world.answers[world.alter({("t", 0): 1})].error is ErrorCode.group_id_not_found
    assert world.answers[world.describe_offsets()].offsets == ()


def test_descriptions_say_of_which_kind_a_group_is_not(world):
    world.beat("a")
    assert world.describe().error_message == f"Group {GROUP} is not a classic group."
    consumers = world.coordinator.describe_consumer_group(GROUP)
    assert (consumers.error, consumers.error_message) == (
        ErrorCode.group_id_not_found,
        f"Group {GROUP} is not a consumer group.",
    )
    world.join(group="classic")
    world.sleep(3_000)
    assert world.described("classic").error_message == "Group classic is not a share group."
    none = world.described("none")
    assert (none.error, none.error_message, none.state) == (ErrorCode.group_id_not_found, "Group none not found.", "")


def test_share_groups_are_listed_by_their_type(world):
    world.beat("a")
    world.commit_offsets({("t", 0): 1}, group="classic")
    [listed] = world.groups(types=("Share",)).values()
    assert listed == (GROUP, "share", "Stable", "share")
    assert set(world.groups()) == {GROUP, "classic"}
    assert set(world.groups(states=("empty",))) == {"classic"}


def test_a_deleted_share_group_makes_room_for_another_kind(world):
    world.beat("a")
    world.beat("a", SHARE_LEAVE_EPOCH)
    world.delete_group()
    world.consume("c")
    after = world.restart()
    assert after.coordinator.describe_consumer_group(GROUP).state == "Stable"
    assert after.described().error is ErrorCode.group_id_not_found


def test_of_a_name_with_records_of_several_kinds_the_later_one_counts(world):
    share = ShareWorld(topics=world.topics)
    share.beat("a")
    world.consume("c")
    both = ShareWorld(log=world.log + share.log, topics=world.topics)
    assert set(both.groups()) == {GROUP}
    assert both.described().state == "Stable"
    other = ShareWorld(log=share.log + world.log, topics=world.topics)
    assert other.coordinator.describe_consumer_group(GROUP).state == "Stable"
    assert other.described().error is ErrorCode.group_id_not_found


def test_where_share_groups_are_not_offered_their_records_are_skipped(world):
    world.beat("a")
    without = World(log=world.log, topics=world.topics)
    assert not without.groups()
