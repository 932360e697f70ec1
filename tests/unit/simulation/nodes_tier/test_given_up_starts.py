from types import SimpleNamespace

import pytest

from esp.settings.broker import BrokerSettings
from esp.simulation.checkers import probe
from esp.simulation.nodes_tier.given_up_starts import GivenUpStarts
from esp.simulation.nodes_tier.ledger import Ledger

REASON = "did not come up: Broker 3 could not register within 60000 ms: another broker has its place"


def starts(monkeypatch, terms):
    """The judge of a cluster of three whose controllers were active at these times, and its node 3, which started at 20 s."""
    nodes = {
        number: SimpleNamespace(
            node_id=number,
            process=object(),
            clock=SimpleNamespace(rate=1.0),
            settings=BrokerSettings(broker_session_timeout_ms=9000),
            started_s=20.0,
            end_reason=REASON,
        )
        for number in (1, 2, 3)
    }
    now_s = [0.0]
    active = [None]
    monkeypatch.setattr(probe, "active_controller", lambda _nodes: active[0])
    monkeypatch.setattr(probe, "quorum_epoch", lambda _node: 1)
    monkeypatch.setattr(probe, "raft", lambda _node: None)
    world = SimpleNamespace(nodes=nodes, loop=SimpleNamespace(time=lambda: now_s[0]), keeps_down={}, away=set())
    judge = GivenUpStarts(world, Ledger(1, copies_allowed=1))
    for second in range(0, 80, 2):
        now_s[0] = float(second)
        active[0] = next((nodes[number] for number, first, end in terms if first <= second < end), None)
        judge.look()
    return judge, world


@pytest.mark.parametrize(
    ("terms", "is_excused"),
    [
        ([], True),
        ([(1, 0, 26), (1, 70, 76), (2, 76, 80)], True),
        ([(1, 0, 36)], True),
        ([(1, 0, 44)], False),
        ([(1, 0, 24), (2, 50, 72)], False),
    ],
)
def test_a_start_is_given_up_with_reason_if_no_controller_lasts_as_long_as_a_session(monkeypatch, terms, is_excused):
    judge, world = starts(monkeypatch, terms)
    assert judge.excuses(world.nodes[3]) is is_excused
    assert judge.count == is_excused


def test_a_node_that_is_left_behind_gives_up_with_reason(monkeypatch):
    judge, world = starts(monkeypatch, [(1, 0, 80)])
    assert not judge.excuses(world.nodes[3])
    world.keeps_down[3] = None
    assert judge.excuses(world.nodes[3])


def test_another_end_is_no_start_that_was_given_up(monkeypatch):
    judge, world = starts(monkeypatch, [])
    world.nodes[3].end_reason = "did not come up: the disk is full"
    assert not judge.excuses(world.nodes[3])
