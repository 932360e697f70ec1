"""When calls of a simulated quorum are given up."""

from types import SimpleNamespace

import pytest

from esp.model.ids import NodeId
from esp.raft.messages import FetchRequest
from esp.simulation.quorum_tier.member import Call, CallTimeouts
from tests.unit.simulation.quorum_tier.test_checks import key


class World:
    """Time, and what is to be done in it."""

    def __init__(self):
        self.now_us = 0
        self.events = []

    def after(self, member, delay_us, action):
        self.events.append((self.now_us + delay_us, member.incarnation, action))

    def run_until(self, end_us, member):
        while due := [event for event in self.events if event[0] <= end_us]:
            event = min(due, key=lambda event: event[0])
            self.events.remove(event)
            self.now_us = event[0]
            if event[1] == member.incarnation:
                event[2]()
        self.now_us = end_us


class Core:
    """Notes what failed when."""

    def __init__(self, world):
        self.failed = []
        self.on_failed = lambda: None
        self._world = world

    def on_send_failed(self, _now, _peer, request, *, refused):
        self.failed.append((self._world.now_us, request.fetch_offset, refused))
        self.on_failed()
        return []


@pytest.fixture
def member():
    world = World()
    member = SimpleNamespace(world=world, node=Core(world), now=None, incarnation=0, do=lambda effects: None)
    member.timeouts = CallTimeouts(world, member)
    return member


def call(member, number):
    request = FetchRequest(
        cluster_id=None,
        replica=key(1),
        current_leader_epoch=1,
        fetch_offset=number,
        last_fetched_epoch=1,
        high_watermark=None,
        max_wait_ms=0,
        max_bytes=1,
    )
    return Call(member, NodeId(2), request)


def test_each_call_is_given_up_when_its_own_time_is_over(member):
    for at_us, timeout_us in ((0, 100), (10, 100), (20, 50), (20, 100)):
        member.world.run_until(at_us, member)
        member.timeouts.add(call(member, at_us + timeout_us), timeout_us)
    member.world.run_until(1_000, member)
    assert member.node.failed == [(at_us, at_us, False) for at_us in (70, 100, 110, 120)]
    assert not member.world.events


def test_calls_that_have_ended_are_not_given_up_and_share_one_event(member):
    calls = [call(member, number) for number in range(50)]
    for one in calls:
        member.timeouts.add(one, 100)
    assert len(member.world.events) == 1
    for one in calls[:-1]:
        one.has_ended = True
    member.world.run_until(1_000, member)
    assert [number for _at, number, _refused in member.node.failed] == [49]


def test_a_call_that_is_made_when_another_is_given_up_has_its_time_too(member):
    member.timeouts.add(call(member, 1), 100)

    def ask_again():
        member.node.on_failed = lambda: None
        member.timeouts.add(call(member, 2), 100)

    member.node.on_failed = ask_again
    member.world.run_until(1_000, member)
    assert [(at_us, number) for at_us, number, _refused in member.node.failed] == [(100, 1), (200, 2)]


def test_the_calls_of_a_process_that_has_ended_are_forgotten(member):
    member.timeouts.add(call(member, 1), 100)
    member.timeouts.clear()
    member.incarnation += 1
    member.timeouts.add(call(member, 2), 300)
    member.world.run_until(1_000, member)
    assert member.node.failed == [(300, 2, False)]
