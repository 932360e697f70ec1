"""Partitions that a client was granted are held against one quota of the whole cluster."""

import pytest

from esp.simulation.checkers.mutation_quota_checker import Grant, MutationQuotaChecker
from esp.simulation.checkers.violation import ViolationError


class World:
    """A client with a quota of two partitions a second, whose requests take no time."""

    def __init__(self):
        self.checker = MutationQuotaChecker(2.0)
        self.now_s = 0.0

    def grant(self, partitions, *, after_s=0.0, epochs=(1, 1), takes_s=0.0):
        sent_s = self.now_s = self.now_s + after_s
        self.now_s += takes_s
        self.checker.on_grant(Grant(sent_s, self.now_s, partitions), *epochs)


def test_a_full_bucket_and_one_request_more_are_granted():
    world = World()
    for partitions in (12, 10, 50):
        world.grant(partitions)
    assert world.checker.judged == 3


def test_more_than_that_is_too_much():
    world = World()
    world.grant(23)
    with pytest.raises(ViolationError, match="QUOTA-6"):
        world.grant(1)


def test_what_comes_in_may_be_used():
    world = World()
    world.grant(32)
    world.grant(100, after_s=5.0)
    with pytest.raises(ViolationError, match="QUOTA-6"):
        world.grant(1, after_s=40.0)


def test_a_rest_fills_the_bucket_only():
    world = World()
    world.grant(1)
    world.grant(23, after_s=1_000.0)
    with pytest.raises(ViolationError, match="QUOTA-6"):
        world.grant(1)


def test_another_controller_begins_anew():
    world = World()
    world.grant(23)
    world.grant(23, epochs=(1, 2))  # of either
    world.grant(23, epochs=(2, 2))
    with pytest.raises(ViolationError, match="QUOTA-6"):
        world.grant(1, epochs=(2, 2))


def test_requests_side_by_side_may_be_decided_in_either_order():
    world = World()
    world.grant(23, takes_s=1.0)
    world.now_s = 0.0
    world.grant(23, takes_s=1.0)


def test_the_clocks_of_nodes_may_be_fast():
    checker = MutationQuotaChecker(2.0, 1.1)
    checker.on_grant(Grant(0.0, 0.0, 43), 1, 1)
    checker.on_grant(Grant(10.0, 10.0, 1), 1, 1)
