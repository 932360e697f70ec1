"""AlterShareGroupOffsets and DescribeShareGroupOffsets."""

import pytest

from esp.groups.share.requests import LEAVE_EPOCH
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from tests.unit.groups.share.share_world import INTERVAL_MS, ShareWorld
from tests.unit.groups.world import Topics


@pytest.fixture
def world():
    """An empty group in epoch 3 that has read both partitions of ``t``."""
    world = ShareWorld(topics=Topics(t=2, u=2))
    world.beat("a")
    world.beat("a", LEAVE_EPOCH)
    return world


def errors(world, ticket):
    return [(one.partition, one.error) for one in world.answers[ticket].partitions]


def starts(world, *partitions, group="group"):
    answer = world.answers[world.describe_offsets(*partitions, group=group)]
    return {tuple(one.partition): one.start_offset for one in answer.offsets}


def of(world, number, topic="t"):
    [partition] = world.topics.partitions(topic, number)
    return partition


def test_offsets_are_those_of_the_share_coordinators(world):
    assert starts(world) == {("t", 0): -1, ("t", 1): -1}
    assert errors(world, world.alter({("t", 0): 7})) == [(("t", 0), ErrorCode.none)]
    assert starts(world) == {("t", 0): 7, ("t", 1): -1}
    assert starts(world, ("t", 0), ("u", 1), ("no", 0)) == {("t", 0): 7, ("u", 1): -1, ("no", 0): -1}


def test_partitions_that_are_not_there_have_no_offset_and_those_not_answered_for_an_error(world):
    answer = world.answers[world.describe_offsets(("no", 0), ("t", 5))]
    assert {(one.start_offset, one.leader_epoch, one.error) for one in answer.offsets} == {(-1, 0, ErrorCode.none)}
    world.is_deaf = True
    ticket = world.describe_offsets(("t", 0))
    world.lose()
    assert world.answers[ticket].offsets[0].error is ErrorCode.coordinator_not_available


def test_a_group_that_is_not_there_has_no_offsets(world):
    assert starts(world, ("t", 0), group="no") == {("t", 0): -1}
    assert starts(world, group="no") == {}


def test_each_alteration_has_a_state_epoch_of_its_own(world):
    world.alter({("t", 0): 7})
    world.alter({("t", 0): 3})
    assert world.states.made["group", of(world, 0)] == [2, 4, 5]
    assert (world.described().epoch, world.described().assignment_epoch) == (5, 5)


def test_an_alteration_makes_the_group(world):
    assert errors(world, world.alter({("u", 1): 4}, group="new")) == [(("u", 1), ErrorCode.none)]
    assert world.described("new").state == "Empty"
    assert starts(world, group="new") == {("u", 1): 4}


def test_the_other_partitions_of_an_altered_topic_begin_by_the_reset_setting_and_added_ones_at_zero(world):
    world.alter({("u", 1): 4}, group="new")
    world.topics.create("u", 3)
    world.beat("a", group="new", topics=("u",))
    assert [world.states.start(of(world, number, "u"), "new") for number in range(3)] == [-1, 4, 0]


@pytest.mark.parametrize(
    ("offset", "end", "error"),
    [
        (-2, None, ErrorCode.offset_out_of_range),
        (-5, 10, ErrorCode.offset_out_of_range),
        (11, 10, ErrorCode.offset_out_of_range),
        (10, 10, ErrorCode.none),
        (-1, 10, ErrorCode.none),
    ],
)
def test_offsets_that_no_record_can_have_are_refused(world, offset, end, error):
    assert errors(world, world.alter({("t", 0): offset}, end_offset=end)) == [(("t", 0), error)]


def test_partitions_that_are_not_there_are_refused_one_by_one(world):
    assert errors(world, world.alter({("t", 0): 1, ("t", 2): 1, ("no", 0): 1})) == [
        (("t", 0), ErrorCode.none),
        (("t", 2), ErrorCode.unknown_topic_or_partition),
        (("no", 0), ErrorCode.unknown_topic_or_partition),
    ]
    place = len(world.log)
    world.alter({("no", 0): 1})
    assert len(world.log) == place


def test_groups_with_members_and_impossible_ones_are_refused(world):
    world.beat("a")
    assert world.answers[world.alter({("t", 0): 1})].error is ErrorCode.non_empty_group
    assert world.answers[world.alter({("t", 0): 1}, group="")].error is ErrorCode.invalid_group_id


def test_an_alteration_that_fails_leaves_the_position(world):
    world.alter({("t", 0): 7})
    world.is_deaf = True
    ticket = world.alter({("t", 0): 3})
    world.lose()
    assert errors(world, ticket) == [(("t", 0), ErrorCode.coordinator_not_available)]
    world.is_deaf = False
    after = world.restart()
    after.beat("a")
    after.sleep(INTERVAL_MS)
    assert starts(after) == {("t", 0): 7, ("t", 1): -1}


def test_a_member_that_joins_meanwhile_does_not_undo_the_alteration(world):
    world.is_deaf = True
    ticket = world.alter({("u", 0): 4}, group="new")
    world.share("a", group="new", topics=("u",))
    world.is_deaf = False
    world.answer()
    assert errors(world, ticket) == [(("u", 0), ErrorCode.none)]
    assert world.states.start(of(world, 0, "u"), "new") == 4
    assert world.states.start(of(world, 1, "u"), "new") == -1


def test_what_the_log_does_not_take_is_not_altered(world):
    world.is_stuck = True
    ticket = world.alter({("t", 0): 3})
    world.fail()
    assert world.answers[ticket].error is ErrorCode.coordinator_not_available
    world.is_stuck = False
    assert starts(world) == {("t", 0): -1, ("t", 1): -1}


def test_a_topic_whose_states_are_being_deleted_is_altered_later(world):
    world.is_deaf = True
    world.delete_share_offsets("t")
    assert errors(world, world.alter({("t", 0): 3})) == [(("t", 0), ErrorCode.coordinator_not_available)]
    world.answer()
    world.is_deaf = False
    world.alter({("t", 0): 3})
    assert starts(world) == {("t", 0): 3}


def test_a_group_holds_partitions_of_which_it_has_states_and_of_topics_that_are_there(world):
    t0, u0, gone = TopicPartition("t", 0), TopicPartition("u", 0), TopicPartition("no", 0)
    world.beat("b", group="other", topics=("t", "u"))
    find = world.coordinator.shares.find_held
    assert find({t0: ["group"], u0: ["group"], gone: ["group"]}) == {"group": (t0,)}
    assert find({t0: ["*"], u0: ["*"]}) == {"group": (t0,), "other": (t0, u0)}
    assert find({t0: ["no*", "oth*"], u0: ["no"]}) == {"other": (t0,)}
    world.delete_group("group")
    assert find({t0: ["group"]}) == {}
