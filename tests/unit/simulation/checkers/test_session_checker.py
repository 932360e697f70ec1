"""The end of sessions as INV-SESSION sees it: a silent broker that keeps its session for too long, and those that do not."""

from types import SimpleNamespace

import pytest

from esp.controller.broker_sessions import BrokerSessions
from esp.model.ids import BrokerEpoch, NodeId
from esp.simulation.checkers import probe
from esp.simulation.checkers.session_checker import SLACK_S, SessionChecker
from esp.simulation.checkers.violation import ViolationError

BROKER, EPOCH, LATER = NodeId(1), BrokerEpoch(7), BrokerEpoch(9)
SESSION_S = 9.0
LIMIT_S = 2 * SESSION_S + SLACK_S


class Scene:
    """A controller that is asked for something every 100 ms, but for the times at which it stands still."""

    def __init__(self, rate=1.0):
        self.now_s = 0.0
        self.checker = SessionChecker(lambda: self.now_s)
        self.node = SimpleNamespace(
            name="node 4",
            process=None,
            is_stopping=False,
            clock=SimpleNamespace(rate=rate),
            settings=SimpleNamespace(broker_session_timeout_ms=int(SESSION_S * 1000)),
        )

    def go_on(self, seconds):
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += 0.1
            self.checker.look(self.node)

    def stand_still(self, seconds):
        self.now_s += seconds
        self.checker.look(self.node)


@pytest.fixture
def scene(monkeypatch):
    monkeypatch.setattr(probe, "leads_quorum", lambda _node: True)
    scene = Scene()
    scene.checker.on_heard(BROKER, EPOCH)
    return scene


def test_a_session_may_be_renewed_once_and_no_more(scene):
    scene.go_on(LIMIT_S - 0.5)
    with pytest.raises(ViolationError, match="INV-SESSION"):
        scene.go_on(1)


def test_the_longest_time_for_which_the_controller_stood_still_counts_twice(scene):
    scene.go_on(1)
    scene.stand_still(3)
    scene.stand_still(2)
    scene.go_on(LIMIT_S - 0.5)
    with pytest.raises(ViolationError, match=r"stood still for 3\.0 s"):
        scene.go_on(1)


def test_a_heartbeat_begins_a_session_anew(scene):
    scene.go_on(10)
    scene.checker.on_heard(BROKER, EPOCH)
    scene.go_on(LIMIT_S - 0.5)


def test_a_session_that_has_ended_is_over_but_not_that_of_a_later_registration(scene):
    scene.checker.on_end(BROKER, EPOCH)
    scene.go_on(2 * LIMIT_S)
    scene.checker.on_heard(BROKER, LATER)
    scene.checker.on_end(BROKER, EPOCH)
    with pytest.raises(ViolationError):
        scene.go_on(2 * LIMIT_S)


def test_another_controller_gives_every_broker_its_time(scene):
    scene.go_on(10)
    scene.checker.on_term({BROKER: EPOCH})
    scene.go_on(LIMIT_S - 0.5)
    with pytest.raises(ViolationError):
        scene.go_on(1)


def test_a_controller_that_leads_no_more_owes_nothing(scene, monkeypatch):
    monkeypatch.setattr(probe, "leads_quorum", lambda _node: False)
    scene.go_on(2 * LIMIT_S)


def test_seconds_are_those_of_the_controllers_clock(monkeypatch):
    monkeypatch.setattr(probe, "leads_quorum", lambda _node: True)
    scene = Scene(rate=0.5)
    scene.checker.on_heard(BROKER, EPOCH)
    scene.go_on(2 * 2 * SESSION_S)


def test_sessions_are_looked_at_while_they_are_watched(scene):
    sessions = BrokerSessions(1)
    before = BrokerSessions.touch
    with scene.checker.watched():
        scene.go_on(10)
        sessions.touch(BROKER, EPOCH, 0, 0)
        scene.go_on(10)
        sessions.end(BROKER, EPOCH)
        scene.go_on(LIMIT_S)
        sessions.begin(BROKER, LATER, 0)
        with pytest.raises(ViolationError):
            scene.go_on(LIMIT_S + 1)
    assert BrokerSessions.touch is before
