import pytest

from esp.groups.requests import Protocol
from esp.model.errors import ErrorCode
from tests.unit.groups.world import DELAY_MS, GROUP, RANGE, SESSION_MS, World, subscription


def test_first_rebalance_waits_for_more_members_and_begins_generation_1():
    world = World()
    first = world.join()
    second = world.join(client_id="other")
    world.sleep(DELAY_MS - 1)
    assert world.open_tickets() == {first, second}
    world.sleep(DELAY_MS + 1)
    leader, follower = world.answers[first], world.answers[second]
    assert leader.generation_id == follower.generation_id == 1
    assert leader.member_id == leader.leader == follower.leader
    assert leader.member_id.startswith("client-")
    assert follower.member_id.startswith("other-")
    assert {member.member_id for member in leader.members} == {leader.member_id, follower.member_id}
    assert leader.members[0].metadata == subscription("t")
    assert follower.members == ()
    assert (leader.protocol_type, leader.protocol_name, leader.skip_assignment) == ("consumer", "range", False)


def test_each_newcomer_extends_the_first_rebalance_up_to_the_rebalance_timeout():
    world = World()
    tickets = [world.join(rebalance_ms=7_000)]
    for _ in range(6):
        world.sleep(1_000)
        tickets.append(world.join(rebalance_ms=7_000))
    assert world.answers == {}
    world.sleep(1_000)
    assert len(world.answers) == 7, "3 s, 3 s again, and the 1 s that is left of 7"


def test_first_rebalance_without_a_newcomer_is_not_extended():
    world = World()
    ticket = world.join()
    world.sleep(DELAY_MS)
    assert world.error(ticket) is ErrorCode.none


def test_no_delay_begins_the_generation_as_soon_as_the_time_is_looked_at():
    world = World(group_initial_rebalance_delay_ms=0)
    ticket = world.join()
    world.sleep(0)
    assert world.error(ticket) is ErrorCode.none


def test_dynamic_member_is_given_an_id_first_and_joins_with_it():
    world = World()
    required = world.answers[world.join(known=True)]
    assert required.error is ErrorCode.member_id_required
    assert required.generation_id == -1
    assert world.state() == "Empty"
    ticket = world.join(required.member_id, known=True)
    world.sleep(DELAY_MS)
    assert world.answers[ticket].member_id == required.member_id


def test_static_member_needs_no_id_first():
    world = World()
    ticket = world.join(known=True, group_instance_id="one")
    world.sleep(DELAY_MS)
    assert world.answers[ticket].member_id.startswith("one-")


def test_id_with_which_nobody_joined_is_forgotten_after_the_session_timeout():
    world = World()
    member_id = world.answers[world.join(known=True)].member_id
    world.sleep(SESSION_MS)
    assert world.error(world.join(member_id, known=True)) is ErrorCode.unknown_member_id


def test_rebalance_waits_for_a_client_that_was_given_an_id():
    world = World()
    (member,) = world.stable()
    pending = world.answers[world.join(known=True)].member_id
    again = world.join(member)
    assert again in world.open_tickets(), "the leader's join rebalances"
    world.sleep(SESSION_MS - 1)
    assert again in world.open_tickets()
    world.sleep(1)
    assert world.error(again) is ErrorCode.none
    assert world.error(world.join(pending, known=True)) is ErrorCode.unknown_member_id


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"group": ""}, ErrorCode.invalid_group_id),
        ({"group": "g" * 40_000}, ErrorCode.invalid_group_id),
        ({"session_ms": 5_999}, ErrorCode.invalid_session_timeout),
        ({"session_ms": 1_800_001}, ErrorCode.invalid_session_timeout),
        ({"protocols": ()}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_type": ""}, ErrorCode.inconsistent_group_protocol),
        ({"client_id": "c" * 32_767}, ErrorCode.invalid_request),
        ({"group_instance_id": "é" * 20_000}, ErrorCode.invalid_request),
    ],
)
def test_what_no_group_could_take_is_refused(more, error):
    world = World()
    result = world.answers[world.join(**more)]
    assert (result.error, result.member_id, result.generation_id) == (error, "", -1)


def test_member_id_of_an_unknown_group_is_unknown_and_makes_no_group():
    world = World()
    result = world.answers[world.join("member-1")]
    assert (result.error, result.member_id) == (ErrorCode.unknown_member_id, "member-1")
    assert world.groups() == {}


def test_client_without_a_common_protocol_is_refused():
    world = World()
    world.stable()
    assert world.error(world.join(protocols=(Protocol("sticky", b""),))) is ErrorCode.inconsistent_group_protocol
    assert world.error(world.join(protocol_type="connect")) is ErrorCode.inconsistent_group_protocol


def test_protocol_that_most_prefer_among_those_all_know_is_chosen():
    world = World()
    a, b, c = Protocol("a", b"a"), Protocol("b", b"b"), Protocol("c", b"c")
    tickets = [world.join(protocols=protocols) for protocols in ((a, b), (b, c, a), (c, b, a))]
    world.sleep(2 * DELAY_MS)
    assert {world.answers[ticket].protocol_name for ticket in tickets} == {"b"}
    leader = world.answers[tickets[0]]
    assert {member.metadata for member in leader.members} == {b"b"}


