"""Moves of an assignment, and those that balance asks for."""

import uuid

from esp.model.ids import TopicId
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.simulation.checkers.assignment_moves import count_moves, count_needed_moves

TOPIC = TopicId(uuid.UUID(int=1))


def parts(*numbers):
    return frozenset(TopicIdPartition(TOPIC, number) for number in numbers)


def test_partitions_of_members_that_are_gone_do_not_move():
    before, after = {"a": parts(0, 1), "b": parts(2)}, {"b": parts(0, 1, 2)}
    assert (count_moves(before, after), count_needed_moves(before, after)) == (0, 0)


def test_partitions_that_are_gone_do_not_move():
    before, after = {"a": parts(0, 1), "b": parts(2, 3)}, {"a": parts(0), "b": parts(2)}
    assert (count_moves(before, after), count_needed_moves(before, after)) == (0, 0)


def test_new_member_takes_what_balance_gives_it():
    before, after = {"a": parts(0, 1, 2, 3)}, {"a": parts(0, 1), "b": parts(2, 3)}
    assert (count_moves(before, after), count_needed_moves(before, after)) == (2, 2)


def test_member_that_has_one_more_may_keep_it():
    before, after = {"a": parts(0, 1), "b": parts(2)}, {"a": parts(0), "b": parts(1, 2)}
    assert (count_moves(before, after), count_needed_moves(before, after)) == (1, 0)
