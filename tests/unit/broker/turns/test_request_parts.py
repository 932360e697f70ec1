"""Requests divided and answers put together, against the whole, for whatever is nested however."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.broker.turns.request_parts import PARTS, JoinedAnswer, Lists, lists_of, split
from esp.model.errors import ErrorCode
from esp.protocol import messages
from esp.protocol.entity_fields import entity_fields
from esp.protocol.registry import SERVED, ApiKey


@dataclasses.dataclass(frozen=True)
class Group:
    name: int
    topics: tuple["Topic", ...] | None


@dataclasses.dataclass(frozen=True)
class Topic:
    name: int
    partitions: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Message:
    groups: tuple[Group, ...]
    error_code: ErrorCode = ErrorCode.none


NESTED = ("groups", "topics", "partitions")
topics = st.builds(Topic, st.integers(0, 3), st.lists(st.integers(0, 9), max_size=7).map(tuple))
groups = st.builds(Group, st.integers(0, 3), st.none() | st.lists(topics, max_size=5).map(tuple))
requests = st.builds(Message, st.lists(groups, max_size=5).map(tuple))


def plain(value):
    """With tuples for lists, which the answer has where it was put together."""
    if dataclasses.is_dataclass(value):
        return dataclasses.replace(value, **{name: plain(inner) for name, inner in vars(value).items()})
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def innermost(message):
    """How many elements a part has; a group or topic with nothing in it counts for one."""
    return sum(
        sum(len(topic.partitions) or 1 for topic in group.topics) if group.topics else 1 for group in message.groups
    )


@given(requests, st.integers(1, 6))
def test_answers_to_parts_become_the_answer_to_the_whole(message, size):
    lists = Lists(NESTED, NESTED, size)
    joined = JoinedAnswer(lists)
    for part in split(message, lists):
        assert innermost(part.message) <= size
        assert joined.add(part, part.message)  # an answer of the request's own form
    assert plain(joined.result()) == message


@given(st.lists(topics, max_size=5).map(tuple), st.integers(1, 6))
def test_an_answer_may_have_a_list_around_those_of_the_request(asked, size):
    lists = Lists(("topics", "partitions"), NESTED, size)
    joined = JoinedAnswer(lists)
    for part in split(Group(7, asked), lists):
        joined.add(part, Message((part.message,)))
    assert plain(joined.result()) == Message((Group(7, asked),))


def test_a_refusal_of_one_part_is_the_answer():
    lists = Lists(("groups",), ("groups",), 1)
    joined = JoinedAnswer(lists)
    first, second, _ = split(Message((Group(1, ()), Group(2, ()), Group(3, ()))), lists)
    assert joined.add(first, first.message)
    assert not joined.add(second, Message((), ErrorCode.not_controller))
    assert plain(joined.result()) == Message((), ErrorCode.not_controller)


@pytest.mark.parametrize("key", PARTS, ids=lambda key: ApiKey(key).name)
def test_the_lists_that_are_named_are_those_of_the_messages(key):
    api = SERVED[key]
    found = set()
    for version in range(api.min_version, api.max_version + 1):
        request = messages.load_class(api, api.request_model(version), "request")
        lists = lists_of(key, request)
        if lists is None:
            continue
        found.add(lists)
        if (key, version) not in {
            (ApiKey.OFFSET_FETCH, v) for v in range(1, 8)
        }:  # whose answer handlers shape themselves
            assert depth(messages.load_class(api, api.response_model(version), "response"), lists.answered)
        assert depth(request, lists.asked)
    assert found == set(PARTS[key])


def depth(entity, names):
    """How many lists there are by these names, one in the other."""
    for number, name in enumerate(names):
        (field,) = (field for field in entity_fields(entity) if field.name == name)
        assert field.is_array
        entity = field.entity
        if entity is None:
            return number + 1 == len(names)
    return True


@given(requests, st.integers(1, 6))
def test_a_request_may_have_a_list_around_those_of_the_answer(message, size):
    lists = Lists(NESTED, ("topics", "partitions"), size)
    joined = JoinedAnswer(lists)
    for part in split(message, lists):
        joined.add(part, Group(7, tuple(topic for group in part.message.groups for topic in group.topics or ())))
    whole = Group(7, tuple(topic for group in message.groups for topic in group.topics or ()))
    assert plain(joined.result()) == whole
