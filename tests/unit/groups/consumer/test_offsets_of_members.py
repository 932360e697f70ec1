"""Offsets of consumer groups: which members may commit and fetch them, and how long they stay (KIP-848, KIP-1251)."""

import pytest

from esp.groups.effects import Transaction
from esp.groups.requests import LEAVE_EPOCH, CommittedOffset, OffsetFetch, TxnOffsetCommit
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from tests.unit.groups.world import GROUP, Topics, World

DAY_MS = 86_400_000


@pytest.fixture
def world():
    """Member ``a`` got partitions 0 to 3 in epoch 2, gave some of them to ``b``, and is in epoch 3."""
    world = World(topics=Topics(t=4), offsets_retention_ms=DAY_MS, consumer_session_timeout_ms=100 * DAY_MS)
    world.consume("a")
    world.sleep(1_000)
    world.consume("b")
    kept = world.answers[world.consume("a", 2)].assignment
    world.consume("a", 2, owned=kept)
    world.consume("b", 3, owned=())
    world.kept = sorted(one.partition for one in kept)
    world.given = sorted({0, 1, 2, 3} - set(world.kept))
    return world


def commit(world, member_id, epoch, *numbers, topic="t", knows=True):
    offsets = {(topic, number): 10 for number in numbers}
    ticket = world.commit_offsets(offsets, member_id=member_id, generation_id=epoch, knows_member_epochs=knows)
    return [part.error for part in world.answers[ticket].partitions]


def fetch_error(world, member_id, epoch, group=GROUP):
    request = OffsetFetch(group_id=group, member_id=member_id, member_epoch=epoch, partitions=None)
    return world.coordinator.fetch_offsets(request).error


def test_a_member_commits_in_its_epoch_for_any_partition(world):
    assert commit(world, "a", 3, 0, 1, 2, 3) == [ErrorCode.none] * 4


def test_a_commit_of_an_older_epoch_counts_for_what_the_member_has_had_since(world):
    assert commit(world, "a", 2, world.kept[0], world.given[0]) == [ErrorCode.none, ErrorCode.stale_member_epoch]
    assert commit(world, "b", 2, world.given[0]) == [ErrorCode.stale_member_epoch]
    assert commit(world, "a", 1, world.kept[0]) == [ErrorCode.stale_member_epoch]
    assert commit(world, "a", 2, 0, topic="unknown") == [ErrorCode.stale_member_epoch]


def test_what_is_to_be_given_back_may_be_committed_still(world):
    world.consume("c")
    world.sleep(1_000)
    world.consume("c", 3)
    left = world.answers[world.consume("b", 3)].assignment
    [pending] = set(world.given) - {one.partition for one in left}
    assert commit(world, "b", 3, pending) == [ErrorCode.none]
    world.consume("b", 3, owned=left)
    assert commit(world, "b", 3, pending) == [ErrorCode.stale_member_epoch]


def test_commits_that_are_refused_as_a_whole(world):
    assert commit(world, "a", 4, 0) == [ErrorCode.stale_member_epoch]
    assert commit(world, "stranger", 3, 0) == [ErrorCode.unknown_member_id]
    assert commit(world, "", -1, 0) == [ErrorCode.unknown_member_id]
    assert commit(world, "a", 3, 0, knows=False) == [ErrorCode.unsupported_version]


def test_strangers_commit_for_an_empty_group(world):
    for member in "ab":
        world.consume(member, LEAVE_EPOCH)
    assert commit(world, "", -1, 0) == [ErrorCode.none]
    assert world.offsets() == {("t", 0): 10}
    assert world.restart().coordinator.describe_consumer_group(GROUP).state == "Empty"


def test_a_transaction_names_a_member_or_none(world):
    def commit_in_transaction(member_id, epoch, *numbers):
        request = TxnOffsetCommit(
            group_id=GROUP,
            transaction=Transaction(7, 0, None),
            member_id=member_id,
            generation_id=epoch,
            offsets=tuple(CommittedOffset(TopicPartition("t", number), 5) for number in numbers or world.given[:1]),
        )
        ticket = world.ask(world.coordinator.commit_transactional_offsets, request)
        return [part.error for part in world.answers[ticket].partitions]

    assert commit_in_transaction("", -1) == [ErrorCode.none]
    assert commit_in_transaction("a", 3) == [ErrorCode.none]
    assert commit_in_transaction("a", 2, world.kept[0]) == [ErrorCode.none]
    assert commit_in_transaction("a", 2, world.kept[0], world.given[0]) == 2 * [ErrorCode.illegal_generation], (
        "no producer knows STALE_MEMBER_EPOCH: it would end instead of aborting"
    )
    assert commit_in_transaction("a", 4) == [ErrorCode.illegal_generation]
    assert commit_in_transaction("x", 3) == [ErrorCode.unknown_member_id]


