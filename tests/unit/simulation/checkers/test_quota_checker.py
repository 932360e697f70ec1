"""What metered clients could send is held against the quota that their node had."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from esp.controller.image import ClusterDelta, ClusterImage
from esp.model.client_quotas import PRODUCER_BYTE_RATE, client_alone, user_and_client
from esp.simulation.checkers import quota_checker
from esp.simulation.checkers.quota_checker import USER, Look, QuotaChecker, Sent, quota_of
from esp.simulation.checkers.violation import ViolationError


class Loader:
    def __init__(self, quota=None):
        self.callback = lambda image, delta: None
        self.publish(quota)

    def subscribe(self, callback):
        self.callback = callback
        callback(self.image, ClusterDelta(has_other_quotas=bool(self.image.client_quotas)))

    def publish(self, quota):
        quotas = {} if quota is None else {client_alone("c"): {PRODUCER_BYTE_RATE: quota}}
        self.image = ClusterImage(client_quotas=quotas)
        self.callback(self.image, ClusterDelta(has_other_quotas=True))


class World:
    """A node, and its checker."""

    def __init__(self, quota=None):
        self.now_s = 0.0
        self.node = SimpleNamespace(node_id=1, name="node 1", loader=Loader(quota))
        self.checker = QuotaChecker(lambda: self.now_s)

    def send(self, size, *, throttle_ms=0, takes_s=0.01, connection=1, change=None):
        feed = self.checker.feed_of(self.node)
        self.now_s += 0.01
        sent_s = self.now_s
        self.now_s += takes_s
        if change is not None:
            change()
        self.sent = Sent("c", connection, sent_s, self.now_s, size, throttle_ms)
        self.checker.on_answer(self.node, feed, self.sent)

    def look(self, *client_ids, takes_s=0.01):
        """Ask the node whom it holds."""
        feed, asked_s = self.checker.feed_of(self.node), self.now_s
        self.now_s += takes_s
        self.checker.on_held(self.node, feed, self.sent, Look(set(client_ids), asked_s, self.now_s))


@pytest.fixture(autouse=True)
def _probe(monkeypatch):
    monkeypatch.setattr(quota_checker, "probe", SimpleNamespace(metadata_of=lambda node: node.loader))


def test_what_all_windows_allow_needs_no_wait():
    world = World(100)
    world.send(700)
    world.send(500)
    assert world.checker.judged == 2
    with pytest.raises(ViolationError, match="QUOTA-2"):
        world.send(500)


def test_what_is_beyond_the_windows_is_waited_for():
    world = World(100)
    world.send(1200)
    world.send(500, throttle_ms=5000)
    with pytest.raises(ViolationError, match="less than 9998 ms"):
        world.send(500, throttle_ms=9000, connection=2)


def test_what_is_older_than_the_windows_is_forgotten():
    """So a client of large requests may have more than its quota, as in Kafka."""
    world = World(100)
    for _ in range(9):
        world.send(1200)
        world.send(1100, throttle_ms=11_000)
        world.now_s += 11


def test_only_what_was_counted_for_certain_counts():
    world = World(100)
    world.send(1000, takes_s=2)
    world.now_s -= 1.5
    world.send(1000, takes_s=3, connection=2)  # it may have been done before the first one
    with pytest.raises(ViolationError, match="QUOTA-2"):
        world.send(1000, connection=3)


def test_what_a_fast_node_may_have_forgotten_does_not_count():
    for clock_rate, is_certain in ((1.0, True), (1.1, False)):
        world = World(100)
        world.checker = QuotaChecker(lambda world=world: world.now_s, clock_rate)
        world.send(1000)
        world.now_s += 10.5
        with pytest.raises(ViolationError) if is_certain else nullcontext():
            world.send(1000)


def test_a_connection_is_not_served_before_its_time():
    world = World(100)
    world.send(500, throttle_ms=2000)
    with pytest.raises(ViolationError, match="was to wait"):
        world.send(500)
    world = World(100)
    world.send(500, throttle_ms=2000)
    world.send(500, takes_s=2)


def test_a_client_that_waits_is_told_as_held():
    world = World(100)
    world.send(900, throttle_ms=2000)
    world.look("c")
    assert world.checker.told_held == 1
    world.now_s += 2
    world.send(50, throttle_ms=1000)
    world.look()
    world.now_s += 1
    with pytest.raises(ViolationError, match="was not named as held"):
        world.send(50)


def test_a_client_that_waits_no_longer_or_has_gone_is_not_missed():
    world = World(100)
    world.send(900, throttle_ms=2000)
    world.look(takes_s=2)
    world.send(50, throttle_ms=2000)
    world.look()
    world.send(50, connection=2, throttle_ms=2000)
    world.look()
    world.node.loader.publish(100)
    world.send(50, connection=2)


def test_a_client_without_a_quota_is_not_held():
    world = World(100)
    world.send(1300, throttle_ms=2000)
    with pytest.raises(ViolationError, match="no quota and is held"):
        world.look("c", "d")


def test_a_change_lets_all_go_on():
    world = World(100)
    world.send(1100, throttle_ms=9000)
    world.send(2000, change=lambda: world.node.loader.publish(200))
    world.send(2000)


def test_a_client_without_a_quota_is_not_throttled():
    world = World()
    world.send(10**9)
    with pytest.raises(ViolationError, match="no quota"):
        world.send(1, throttle_ms=5)


def test_another_process_has_counted_nothing():
    world = World(100)
    world.send(1100)
    world.node.loader = Loader(100)
    world.send(1100)


def test_an_acknowledged_change_is_in_force_where_it_was_answered_and_in_the_end():
    world = World(100)
    world.checker.on_changed(world.node, client_alone("c"), 100)
    with pytest.raises(ViolationError, match="acknowledged"):
        world.checker.on_changed(world.node, client_alone("d"), 5)
    world.checker.forget(client_alone("d"))
    world.checker.check_end(world.node.loader.image)
    with pytest.raises(ViolationError):
        world.checker.check_end(ClusterImage())
    world = World(100)
    with pytest.raises(ViolationError):
        world.checker.on_changed(world.node, client_alone("c"), None)


def test_the_quota_of_the_user_with_the_client_id_counts_first():
    quotas = {
        client_alone("c"): {PRODUCER_BYTE_RATE: 1.0},
        user_and_client(None, "c"): {PRODUCER_BYTE_RATE: 2.0},
        user_and_client(USER, "c"): {PRODUCER_BYTE_RATE: 3.0},
    }
    found = []
    for entity in (None, user_and_client(USER, "c"), user_and_client(None, "c"), client_alone("c")):
        quotas.pop(entity, None)
        found.append(quota_of(ClusterImage(client_quotas=quotas), "c"))
    assert found == [3, 2, 1, None]
