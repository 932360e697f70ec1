"""The assignors against what they promise: every partition once, balance, no needless move."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.groups.consumer.assignors import ASSIGNORS, AssignedTopic, Subscriber
from esp.protocol.progress import whole
from esp.schemas.consumer_group_records import TopicIdPartition
from tests.models import assignors_at_once
from tests.unit.groups.world import topic_id

RACKS = ("a", "b", "c")


def assign(name, members, topics):
    return whole(ASSIGNORS[name](members, topics))


def assign_uniform(members, topics):
    return assign("uniform", members, topics)


def assign_range(members, topics):
    return assign("range", members, topics)


def topics_of(*counts, racks=None):
    found = {}
    for number, count in enumerate(counts):
        of_partitions = tuple((racks or {}).get((number, one), frozenset()) for one in range(count))
        found[topic_id(number)] = AssignedTopic(topic_id(number), of_partitions)
    return found


def subscriber(name, *topics, before=(), rack=None, instance=None):
    return Subscriber(name, instance, rack, frozenset(map(topic_id, topics)), frozenset(before))


def partitions(topic, *numbers):
    return {TopicIdPartition(topic_id(topic), number) for number in numbers}


def all_partitions(topics):
    return {TopicIdPartition(one, number) for one, topic in topics.items() for number in range(len(topic.racks))}


@st.composite
def groups(draw, *, alike=False):
    counts = draw(st.lists(st.integers(0, 7), min_size=1, max_size=4))
    racks = draw(
        st.dictionaries(
            st.tuples(st.integers(0, 3), st.integers(0, 6)), st.frozensets(st.sampled_from(RACKS), max_size=2)
        )
    )
    topics = topics_of(*counts, racks=racks)
    gone = TopicIdPartition(topic_id(9), 0), TopicIdPartition(topic_id(0), 99)
    every = [*sorted(all_partitions(topics)), *gone]
    subsets = st.frozensets(st.sampled_from(range(len(counts))))
    shared = draw(subsets)
    members = [
        subscriber(
            f"m{number}",
            *(shared if alike else draw(subsets)),
            before=draw(st.frozensets(st.sampled_from(every))),
            rack=draw(st.sampled_from((None, *RACKS))),
            instance=draw(st.none() | st.just(f"i{number}")),
        )
        for number in range(draw(st.integers(1, 6)))
    ]
    return members, topics


def check_whole(assigned, members, topics):
    """Each partition of a subscribed topic has one member, which is subscribed to it."""
    counts = Counter(partition for mine in assigned.values() for partition in mine)
    subscribed = set().union(*(one.topics for one in members))
    assert set(counts) == {one for one in all_partitions(topics) if one.topic_id in subscribed}
    assert set(counts.values()) <= {1}
    assert assigned.keys() == {one.member_id for one in members}
    for one in members:
        assert all(partition.topic_id in one.topics for partition in assigned[one.member_id])


def settled(members, assigned):
    return [one._replace(before=assigned[one.member_id]) for one in members]


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(groups())
def test_each_partition_has_one_subscriber(name, group):
    members, topics = group
    check_whole(assign(name, members, topics), members, topics)


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(groups())
def test_what_is_assigned_stays_as_it_is(name, group):
    members, topics = group
    assigned = assign(name, members, topics)
    assert assign(name, settled(members, assigned), topics) == assigned


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(groups() | groups(alike=True))
def test_steps_change_no_assignment(name, group):
    members, topics = group
    assert assign(name, members, topics) == assignors_at_once.ASSIGNORS[name](members, topics)


@given(groups(alike=True))
def test_members_of_one_subscription_have_the_same_number_to_one(group):
    members, topics = group
    sizes = [len(mine) for mine in assign_uniform(members, topics).values()]
    assert max(sizes) - min(sizes) <= 1


@given(groups(alike=True))
def test_no_more_partitions_move_than_balance_asks(group):
    members, topics = group
    subscribed = {one for one in all_partitions(topics) if one.topic_id in members[0].topics}
    kept, taken = {}, set()
    for one in sorted(members):
        kept[one.member_id] = (one.before & subscribed) - taken
        taken |= kept[one.member_id]
    size, extra = divmod(len(subscribed), len(members))
    rooms = [size + 1] * extra + [size] * (len(members) - extra)
    stay = sum(map(min, sorted(map(len, kept.values()), reverse=True), rooms))
    assigned = assign_uniform(sorted(members), topics)
    assert sum(len(kept[name] & mine) for name, mine in assigned.items()) == stay


@given(groups())
def test_no_member_can_give_one_to_a_member_that_has_less_by_two(group):
    members, topics = group
    assigned = assign_uniform(members, topics)
    for giver in members:
        for taker in members:
            if len(assigned[taker.member_id]) <= len(assigned[giver.member_id]) - 2:
                assert all(one.topic_id not in taker.topics for one in assigned[giver.member_id])


def test_a_chain_of_moves_balances_members_that_share_no_topic():
    topics = topics_of(4, 1)
    a = subscriber("a", 0, before=partitions(0, 0, 1, 2))
    b = subscriber("b", 0, 1, before=partitions(0, 3) | partitions(1, 0))
    c = subscriber("c", 1)
    sizes = {name: len(mine) for name, mine in assign_uniform([a, b, c], topics).items()}
    assert sorted(sizes.values()) == [1, 2, 2]
    assert sizes["c"] == 1


def test_a_partition_goes_to_a_member_in_a_rack_of_its_replicas():
    racks = {(0, number): frozenset({RACKS[number % 2]}) for number in range(6)}
    topics = topics_of(6, racks=racks)
    assigned = assign_uniform([subscriber("x", 0, rack="b"), subscriber("y", 0, rack="a")], topics)
    assert assigned == {"x": partitions(0, 1, 3, 5), "y": partitions(0, 0, 2, 4)}


def test_a_member_gives_up_what_is_far_first():
    racks = {(0, number): frozenset({RACKS[number % 2]}) for number in range(4)}
    topics = topics_of(4, racks=racks)
    x = subscriber("x", 0, rack="b", before=partitions(0, 0, 1, 2, 3))
    assert assign_uniform([x, subscriber("y", 0)], topics)["x"] == partitions(0, 1, 3)


def test_ranges_of_topics_with_equally_many_partitions_lie_side_by_side():
    topics = topics_of(5, 5, 2)
    assigned = assign_range([subscriber("b", 0, 1, 2), subscriber("a", 0, 1)], topics)
    assert assigned["a"] == partitions(0, 0, 1, 2) | partitions(1, 0, 1, 2)
    assert assigned["b"] == partitions(0, 3, 4) | partitions(1, 3, 4) | partitions(2, 0, 1)


def test_static_members_come_first_in_ranges():
    assigned = assign_range([subscriber("a", 0), subscriber("b", 0, instance="z")], topics_of(3))
    assert {name: len(mine) for name, mine in assigned.items()} == {"b": 2, "a": 1}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_no_members_get_nothing(name):
    assert assign(name, [], topics_of(3)) == {}
