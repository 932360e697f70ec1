"""ShareGroupHeartbeat: members join, share partitions, leave and are fenced; as measured on Kafka 4.3.1."""

import pytest

from esp.groups.settings import ShareGroupSettings
from esp.groups.share.requests import LEAVE_EPOCH, ShareGroupHeartbeat
from esp.model.errors import ErrorCode
from tests.unit.groups.share.share_world import GROUP, INTERVAL_MS, SESSION_MS, ShareWorld
from tests.unit.groups.world import Topics


@pytest.fixture
def world():
    return ShareWorld(topics=Topics(t=4, u=1))


def pair(world):
    """Two members in epoch 4, each with its half."""
    world.assigned()
    world.sleep(INTERVAL_MS)
    [epoch, half] = world.beat("b")
    assert (epoch, len(half)) == (4, 2)
    [epoch, other] = world.beat("a", 3)
    assert (epoch, sorted(half + other)) == (4, [0, 1, 2, 3])


def test_the_first_member_gets_its_partitions_when_they_are_initialised_and_the_interval_is_over(world):
    assert world.beat("a") == (2, [])
    assert world.types_since(0) == [10, 11, 13, 12, 14, 15, 15]
    place = len(world.log)
    assert world.beat("a", 2) == (2, None)
    world.sleep(INTERVAL_MS)
    assert world.beat("a", 2) == (3, [0, 1, 2, 3])
    assert world.types_since(place) == [11, 13, 12, 14]


def test_members_share_the_partitions_and_give_nothing_back_first(world):
    pair(world)
    group = world.described()
    assert (group.state, group.epoch, group.assignment_epoch) == ("Stable", 4, 4)
    assert [member.epoch for member in group.members] == [4, 4]


def test_where_members_are_more_than_partitions_each_partition_has_several():
    world = ShareWorld(topics=Topics(t=2))
    world.assigned()
    for number in range(4):
        world.beat(f"m{number}")
    world.sleep(INTERVAL_MS)
    epochs = {member.member_id: member.epoch for member in world.described().members}
    for member_id, epoch in epochs.items():
        world.beat(member_id, epoch)
    assert sorted(len(member.assigned) for member in world.described().members) == [1, 1, 1, 1, 2]


def test_nothing_is_written_by_a_heartbeat_that_changes_nothing(world):
    pair(world)
    place = len(world.log)
    world.sleep(5_000)
    assert world.beat("a", 4) == (4, None)
    assert world.beat("a", 4, topics=("t", "t"))[0] == 4
    assert len(world.log) == place


def test_a_member_at_rest_is_known_to_be(world):
    """That the answers are the same is looked at with each heartbeat of these tests."""
    pair(world)
    for _ in range(3):
        world.sleep(SESSION_MS - 1_000)
        assert world.beat("a", 4) == (4, None)
        assert world.beat("b", 4) == (4, None)
    assert world.at_rest == 6
    world.share("a", 4, topics=("t",))
    world.share("a", 4, rack_id="r")
    assert world.at_rest == 6
    world.topics.create("t", 5)
    world.beat("a", 4)
    assert world.at_rest == 6


def test_a_member_that_joins_again_or_says_its_topics_is_told_what_it_has(world):
    world.assigned()
    assert world.beat("a") == (3, [0, 1, 2, 3])
    assert world.beat("a", 3, topics=("t",)) == (3, [0, 1, 2, 3])
    assert world.beat("a", 3) == (3, None)


def test_an_answer_that_was_lost_is_given_again(world):
    world.assigned()
    assert world.beat("a", 2) == (3, [0, 1, 2, 3])
    assert world.beat("a", 1) is ErrorCode.fenced_member_epoch
    assert world.beat("a", 4) is ErrorCode.fenced_member_epoch


def test_a_member_that_subscribes_to_something_else_loses_the_partitions_of_the_former_topic_at_once(world):
    world.assigned()
    assert world.beat("a", 3, topics=("u",)) == (3, [])
    world.sleep(INTERVAL_MS)
    assert world.beat("a", 3) == (4, [0])


def test_a_member_that_leaves_leaves_its_partitions_to_the_others(world):
    pair(world)
    place = len(world.log)
    assert world.beat("b", LEAVE_EPOCH) == (LEAVE_EPOCH, None)
    assert world.types_since(place) == [-14, -13, -10, 11]
    world.sleep(INTERVAL_MS)
    assert world.beat("a", 4) == (5, [0, 1, 2, 3])


def test_the_last_member_leaves_an_empty_group_at_rest(world):
    world.assigned()
    world.beat("a", LEAVE_EPOCH)
    group = world.described()
    assert (group.state, group.epoch, group.assignment_epoch) == ("Empty", 4, 4)
    assert world.restart().described() == group


def test_one_that_comes_back_to_an_empty_group_has_the_partitions_at_once(world):
    world.assigned()
    world.beat("a", LEAVE_EPOCH)
    world.sleep(INTERVAL_MS)
    assert world.beat("a") == (5, [0, 1, 2, 3])


def test_a_silent_member_is_fenced(world):
    pair(world)
    world.sleep(SESSION_MS - 1)
    world.beat("a", 4)
    world.sleep(1)
    assert [member.member_id for member in world.described().members] == ["a"]
    assert world.beat("b", 4) is ErrorCode.unknown_member_id


