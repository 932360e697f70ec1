"""The registrations that INV-ONE-LIFE is told of: one that replaces a living process, and those that may come."""

from types import SimpleNamespace

import pytest

from esp.broker.controller import driver as controller_driver
from esp.broker.request import ClientContext
from esp.model.ids import NodeId
from esp.ports.network import Address
from esp.simulation.checkers import one_life, probe
from esp.simulation.checkers.one_life import SESSION_S, OneLifeChecker
from esp.simulation.excuses import tallied
from tests.unit.controller.samples import Cluster

BROKER = NodeId(1)


class Scene:
    """One broker that was heard at 10 s, and a newcomer."""

    def __init__(self, monkeypatch):
        self.now_s = 10.0
        self.found = []
        self.cluster = Cluster()
        self.cluster.register(1)
        self.node = SimpleNamespace(name="node 1", is_alive=True, is_stopping=False)
        monkeypatch.setattr(probe, "broker_epoch", lambda _node: self.cluster.epoch(1))
        self.checker = OneLifeChecker(lambda _number: [self.node], lambda: self.now_s, self.found.append)
        self.client = ClientContext("CONTROLLER", Address("10.0.0.1", 20_000))
        self.checker.on_heard(BROKER, self.cluster.epoch(1), self.client, self.now_s)

    def newcomer_counts(self):
        self.checker.on_registration(self.cluster.image, self.cluster.registration(1))
        return not self.found


@pytest.fixture
def scene(monkeypatch):
    return Scene(monkeypatch)


def test_a_process_that_was_heard_by_a_connection_that_lasts_is_not_replaced(scene):
    scene.now_s += SESSION_S - 1
    assert not scene.newcomer_counts()
    assert scene.found[0].invariant == "INV-ONE-LIFE"


def test_the_end_of_the_connection_opens_the_place(scene):
    for on_end in scene.client.at_end:
        on_end()
    with tallied() as excuses:
        assert scene.newcomer_counts()
    assert excuses == {"ended_connections": 1}


def test_another_connection_keeps_the_place_when_the_first_has_ended(scene):
    scene.checker.on_heard(
        BROKER, scene.cluster.epoch(1), ClientContext("CONTROLLER", Address("10.0.0.1", 20_001)), scene.now_s
    )
    for on_end in scene.client.at_end:
        on_end()
    assert not scene.newcomer_counts()


def test_a_silent_process_may_be_replaced(scene):
    scene.now_s += SESSION_S + 1
    assert scene.newcomer_counts()


@pytest.mark.parametrize("state", [{"is_alive": False}, {"is_stopping": True}])
def test_a_process_that_ends_may_be_replaced(scene, state):
    vars(scene.node).update(state)
    assert scene.newcomer_counts()


def test_a_heartbeat_of_an_earlier_registration_keeps_no_place(scene):
    scene.cluster.register(1)
    with tallied() as excuses:
        assert scene.newcomer_counts()
    assert excuses == {"unheard_registrations": 1}


def test_decisions_are_looked_at_as_they_are_made(scene):
    names = vars(one_life.controller_driver)
    before = names[one_life.DECISION]
    with scene.checker.watched():
        names[one_life.DECISION](scene.cluster.image, scene.cluster.registration(1), scene.cluster.next_offset)
    assert [violation.invariant for violation in scene.found] == ["INV-ONE-LIFE"]
    assert names[one_life.DECISION] is before


def test_a_removal_in_slices_is_told_and_one_that_is_done_at_once_is_not():
    told, cluster = [], Cluster(3)
    for number in range(2):
        cluster.create_partition(1, 2, 3, topic=f"t{number}")
    checker = OneLifeChecker(
        lambda _number: [], lambda: 0.0, lambda _found: None, on_removal=lambda *removal: told.append(removal)
    )
    with checker.watched():
        controller_driver.decide_unregister_broker(cluster.image, BROKER, 3)
        assert told == []
        controller_driver.decide_unregister_broker(cluster.image, BROKER, 1)
        assert told == [(BROKER, cluster.epoch(1))]
