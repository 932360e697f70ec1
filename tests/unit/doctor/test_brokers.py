"""Brokers that do not serve, or shall not much longer."""

import pytest

from esp.doctor.snapshot import BrokerCondition
from esp.model.ids import NodeId
from tests.unit.doctor.snapshots import hits, snapshot
from tests.unit.placement.clusters import partition


@pytest.mark.parametrize(
    ("rule", "condition"),
    [
        ("broker-fenced", BrokerCondition.FENCED),
        ("broker-gone", BrokerCondition.GONE),
        ("broker-silent", BrokerCondition.SILENT),
    ],
)
def test_broker_that_does_not_serve_is_found_by_one_rule(rule, condition):
    found = snapshot(3, [partition("t-0", (1, 3), isr=(1,))], conditions={NodeId(3): condition})
    for each in ("broker-fenced", "broker-gone", "broker-silent"):
        assert [(str(hit.place), hit.detail) for hit in hits(each, found)] == (
            [("broker 3", f"{condition.value}; replicas assigned to it: 1")] if each == rule else []
        )
        assert not hits(each, snapshot(3, []))


def test_broker_that_is_to_be_emptied_is_told_of_until_it_is_gone():
    [hit] = hits("broker-draining", snapshot(3, [partition("t-0", (1, 3))], draining=(3,)))
    assert hit.detail == "replicas left to move: 1"
    assert hit.remedy.startswith("`esp rebalance plan drain 3`;")
    [empty] = hits("broker-draining", snapshot(3, [partition("t-0", (1, 2))], draining=(3,)))
    assert empty.detail == "holds no replicas"
    assert empty.remedy.startswith("stop it, then `esp brokers remove 3`;")
    assert not hits("broker-draining", snapshot(3, []))


FENCED = {NodeId(3): BrokerCondition.FENCED}


@pytest.mark.parametrize(
    ("held", "facts"),
    [
        (partition("t-0", (1, 2, 3), isr=(1, 2)), {}),  # all other brokers have a copy
        (partition("t-0", (3,), leader=None, isr=(3,)), {}),  # there is nothing to copy from
        (partition("t-0", (1, 3), isr=(1,)), {"has_controller": False}),
        (partition("t-0", (1, 3), isr=(1,)), {"draining": (2,)}),
    ],
)
def test_drain_that_cannot_work_is_not_proposed(held, facts):
    [hit] = hits("broker-fenced", snapshot(3, [held], conditions=FENCED, **facts))
    assert hit.remedy == "start it; at present no other broker can take its copies"


def test_drain_is_proposed_where_another_broker_can_take_the_copies():
    [hit] = hits("broker-fenced", snapshot(3, [partition("t-0", (1, 3), isr=(1,))], conditions=FENCED))
    assert hit.remedy == "start it; or give its copies to others: `esp rebalance plan drain 3`"
    [empty] = hits("broker-fenced", snapshot(3, [partition("t-0", (1, 2))], conditions=FENCED))
    assert empty.remedy == "start it; or remove it for good: `esp brokers remove 3`"