def test_members_have_a_full_session_at_the_next_coordinator(world):
    pair(world)
    world.sleep(SESSION_MS - 1)
    after = world.restart()
    after.sleep(SESSION_MS - 1)
    assert len(after.described().members) == 2
    after.sleep(1)
    assert after.described().state == "Empty"


def test_a_group_has_times_of_its_own(world):
    world.topics.configs[GROUP] = {"share.session.timeout.ms": "50000", "share.heartbeat.interval.ms": "7000"}
    ticket = world.share("a")
    assert world.answers[ticket].heartbeat_interval_ms == 7_000
    world.sleep(49_999)
    assert world.described().state == "Stable"
    world.sleep(1)
    assert world.described().state == "Empty"


def test_a_heartbeat_at_rest_gives_its_member_the_session_of_its_group():
    world = ShareWorld(topics=Topics(t=1))
    world.topics.configs[GROUP] = {"share.session.timeout.ms": "50000"}
    world.assigned()
    request = ShareGroupHeartbeat(
        group_id=GROUP, member_id="a", member_epoch=3, client_id="client of a", client_host="/127.0.0.1"
    )
    assert world.beat("a", 3) == (3, None)
    for _ in range(2):
        world.sleep(49_999)
        assert world.coordinator.shares.beat_at_rest(request, world.now) is not None
    world.sleep(49_999)
    assert world.described().state == "Stable"
    world.sleep(1)
    assert world.described().state == "Empty"


def test_a_full_group_takes_no_other_member():
    world = ShareWorld(topics=Topics(t=1), share=ShareGroupSettings(max_size=1))
    world.assigned()
    assert world.beat("b") is ErrorCode.group_max_size_reached
    assert world.beat("a") == (3, [0])


@pytest.mark.parametrize(
    "request_",
    [
        {"member_id": ""},
        {"member_id": "a", "group": ""},
        {"member_id": "a", "rack_id": ""},
        {"member_id": "a", "topics": ()},
        {"member_id": "a", "epoch": -2},
        {"member_id": "a" * 40_000},
    ],
)
def test_odd_requests_are_refused(world, request_):
    assert world.beat(**request_) is ErrorCode.invalid_request
    assert not world.log


def test_a_member_s_id_is_as_long_as_share_partitions_take_it(world):
    assert world.beat("\u00e9" * 36) == (2, [])
    assert world.beat("a" * 37) is ErrorCode.invalid_request
    assert world.beat("a", group="g" * 40_000) is ErrorCode.invalid_request


GREATER = "The share group member has a greater member epoch"
SMALLER = "The share group member has a smaller member epoch"
THAN = "than the one known by the group coordinator"
REJOIN = "The member must abandon all its partitions and rejoin."


def test_refusals_have_the_words_of_kafka(world):
    world.assigned()
    told = {
        "MemberEpoch is invalid.": world.share("a", -2),
        "RackId can't be empty.": world.share("a", rack_id=""),
        "SubscribedTopicNames must be set in first request.": world.share("a", topics=()),
        "Share group no not found.": world.share("a", 3, group="no"),
        "Group no not found.": world.share("a", LEAVE_EPOCH, group="no"),
        "Member b is not a member of group group.": world.share("b", 3),
        f"{GREATER} (9) {THAN} (3). {REJOIN}": world.share("a", 9),
        f"{SMALLER} (1) {THAN} (3), and it does not match the previous member epoch (2). {REJOIN}": world.share("a", 1),
    }
    assert [world.answers[ticket].error_message for ticket in told.values()] == list(told)


def test_groups_and_members_that_are_not_there_are_not_found(world):
    assert world.beat("a", 1) is ErrorCode.group_id_not_found
    assert world.beat("a", LEAVE_EPOCH) is ErrorCode.group_id_not_found
    world.assigned()
    assert world.beat("b", 3) is ErrorCode.unknown_member_id
    assert world.beat("b", LEAVE_EPOCH) is ErrorCode.unknown_member_id


def test_a_heartbeat_that_the_log_does_not_take_is_as_if_it_had_not_come(world):
    world.assigned()
    before = world.described()
    world.is_stuck = True
    ticket = world.share("b")
    world.fail()
    assert world.answers[ticket].error is ErrorCode.coordinator_not_available
    assert world.described() == before
    world.is_stuck = False
    world.sleep(INTERVAL_MS)
    assert world.beat("b")[0] == 4


def test_a_member_that_could_not_be_fenced_is_looked_at_again(world):
    world.assigned()
    world.is_stuck = True
    world.sleep(SESSION_MS)
    world.fail()
    world.is_stuck = False
    assert world.described().state == "Stable"
    world.sleep(1_000)
    assert world.described().state == "Empty"


def test_a_topic_that_is_created_later_is_assigned_then(world):
    assert world.beat("a", topics=("t", "later")) == (2, [])
    world.sleep(INTERVAL_MS)
    assert world.beat("a", 2) == (3, [0, 1, 2, 3])
    world.topics.create("later", 1)
    world.sleep(INTERVAL_MS)
    assert world.beat("a", 3) == (4, None)
    world.sleep(INTERVAL_MS)
    assert world.beat("a", 4) == (5, [0, 0, 1, 2, 3])
