from esp.groups.requests import Protocol
from esp.model.errors import ErrorCode
from tests.unit.groups.world import DELAY_MS, World, subscription


def static(world, **more):
    return world.stable(group_instance_id="one", **more)


def test_static_member_that_comes_back_keeps_its_generation_and_assignment():
    world = World()
    (former,) = static(world)
    result = world.answers[world.join(group_instance_id="one", supports_skipping_assignment=True)]
    assert result.error is ErrorCode.none
    assert result.generation_id == 1
    assert result.member_id != former
    assert result.leader == result.member_id
    assert result.skip_assignment
    assert [member.member_id for member in result.members] == [result.member_id]
    ticket = world.sync(result.member_id, 1, group_instance_id="one")
    assert world.answers[ticket].assignment == former.encode()


def test_static_leader_that_cannot_skip_is_told_of_another_leader():
    world = World()
    (former,) = static(world)
    result = world.answers[world.join(group_instance_id="one")]
    assert (result.leader, result.members, result.skip_assignment) == (former, (), False)


def test_former_id_of_a_static_member_is_fenced():
    world = World()
    (former,) = static(world)
    world.join(group_instance_id="one")
    fenced = ErrorCode.fenced_instance_id
    assert world.beat(former, 1, instance="one") is fenced
    assert world.beat(former, 1) is ErrorCode.unknown_member_id
    assert world.error(world.sync(former, 1, group_instance_id="one")) is fenced
    assert world.error(world.join(former, group_instance_id="one")) is fenced
    assert world.answers[world.leave((former, "one"))].members[0].error is fenced
    offsets = world.commit_offsets({("t", 0): 1}, member_id=former, generation_id=1, group_instance_id="one")
    assert world.error(offsets) is fenced


def test_waiting_join_of_the_former_is_fenced():
    world = World()
    former = world.join(group_instance_id="one")
    latter = world.join(group_instance_id="one")
    assert world.error(former) is ErrorCode.fenced_instance_id
    world.sleep(2 * DELAY_MS)
    assert world.answers[latter].generation_id == 1
    assert len(world.describe().members) == 1


def test_static_member_that_comes_back_while_assignments_are_made_rebalances():
    world = World()
    ticket = world.join(group_instance_id="one")
    world.sleep(DELAY_MS)
    former = world.answers[ticket].member_id
    again = world.join(group_instance_id="one")
    assert world.answers[again].generation_id == 2
    assert world.answers[again].member_id != former


def test_static_member_that_changes_the_protocol_of_the_group_rebalances():
    world = World()
    a, b = Protocol("a", b""), Protocol("b", b"")
    ticket = world.join(group_instance_id="one", protocols=(a, b))
    world.sleep(DELAY_MS)
    member = world.answers[ticket].member_id
    world.sync(member, 1, {member: b"x"}, group_instance_id="one")
    again = world.answers[world.join(group_instance_id="one", protocols=(b, a))]
    assert (again.generation_id, again.protocol_name) == (2, "b")


def test_return_is_told_once_it_is_committed():
    world = World()
    (former,) = static(world)
    world.is_stuck = True
    ticket = world.join(group_instance_id="one")
    assert ticket in world.open_tickets()
    world.commit()
    assert world.error(ticket) is ErrorCode.none
    assert world.restart().describe().members[0].member_id == world.answers[ticket].member_id != former


def test_member_whose_return_takes_longer_than_its_session_is_not_there_for_ever():
    world = World(group_min_session_timeout_ms=1_000)
    static(world)
    world.is_stuck = True
    ticket = world.join(group_instance_id="one", session_ms=1_000)
    world.sleep(2_000)
    world.commit()
    assert world.error(ticket) is ErrorCode.none
    world.is_stuck = False
    world.sleep(2_000)
    assert world.describe().members == ()


def test_return_that_cannot_be_written_is_undone():
    world = World()
    (former,) = static(world)
    world.is_stuck = True
    ticket = world.join(group_instance_id="one", session_ms=30_000)
    world.fail(ErrorCode.not_enough_replicas)
    result = world.answers[ticket]
    assert (result.error, result.member_id, result.leader) == (ErrorCode.coordinator_not_available, "", former)
    assert world.beat(former, 1, instance="one") is ErrorCode.none
    world.sleep(10_000)
    world.commit()
    assert world.describe().members == (), "its own session timeout counts again"


def test_rebalance_answers_a_return_that_is_not_committed():
    world = World()
    static(world)
    world.is_stuck = True
    returning = world.join(group_instance_id="one")
    newcomer = world.join()
    assert world.answers[returning].generation_id == world.answers[newcomer].generation_id == 2
    world.commit()


def test_two_returns_in_a_row_leave_one_member():
    world = World()
    static(world)
    world.is_stuck = True
    first, second = world.join(group_instance_id="one"), world.join(group_instance_id="one")
    world.commit()
    assert world.error(first) is ErrorCode.fenced_instance_id
    (member,) = world.describe().members
    assert world.answers[second].member_id == member.member_id


def test_static_member_keeps_its_place_in_a_rebalance_that_it_misses():
    world = World()
    (leader,) = static(world, session_ms=600_000)
    newcomer = world.join(session_ms=600_000)
    world.sleep(60_000)
    result = world.answers[newcomer]
    assert result.generation_id == 2
    assert result.leader == result.member_id != leader
    assert {member.member_id for member in result.members} == {leader, result.member_id}


def test_rebalance_that_only_missing_static_members_are_left_of_is_put_off():
    world = World()
    (member,) = static(world, session_ms=600_000, rebalance_ms=10_000)
    newcomer = world.join(session_ms=600_000, rebalance_ms=10_000)
    member_id = world.describe().members[1].member_id
    world.leave(member_id)
    assert world.error(newcomer) is ErrorCode.unknown_member_id
    world.sleep(25_000)
    assert world.state() == "PreparingRebalance"
    ticket = world.join(member, group_instance_id="one", protocols=(Protocol("range", subscription("t")),))
    assert world.answers[ticket].generation_id == 2
