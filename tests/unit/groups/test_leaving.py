import pytest

from esp.groups.responses import LeaveResult, LeftMember
from esp.model.errors import ErrorCode
from tests.unit.groups.world import DELAY_MS, GROUP, SESSION_MS, World


def left(world, *members, **more):
    return [member.error for member in world.answers[world.leave(*members, **more)].members]


def test_member_that_leaves_makes_the_others_rebalance():
    world = World()
    leader, follower = world.stable(2)
    assert left(world, follower) == [ErrorCode.none]
    assert world.state() == "PreparingRebalance"
    assert world.beat(leader, 1) is ErrorCode.rebalance_in_progress
    again = world.join(leader)
    assert world.answers[again].generation_id == 2


def test_last_member_that_leaves_makes_the_group_empty_once_that_is_committed():
    world = World()
    (member,) = world.stable()
    world.is_stuck = True
    ticket = world.leave(member)
    assert ticket in world.open_tickets()
    world.commit()
    assert world.error(ticket) is ErrorCode.none
    again = world.restart().describe()
    assert (again.state, again.protocol_type, again.protocol_name, again.members) == ("Empty", "consumer", "", ())


def test_leave_of_the_last_member_that_cannot_be_written_is_an_error_and_the_group_is_empty():
    world = World()
    (member,) = world.stable()
    world.is_stuck = True
    ticket = world.leave(member)
    world.fail(ErrorCode.not_leader_or_follower)
    assert world.answers[ticket] == LeaveResult(error=ErrorCode.not_coordinator)
    assert world.state() == "Empty"


def test_generation_goes_on_after_the_group_was_empty():
    world = World()
    (member,) = world.stable()
    world.leave(member)
    ticket = world.join()
    world.sleep(DELAY_MS)
    assert world.answers[ticket].generation_id == 3, "the empty one was 2"


def test_batch_of_members_leaves_and_each_hears_of_itself():
    world = World()
    leader, follower = world.stable(2)
    ticket = world.leave(leader, "stranger", follower)
    assert world.answers[ticket].members == (
        LeftMember(leader, None, ErrorCode.none),
        LeftMember("stranger", None, ErrorCode.unknown_member_id),
        LeftMember(follower, None, ErrorCode.none),
    )
    assert world.state() == "Empty"


def test_stranger_that_leaves_makes_no_member_rebalance():
    world = World()
    (member,) = world.stable()
    assert left(world, "stranger") == [ErrorCode.unknown_member_id]
    assert world.state() == "Stable"
    assert world.beat(member, 1) is ErrorCode.none


def test_administrator_sends_a_static_member_away_by_its_instance():
    world = World()
    (member,) = world.stable(group_instance_id="one")
    assert left(world, ("", "two"), ("", None), ("", "one")) == [
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
        ErrorCode.none,
    ]
    assert world.beat(member, 1) is ErrorCode.unknown_member_id


def test_group_that_is_not_there_has_no_such_member():
    world = World()
    result = world.answers[world.leave("a", ("", "one"))]
    assert result == LeaveResult(
        members=(
            LeftMember("a", None, ErrorCode.unknown_member_id),
            LeftMember("", "one", ErrorCode.unknown_member_id),
        )
    )
    assert world.error(world.leave("a", group="")) is ErrorCode.invalid_group_id


def test_client_that_was_given_an_id_may_leave_with_it():
    world = World()
    (member,) = world.stable()
    pending = world.answers[world.join(known=True)].member_id
    waiting = world.join(member)
    assert left(world, pending) == [ErrorCode.none]
    assert world.answers[waiting].generation_id == 2


def test_member_that_leaves_while_it_waits_is_answered():
    world = World()
    leader, follower = world.stable(2)
    joining = world.join(follower, protocols=())
    assert world.error(joining) is ErrorCode.inconsistent_group_protocol
    joining = world.join(leader)
    world.leave(leader)
    assert world.error(joining) is ErrorCode.unknown_member_id


def test_leave_during_the_first_delay_leaves_an_empty_generation():
    world = World()
    ticket = world.join(group_instance_id="one")
    world.leave(("", "one"))
    assert world.error(ticket) is ErrorCode.unknown_member_id
    assert world.state() == "PreparingRebalance"
    world.sleep(DELAY_MS)
    assert world.state() == "Empty"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({}, ErrorCode.none),
        ({"group": "other"}, ErrorCode.unknown_member_id),
        ({"group": ""}, ErrorCode.invalid_group_id),
        ({"member_id": "stranger"}, ErrorCode.unknown_member_id),
        ({"generation_id": 2}, ErrorCode.illegal_generation),
        ({"instance": "one"}, ErrorCode.unknown_member_id),
    ],
)
def test_heartbeat_of_a_member_of_the_generation_alone_is_good(changes, error):
    world = World()
    (member,) = world.stable()
    assert world.beat(**{"member_id": member, "generation_id": 1, **changes}) is error


def test_silent_member_is_sent_away_after_its_session():
    world = World()
    leader, follower = world.stable(2)
    world.sleep(SESSION_MS - 1)
    assert world.beat(leader, 1) is ErrorCode.none
    world.sleep(1)
    assert world.beat(follower, 1) is ErrorCode.unknown_member_id
    assert world.beat(leader, 1) is ErrorCode.rebalance_in_progress


def test_heartbeats_keep_a_member_for_any_time():
    world = World()
    (member,) = world.stable()
    for _ in range(100):
        world.sleep(SESSION_MS - 1)
        assert world.beat(member, 1) is ErrorCode.none
    world.sleep(SESSION_MS)
    assert world.state() == "Empty"


def test_member_that_falls_silent_does_not_hold_up_a_rebalance_for_longer_than_its_session():
    world = World()
    leader, _follower = world.stable(2)
    ticket = world.join(leader)
    world.sleep(SESSION_MS)
    assert world.answers[ticket].generation_id == 2
    assert [member.member_id for member in world.answers[ticket].members] == [leader]


def test_dynamic_member_that_does_not_join_in_time_is_sent_away():
    world = World()
    leader, follower = world.stable(2, rebalance_ms=15_000)
    ticket = world.join(leader, rebalance_ms=15_000)
    for _ in range(5):
        world.sleep(3_000)
        world.beat(follower, 1)
    assert world.answers[ticket].generation_id == 2
    assert world.beat(follower, 1) is ErrorCode.unknown_member_id


def test_commit_counts_as_a_heartbeat():
    world = World()
    (member,) = world.stable()
    world.sleep(SESSION_MS - 1)
    world.commit_offsets({("t", 0): 5}, member_id=member, generation_id=1)
    world.sleep(SESSION_MS - 1)
    assert world.beat(member, 1) is ErrorCode.none


def test_groups_do_not_concern_one_another():
    world = World()
    (member,) = world.stable()
    world.stable(group="other")
    world.sleep(SESSION_MS // 2)
    world.beat(member, 1)
    world.sleep(SESSION_MS // 2)
    assert (world.state(GROUP), world.state("other")) == ("Stable", "Empty")