def test_member_that_repeats_its_join_is_told_the_generation():
    world = World()
    _leader, follower = world.stable(2)
    result = world.answers[world.join(follower)]
    assert (result.error, result.generation_id, result.members) == (ErrorCode.none, 1, ())
    assert world.state() == "Stable"


def test_leader_that_repeats_its_join_before_it_synced_hears_of_the_members_again():
    world = World()
    member = world.answers[_joined(world)].member_id
    again = world.answers[world.join(member)]
    assert [joined.member_id for joined in again.members] == [member]
    assert world.state() == "CompletingRebalance"


def _joined(world, **more):
    ticket = world.join(**more)
    world.sleep(DELAY_MS)
    return ticket


def test_leader_that_joins_a_stable_group_rebalances_it():
    world = World()
    leader, follower = world.stable(2)
    leading = world.join(leader)
    assert world.state() == "PreparingRebalance"
    assert world.beat(follower, 1) is ErrorCode.rebalance_in_progress
    following = world.join(follower)
    assert world.answers[leading].generation_id == world.answers[following].generation_id == 2


def test_member_with_other_metadata_rebalances_the_group():
    world = World()
    _leader, follower = world.stable(2)
    world.join(follower, protocols=(Protocol("range", subscription("other")),))
    assert world.state() == "PreparingRebalance"


def test_join_that_is_sent_twice_answers_the_first_of_both():
    world = World()
    leader, follower = world.stable(2)
    first = world.join(leader)
    second = world.join(leader)
    assert world.error(first) is ErrorCode.rebalance_in_progress
    world.join(follower)
    assert world.answers[second].generation_id == 2


def test_new_member_may_wait_longer_than_its_session_but_not_forever():
    world = World()
    (leader,) = world.stable(rebalance_ms=1_000_000)
    ticket = world.join()
    heartbeats = 0
    while ticket in world.open_tickets() and heartbeats < 100:
        world.sleep(5_000)
        heartbeats += 1
        world.beat(leader, 1)
    assert heartbeats == 60, "300 s"
    assert world.error(ticket) is ErrorCode.unknown_member_id


def test_group_that_is_full_takes_no_more():
    world = World(group_max_size=2)
    world.stable(2)
    result = world.answers[world.join()]
    assert (result.error, result.member_id) == (ErrorCode.group_max_size_reached, "")


def test_while_members_join_those_that_have_joined_count():
    world = World(group_max_size=2)
    leader, follower = world.stable(2)
    again, newcomer = world.join(leader), world.join()
    assert world.open_tickets() == {again, newcomer}, "the place of the follower is taken"
    assert world.error(world.join(follower)) is ErrorCode.group_max_size_reached
    assert world.answers[again].generation_id == 2, "nobody is missing any more"


def test_first_join_writes_the_group_as_kafka_does():
    world = World()
    world.join()
    (record,) = world.log
    assert record.key.hex() == "0002" + f"{len(GROUP):04x}" + GROUP.encode().hex()
    assert record.value.hex().startswith("00030000" + "00000000" + "ffff" + "ffff")


def test_group_whose_record_fails_is_gone_and_its_clients_are_told():
    world = World(is_stuck=True)
    first, second = world.join(), world.join()
    world.fail(ErrorCode.not_leader_or_follower)
    assert world.error(first) is world.error(second) is ErrorCode.not_coordinator
    assert world.groups() == {}
    world.is_stuck = False
    ticket = world.join()
    world.sleep(DELAY_MS)
    assert world.answers[ticket].generation_id == 1


def test_group_whose_record_fails_stays_if_offsets_of_it_are_committed():
    world = World(is_stuck=True)
    world.join(known=True)
    world.commit_offsets({("t", 0): 1})
    (first, second) = sorted(world.waiting)
    world.do(world.coordinator.on_committed(second, world.now))
    del world.waiting[second]
    world.fail(token=first)
    assert world.state() == "Empty"
    assert world.offsets() == {("t", 0): 1}


def test_group_is_listed_once_its_record_is_committed():
    world = World(is_stuck=True)
    world.join()
    assert world.groups() == {}
    assert world.describe().error is ErrorCode.group_id_not_found
    world.commit()
    assert set(world.groups()) == {GROUP}


def test_client_whose_group_is_not_committed_in_time_is_told():
    world = World(is_stuck=True, group_initial_rebalance_delay_ms=60_000)
    ticket = world.join()
    world.sleep(5_000)
    assert world.error(ticket) is ErrorCode.coordinator_not_available


def test_name_of_a_protocol_counts_once():
    world = World()
    _joined(world, protocols=(*RANGE, *RANGE))
    newcomer = world.join()
    assert newcomer in world.open_tickets()
    assert world.state() == "PreparingRebalance"
