"""The assignor ``simple``: nobody without a partition, no partition without a member, in balance, and with few moves."""

import uuid
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.groups.share.assignor import ShareSubscriber, assign_simple
from esp.groups.steps import SteppedWork
from esp.model.ids import TopicId
from esp.schemas.consumer_group_records import TopicIdPartition

T, U, V = (TopicId(uuid.UUID(int=number)) for number in (1, 2, 3))


def assign(subscribers, partitions):
    """The whole assignment."""
    numbers = {}
    for partition in partitions:
        numbers.setdefault(partition.topic_id, set()).add(partition.partition)
    work = SteppedWork(assign_simple(subscribers, numbers))
    assert work.go_on(1_000_000)
    return work.result


def of(topic, count):
    return [TopicIdPartition(topic, number) for number in range(count)]


def members(count, *topics, before=None):
    names = [f"m{number:03}" for number in range(count)]
    return [ShareSubscriber(name, frozenset(topics), (before or {}).get(name, frozenset())) for name in names]


def sizes(assignment):
    return sorted(map(len, assignment.values()), reverse=True)


@pytest.mark.parametrize(
    ("member_count", "partition_count", "expected"),
    [
        (1, 4, [4]),
        (2, 4, [2, 2]),
        (3, 4, [2, 1, 1]),
        (4, 4, [1, 1, 1, 1]),
        (3, 2, [2, 1, 1]),
        (5, 2, [2, 1, 1, 1, 1]),
        (6, 2, [1, 1, 1, 1, 1, 1]),
        (2, 1, [1, 1]),
    ],
)
def test_sizes_are_those_of_kafka(member_count, partition_count, expected):
    assignment = assign(members(member_count, T), of(T, partition_count))
    assert sizes(assignment) == expected
    readers = Counter(partition for found in assignment.values() for partition in found)
    assert set(readers.values()) == {-(-member_count // partition_count)}


def test_without_partitions_members_have_nothing():
    assert assign(members(2, T), []) == {"m000": frozenset(), "m001": frozenset()}
    assert assign([], of(T, 1)) == {}
    assert assign(members(1), of(T, 1)) == {"m000": frozenset()}


def test_a_member_that_comes_takes_no_more_than_its_share():
    before = assign(members(2, T), of(T, 6))
    after = assign(members(3, T, before=before), of(T, 6))
    assert sizes(after) == [2, 2, 2]
    assert all(after[name] < found for name, found in before.items())


def test_a_member_that_goes_leaves_the_others_what_they_have():
    before = assign(members(3, T), of(T, 6))
    after = assign(members(2, T, before=before), of(T, 6))
    assert all(after[name] > before[name] for name in after)


def test_partitions_of_which_there_is_no_state_any_more_are_taken_away():
    before = {"m000": frozenset(of(T, 4))}
    assert assign(members(1, T, before=before), of(T, 2)) == {"m000": frozenset(of(T, 2))}


def test_members_of_different_topics_share_what_they_have_in_common():
    both = ShareSubscriber("both", frozenset((T, U)), frozenset())
    only = ShareSubscriber("only", frozenset((T,)), frozenset())
    assignment = assign([both, only], of(T, 2) + of(U, 1))
    assert sizes(assignment) == [2, 1]
    assert of(U, 1)[0] in assignment["both"]


subscriptions = st.lists(st.frozensets(st.sampled_from((T, U, V))), min_size=1, max_size=9)
counts = st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))


@given(subscriptions, counts, subscriptions, counts)
def test_each_partition_has_a_member_and_each_member_a_partition_and_the_rest_stays(old, old_sizes, new, new_sizes):
    def at(topics, many, before):
        partitions = [one for topic, count in zip((T, U, V), many, strict=True) for one in of(topic, count)]
        subscribers = [
            ShareSubscriber(f"m{number}", names, before.get(f"m{number}", frozenset()))
            for number, names in enumerate(topics)
        ]
        return subscribers, partitions, assign(subscribers, partitions)

    _, _, first = at(old, old_sizes, {})
    subscribers, partitions, second = at(new, new_sizes, first)
    names = {one.member_id: one.topics for one in subscribers}
    assert second.keys() == names.keys()
    readers = Counter(partition for found in second.values() for partition in found)
    for partition in partitions:
        subscribed = [name for name, topics in names.items() if partition.topic_id in topics]
        assert bool(readers[partition]) == bool(subscribed)
    for name, found in second.items():
        assert {one.topic_id for one in found} <= names[name]
        assert bool(found) == any(one.topic_id in names[name] for one in partitions)
    if len(set(names.values())) == 1:
        assert max(sizes(second)) - min(sizes(second)) <= 1
    again = [ShareSubscriber(one.member_id, one.topics, second[one.member_id]) for one in subscribers]
    assert assign(again, partitions) == second, "a second look moves nothing"