def test_a_member_fetches_in_its_epoch_and_others_name_none(world):
    assert fetch_error(world, "a", 3) is ErrorCode.none
    assert fetch_error(world, None, -1) is ErrorCode.none
    assert fetch_error(world, "a", 2) is ErrorCode.stale_member_epoch
    assert fetch_error(world, "a", 4) is ErrorCode.stale_member_epoch
    assert fetch_error(world, "", -1) is ErrorCode.unknown_member_id
    assert fetch_error(world, "anybody", 7, group="no group") is ErrorCode.none


def test_offsets_of_subscribed_topics_stay(world):
    world.topics.create("u", 1)
    commit(world, "a", 3, 0)
    commit(world, "a", 3, 0, topic="u")
    assert world.error(world.delete_offsets(("t", 0))) is ErrorCode.group_subscribed_to_topic
    assert world.error(world.delete_offsets(("u", 0))) is ErrorCode.none
    commit(world, "a", 3, 0, topic="u")
    world.sleep(2 * DAY_MS)
    assert world.offsets() == {("t", 0): 10}


def test_an_empty_group_goes_with_its_last_offset(world):
    commit(world, "a", 3, 0)
    for member in "ab":
        world.consume(member, LEAVE_EPOCH)
    world.sleep(DAY_MS // 2)
    assert world.groups()[GROUP][2:] == ("Empty", "consumer")
    world.sleep(DAY_MS)
    assert (world.groups(), world.offsets()) == ({}, {})
    assert world.restart().groups() == {}


def test_a_group_is_deleted_when_it_is_empty(world):
    commit(world, "a", 3, 0)
    assert world.error(world.delete_group()) is ErrorCode.non_empty_group
    for member in "ab":
        world.consume(member, LEAVE_EPOCH)
    assert world.error(world.delete_group()) is ErrorCode.none
    assert world.error(world.delete_group()) is ErrorCode.group_id_not_found
    again = world.restart()
    assert (again.groups(), again.offsets()) == ({}, {})


def test_a_deletion_that_fails_leaves_the_group(world):
    for member in "ab":
        world.consume(member, LEAVE_EPOCH)
    before = world.coordinator.describe_consumer_group(GROUP)
    world.is_stuck = True
    ticket = world.delete_group()
    world.fail()
    world.is_stuck = False
    assert world.error(ticket) is ErrorCode.coordinator_not_available
    assert world.coordinator.describe_consumer_group(GROUP) == before
    assert world.error(world.delete_group()) is ErrorCode.none


# Beside groups of the classic protocol.


def test_groups_are_listed_by_type_and_state(world):
    world.stable(group="classic")
    world.commit_offsets({("t", 0): 1}, group="simple")
    assert {name: listed.group_type for name, listed in world.groups().items()} == {
        "classic": "classic",
        "simple": "classic",
        GROUP: "consumer",
    }
    assert set(world.groups(types=("Consumer",))) == {GROUP}
    assert set(world.groups(states=("stable",))) == {GROUP, "classic"}
    assert world.groups(types=("share",)) == {}
    assert world.describe().error_message == f"Group {GROUP} is not a classic group."
    described = world.coordinator.describe_consumer_group("classic")
    assert described.error_message == "Group classic is not a consumer group."


def test_a_classic_group_with_members_is_no_consumer_group(world):
    world.stable(group="classic")
    assert world.error(world.consume("a", group="classic")) is ErrorCode.group_id_not_found


@pytest.mark.parametrize("is_simple", [True, False])
def test_an_empty_classic_group_gives_way_and_its_offsets_stay(world, is_simple):
    if not is_simple:
        [member] = world.stable(group="classic")
        world.leave(member, group="classic")
    world.commit_offsets({("t", 0): 7}, group="classic")
    assert world.error(world.consume("a", group="classic")) is ErrorCode.none
    for each in (world, world.restart()):
        assert each.groups()["classic"].group_type == "consumer"
        assert each.offsets("classic") == {("t", 0): 7}


def test_an_empty_classic_group_is_back_if_it_cannot_give_way(world):
    world.commit_offsets({("t", 0): 7}, group="classic")
    world.is_stuck = True
    world.consume("a", group="classic")
    world.fail()
    assert world.groups()["classic"].group_type == "classic"
    world.is_stuck = False
    assert world.error(world.consume("a", group="classic")) is ErrorCode.none


def test_an_empty_consumer_group_gives_way_to_a_classic_one(world):
    commit(world, "a", 3, 0)
    for member in "ab":
        world.consume(member, LEAVE_EPOCH)
    world.stable()
    for each in (world, world.restart()):
        assert each.groups()[GROUP].group_type == "classic"
        assert each.offsets() == {("t", 0): 10}
