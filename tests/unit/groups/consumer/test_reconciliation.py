"""A member on its way to its target, and many of them at once: no partition has two members, and all arrive."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.groups.consumer.group import NOTHING
from esp.groups.consumer.reconciliation import TRANSITIONS, Goal, MemberStep, reconcile
from esp.schemas.consumer_group_records import CurrentValue, MemberState, TopicIdPartition
from tests.unit.groups.world import topic_id

STABLE, UNREVOKED, UNRELEASED = MemberState


def of(*numbers, epoch=1):
    return {TopicIdPartition(topic_id(0), number): epoch for number in numbers}


def member(epoch, assigned, pending=(), state=STABLE, previous=0, since=1):
    return CurrentValue(epoch, previous, state, of(*assigned, epoch=since), of(*pending, epoch=since))


def goal(epoch, *numbers, changed=False, topics=(0,)):
    ids = {topic_id(one) for one in topics}
    return Goal(epoch, frozenset(of(*numbers)), changed, lambda partition: partition.topic_id in ids)


def step(current, to, owned=None, taken=()):
    taken = of(*taken)
    return reconcile(current, to, None if owned is None else set(of(*owned)), lambda one: one not in taken)


def test_a_member_at_its_target_stays():
    current = member(3, (1, 2))
    assert step(current, goal(3, 1, 2), owned=(1, 2)) is current


def test_a_new_member_gets_what_is_free():
    assert step(NOTHING, goal(2, 1, 2, 3), owned=(), taken=(2,)) == CurrentValue(
        2, 0, UNRELEASED, of(1, 3, epoch=2), {}
    )


def test_what_stays_keeps_its_epoch():
    assert step(member(3, (1,)), goal(4, 1, 2)).assigned == of(1) | of(2, epoch=4)


@pytest.mark.parametrize("owned", [None, (1, 2)])
def test_partitions_are_given_back_before_the_epoch_rises(owned):
    found = step(member(3, (1, 2)), goal(4, 2, 5), owned=owned)
    assert found == CurrentValue(3, 3, UNREVOKED, of(2), of(1))


def test_what_the_member_does_not_have_need_not_be_given_back():
    found = step(member(3, (1, 2)), goal(4, 2, 5), owned=(2,))
    assert found == CurrentValue(4, 3, STABLE, of(2) | of(5, epoch=4), {})


@pytest.mark.parametrize("owned", [None, (1, 2), (1,)])
def test_a_member_that_does_not_say_so_has_given_nothing_back(owned):
    current = member(3, (2,), pending=(1,), state=UNREVOKED)
    assert step(current, goal(4, 2), owned=owned) is current


def test_a_member_goes_on_when_it_has_given_back():
    current = member(3, (2,), pending=(1,), state=UNREVOKED, previous=3)
    assert step(current, goal(5, 2, 3), owned=(2,)) == CurrentValue(5, 3, STABLE, of(2) | of(3, epoch=5), {})


def test_a_partition_may_come_back_that_was_given_back():
    current = member(3, (2,), pending=(1,), state=UNREVOKED, previous=3)
    assert step(current, goal(5, 1, 2), owned=(2,)).assigned == of(2) | of(1, epoch=5)


def test_a_member_waits_until_others_have_given_back():
    current = member(4, (2,), state=UNRELEASED, previous=3)
    assert step(current, goal(4, 1, 2), taken=(1,)) == current._replace(previous_epoch=4)
    assert step(current, goal(4, 1, 2)) == CurrentValue(4, 4, STABLE, of(2) | of(1, epoch=4), {})


@pytest.mark.parametrize("owned", [None, (1, 2)])
def test_topics_that_a_member_leaves_go_at_once(owned):
    current = member(3, (1, 2))
    found = step(current, goal(3, 1, 2, changed=True, topics=()), owned=owned)
    assert found == CurrentValue(3, 3, UNREVOKED, {}, of(1, 2))


def test_topics_that_a_member_leaves_join_what_it_must_give_back():
    current = member(3, (2,), pending=(1,), state=UNREVOKED, previous=3)
    found = step(current, goal(4, 2, changed=True, topics=()), owned=(1, 2))
    assert found == CurrentValue(3, 3, UNREVOKED, {}, of(1, 2))


def test_topics_that_a_member_leaves_and_does_not_have_are_forgotten():
    assert step(member(3, (1, 2)), goal(3, changed=True, topics=()), owned=()) == member(3, ())


class _Client:
    """A member as its client sees itself: it has what it was told, until it has given it back."""

    def __init__(self):
        self.current = NOTHING
        self.owned = set()


@given(st.integers(0, 2**32))
def test_no_partition_has_two_members_and_all_arrive(seed):
    """Members of changing groups, whose answers get lost and that give back late or say nothing."""
    rng = random.Random(seed)
    clients = {name: _Client() for name in "abcd"}
    partitions = sorted(of(*range(6)))
    targets, epoch = {}, 0

    def beat(name, *, is_quick=False):
        client = clients[name]
        if is_quick or rng.random() < 0.6:
            client.owned &= set(client.current.assigned)
        says = is_quick or rng.random() < 0.7

        def is_free(partition):
            return not any(
                partition in other.current.assigned or partition in other.current.pending_revocation
                for one, other in clients.items()
                if one != name
            )

        to = Goal(epoch, targets.get(name, frozenset()), False, lambda _one: True)
        client.current = reconcile(client.current, to, frozenset(client.owned) if says else None, is_free)
        if is_quick or rng.random() < 0.8:
            client.owned |= set(client.current.assigned)
        for partition in partitions:
            assert sum(partition in each.owned for each in clients.values()) <= 1

    for _ in range(60):
        if rng.random() < 0.2:
            epoch += 1
            names = rng.sample("abcd", rng.randrange(1, 5))
            owner = {partition: rng.choice(names) for partition in partitions}
            targets = {name: frozenset(one for one in partitions if owner[one] == name) for name in "abcd"}
        beat(rng.choice("abcd"))
    for _ in range(4):
        for name in "abcd":
            beat(name, is_quick=True)
    for name, client in clients.items():
        assert client.current.state is STABLE
        assert client.owned == targets.get(name, frozenset())


def test_a_step_leads_to_the_same_state_from_each():
    after = {MemberStep.RETURN: UNREVOKED, MemberStep.WAIT: UNRELEASED, MemberStep.ARRIVE: STABLE}
    assert {(state, step): after[step] for state in MemberState for step in MemberStep} == TRANSITIONS
