import pytest

from esp.model.errors import ErrorCode
from tests.unit.groups.world import DELAY_MS, REBALANCE_MS, SESSION_MS, World


def joined(world, size=2):
    """A generation without assignments: the ids, the leader's first."""
    tickets = [world.join() for _ in range(size)]
    world.sleep(2 * DELAY_MS if size > 1 else DELAY_MS)
    return [world.answers[ticket].member_id for ticket in tickets]


def test_all_wait_for_the_leader_and_are_answered_when_its_assignments_are_committed():
    world = World()
    leader, follower = joined(world)
    world.is_stuck = True
    following = world.sync(follower, 1)
    leading = world.sync(leader, 1, {leader: b"L", follower: b"F", "stranger": b"S"})
    assert world.open_tickets() == {following, leading}
    assert world.state() == "CompletingRebalance"
    world.commit()
    assert world.answers[leading].assignment == b"L"
    assert world.answers[following].assignment == b"F"
    assert (world.answers[following].protocol_type, world.answers[following].protocol_name) == ("consumer", "range")
    assert world.state() == "Stable"


def test_member_that_the_leader_left_out_has_an_empty_assignment():
    world = World()
    leader, follower = joined(world)
    following = world.sync(follower, 1)
    world.sync(leader, 1, {leader: b"L"})
    assert (world.answers[following].error, world.answers[following].assignment) == (ErrorCode.none, b"")


def test_member_of_a_stable_group_gets_its_assignment_at_once():
    world = World()
    leader, follower = joined(world)
    world.sync(leader, 1, {follower: b"F"})
    assert world.answers[world.sync(follower, 1)].assignment == b"F"


def test_group_is_committed_as_kafka_reads_it():
    world = World()
    leader, follower = world.stable(2)
    again = world.restart()
    described = again.describe()
    assert described.state == "Stable"
    assert described.protocol_name == "range"
    assert {member.member_id: member.assignment for member in described.members} == {
        leader: leader.encode(),
        follower: follower.encode(),
    }


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group": "other"}, ErrorCode.unknown_member_id),
        ({"group": ""}, ErrorCode.invalid_group_id),
        ({"member_id": "stranger"}, ErrorCode.unknown_member_id),
        ({"generation_id": 2}, ErrorCode.illegal_generation),
        ({"group_instance_id": "one"}, ErrorCode.unknown_member_id),
        ({"protocol_name": "sticky"}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
    ],
)
def test_who_is_no_member_of_the_generation_is_refused(changes, error):
    world = World()
    (member,) = joined(world, 1)
    result = world.answers[world.sync(**{"member_id": member, "generation_id": 1, **changes})]
    assert (result.error, result.assignment, result.protocol_name) == (error, b"", None)


def test_member_of_a_group_that_rebalances_is_to_join():
    world = World()
    leader, _follower = world.stable(2)
    world.join()
    assert world.error(world.sync(leader, 1)) is ErrorCode.rebalance_in_progress


def test_rebalance_answers_those_that_wait_for_the_leader():
    world = World()
    _leader, follower = joined(world)
    ticket = world.sync(follower, 1)
    world.join()
    assert world.error(ticket) is ErrorCode.rebalance_in_progress


def test_assignments_that_cannot_be_written_are_an_error_for_all_and_a_rebalance():
    world = World()
    leader, follower = joined(world)
    world.is_stuck = True
    tickets = world.sync(follower, 1), world.sync(leader, 1, {leader: b"L"})
    world.fail(ErrorCode.message_too_large)
    assert [world.error(ticket) for ticket in tickets] == [ErrorCode.unknown_server_error] * 2
    assert world.state() == "PreparingRebalance"


def test_assignments_that_are_not_committed_in_time_are_an_error_for_all_and_a_rebalance():
    world = World()
    leader, follower = joined(world)
    world.is_stuck = True
    tickets = world.sync(follower, 1), world.sync(leader, 1, {leader: b"L"})
    world.sleep(5_000)
    assert [world.error(ticket) for ticket in tickets] == [ErrorCode.coordinator_not_available] * 2
    assert world.state() == "PreparingRebalance"
    world.commit()
    assert world.state() == "PreparingRebalance", "what is committed now is of a generation that is over"


def test_assignments_of_an_old_generation_are_not_handed_out():
    world = World()
    leader, follower = joined(world)
    world.is_stuck = True
    world.sync(leader, 1, {leader: b"old"})
    newcomer = world.join()
    for member in (leader, follower):
        world.join(member)
    assert world.answers[newcomer].generation_id == 2
    waiting = world.sync(follower, 2)
    world.commit()
    assert waiting in world.open_tickets()
    assert world.state() == "CompletingRebalance"


def test_members_that_do_not_sync_in_time_are_sent_away():
    world = World()
    leader, follower = joined(world)
    ticket = world.sync(follower, 1)
    for _ in range(REBALANCE_MS // SESSION_MS * 2):
        world.sleep(SESSION_MS // 2)
        world.beat(leader, 1)
    assert world.error(ticket) is ErrorCode.rebalance_in_progress
    assert world.beat(leader, 1) is ErrorCode.unknown_member_id
    assert [member.member_id for member in world.describe().members] == [follower]


def test_sync_that_is_sent_twice_answers_the_first_of_both():
    world = World()
    leader, follower = joined(world)
    first, second = world.sync(follower, 1), world.sync(follower, 1)
    assert world.error(first) is ErrorCode.rebalance_in_progress
    world.sync(leader, 1, {follower: b"F"})
    assert world.answers[second].assignment == b"F"


def test_member_that_waits_for_its_assignment_needs_no_heartbeat():
    world = World()
    leader, follower = joined(world)
    ticket = world.sync(follower, 1)
    world.sleep(SESSION_MS - 1)
    world.beat(leader, 1)
    world.sleep(SESSION_MS - 1)
    world.sync(leader, 1, {follower: b"F"})
    assert world.answers[ticket].assignment == b"F"
    world.sleep(SESSION_MS - 1)
    assert world.beat(follower, 1) is ErrorCode.none
