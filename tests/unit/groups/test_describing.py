from esp.model.errors import ErrorCode
from tests.unit.groups.world import RANGE, World


def test_members_of_a_stable_group_are_described_whole():
    world = World()
    (member_id,) = world.stable()
    described = world.describe()
    assert (described.error, described.state) == (ErrorCode.none, "Stable")
    assert (described.protocol_type, described.protocol_name) == ("consumer", "range")
    (member,) = described.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "client", "/127.0.0.1")
    assert (member.metadata, member.assignment) == (RANGE[0].metadata, member_id.encode())


def test_members_of_other_groups_are_described_by_their_last_assignment_without_what_they_say():
    world = World()
    (member_id,) = world.stable()
    world.join()
    described = world.describe()
    assert (described.state, described.protocol_type, described.protocol_name) == ("PreparingRebalance", "consumer", "")
    assert {(member.metadata, member.assignment) for member in described.members} == {
        (b"", member_id.encode()),
        (b"", b""),
    }


def test_group_that_is_not_there_is_dead():
    described = World().describe("nope")
    assert (described.error, described.state) == (ErrorCode.group_id_not_found, "Dead")
    assert described.error_message == "Group nope not found."


def test_groups_are_listed_by_state_and_type_without_regard_to_case():
    world = World()
    world.stable(group="stable")
    world.commit_offsets({("t", 0): 1}, group="empty")
    assert set(world.groups()) == {"stable", "empty"}
    assert set(world.groups(states=("sTABLE",))) == {"stable"}
    assert set(world.groups(states=("Empty", "Stable"), types=("CLASSIC",))) == {"stable", "empty"}
    assert set(world.groups(types=("consumer", "classic"))) == {"stable", "empty"}
    assert world.groups(types=("consumer",)) == {}
    assert world.groups(states=("Bogus",)) == {}
