import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.groups.group import Group, GroupEvent, GroupState, Member
from esp.groups.requests import Protocol
from esp.model.errors import ApiError, ErrorCode


def member(member_id, *names, instance=None):
    return Member(
        member_id=member_id,
        group_instance_id=instance,
        client_id="c",
        client_host="h",
        rebalance_timeout_ms=1000,
        session_timeout_ms=1000,
        protocols=tuple(Protocol(name, b"") for name in names),
    )


def group_of(*members):
    group = Group("g", 0)
    for each in members:
        group.add(each, "consumer")
    return group


@given(
    st.lists(st.permutations(["x", "a", "b", "c"]).flatmap(lambda names: st.integers(1, 4).map(lambda n: names[:n])))
)
def test_protocol_is_one_that_all_know_and_most_prefer(choices):
    known = [[*names, "x"] if "x" not in names else names for names in choices]
    if not known:
        return
    group = group_of(*(member(str(number), *names) for number, names in enumerate(known)))
    common = set.intersection(*map(set, known))
    votes = [next(name for name in names if name in common) for names in known]
    chosen = group.select_protocol()
    assert chosen in common
    assert votes.count(chosen) == max(map(votes.count, common))


def test_place_of_a_leader_that_leaves_goes_to_the_member_that_is_there_longest():
    members = [member(name, "range") for name in "abc"]
    group = group_of(*members)
    assert group.leader_id == "a"
    group.remove(members[0])
    assert group.leader_id == "b"
    group.remove(members[1])
    group.remove(members[2])
    assert group.leader_id is None
    assert len(group) == 0


def test_renamed_member_is_what_it_was():
    static = member("a", "range", instance="one")
    group = group_of(static, member("b", "range"))
    group.pending_syncs.add("a")
    group.rename(static, "a2")
    assert group.leader_id == "a2"
    assert group.pending_syncs == {"a2"}
    assert group.find_static("one") is group.find("a2") is static
    with pytest.raises(ApiError) as fenced:
        group.require_member("a", "one")
    assert fenced.value.code is ErrorCode.fenced_instance_id


def test_members_that_wait_are_counted_once():
    members = [member(name, "range") for name in "ab"]
    group = group_of(*members)
    for each in (members[0], members[0], members[1]):
        group.set_join_ticket(each, "ticket")
    assert group.has_all_joined
    group.set_join_ticket(members[0], None)
    group.set_join_ticket(members[0], None)
    assert group.joining_count == 1


def test_event_that_cannot_happen_in_a_state_is_a_bug():
    with pytest.raises(KeyError):
        Group("g", 0).transit(GroupEvent.ASSIGNMENT_COMMITTED, 0)


def test_generation_after_the_last_number_is_1():
    group = group_of(member("a", "range"))
    group.generation_id = 2**31 - 1
    group.transit(GroupEvent.REBALANCE_NEEDED, 0)
    group.begin_generation(5)
    assert (group.generation_id, group.state, group.state_since_ms) == (1, GroupState.COMPLETING_REBALANCE, 5)
