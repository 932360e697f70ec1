"""What moves, what does not get on, and what was left behind."""

import pytest

from esp.doctor.rule import Severity
from esp.doctor.rules import RULES
from esp.doctor.snapshot import BrokerCondition, ThrottleSetting
from esp.model.ids import NodeId
from esp.rebalance.reassignment_json import read_reassignment
from tests.unit.doctor.snapshots import hits, moving, name_of, places, snapshot
from tests.unit.placement.clusters import partition

TO_3 = {name_of("t-0"): moving(adding=(3,), removing=(1,))}
MOVING = partition("t-0", (3, 2, 1), leader=2, isr=(1, 2), is_reassigning=True)
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
STILL = partition("t-1", (1, 2))


@pytest.mark.parametrize("condition", [BrokerCondition.FENCED, BrokerCondition.GONE])
def test_reassignment_to_a_broker_that_is_down_cannot_end(condition):
    found = snapshot(3, [MOVING, STILL], conditions={NodeId(3): condition}, moving=TO_3)
    [hit] = hits("reassignment-blocked", found)
    assert (str(hit.place), hit.detail) == ("t-0", "broker 3 is to receive a copy and is down")
    leaves = snapshot(3, [MOVING, STILL], conditions={NodeId(1): condition}, moving=TO_3)
    assert not hits("reassignment-blocked", leaves), "its copy is not wanted any more"
    assert not hits("reassignment-blocked", snapshot(3, [MOVING, STILL], moving=TO_3))


def test_reassignment_without_a_leader_cannot_end():
    found = snapshot(3, [MOVING._replace(leader=None, isr=())], moving=TO_3)
    assert hits("reassignment-blocked", found)[0].detail == "there is no leader to copy from"


def test_reassignment_that_does_not_grow_is_found():
    stalled = {name_of("t-0"): moving(adding=(3,), is_stalled=True)}
    assert places("reassignment-stalled", snapshot(3, [MOVING], moving=stalled)) == ["t-0"]
    assert not places("reassignment-stalled", snapshot(3, [MOVING], moving=TO_3))


def test_reassignment_that_a_throttle_holds_is_no_more_than_a_note():
    held = snapshot(3, [MOVING], moving={name_of("t-0"): moving(adding=(3,), held_to=1024)})
    [hit] = hits("reassignment-held", held)
    assert (str(hit.place), hit.detail) == ("t-0", "its throttle allows 1024 bytes/s to broker 3")
    assert not places("reassignment-stalled", held)
    assert not places("reassignment-running", held)
    assert not places("reassignment-held", snapshot(3, [MOVING], moving=TO_3))
    assert RULES["reassignment-held"].severity is Severity.NOTE


def test_what_moves_is_told():
    [hit] = hits("reassignment-running", snapshot(3, [MOVING, STILL], moving=TO_3))
    assert (str(hit.place), hit.detail) == ("t-0", "to broker 3, away from broker 1")
    assert not hits("reassignment-running", snapshot(3, [STILL]))


def test_throttles_are_left_behind_when_nothing_moves_any_more():
    throttles = (
        ThrottleSetting("t", True, ("leader.replication.throttled.replicas",)),
        ThrottleSetting("", False, RATES),
        ThrottleSetting("2", False, ("follower.replication.throttled.rate",)),
    )
    found = hits("throttle-left-behind", snapshot(3, [STILL], throttles=throttles))
    assert [(str(hit.place), hit.remedy.strip("`").removeprefix("esp configs --alter ")) for hit in found] == [
        ("topic t", "--entity-type topics --entity-name t --delete-config leader.replication.throttled.replicas"),
        (
            "cluster",
            f"--entity-type brokers --entity-default --delete-config {','.join(RATES)}",
        ),
        ("broker 2", "--entity-type brokers --entity-name 2 --delete-config follower.replication.throttled.rate"),
    ]
    assert not hits("throttle-left-behind", snapshot(3, [MOVING], throttles=throttles, moving=TO_3))
    assert not hits("throttle-left-behind", snapshot(3, [STILL], throttles=throttles, is_moving_directories=True))
    assert not hits("throttle-left-behind", snapshot(3, [STILL], throttles=throttles, has_controller=False)), (
        "who knows"
    )
    assert not hits("throttle-left-behind", snapshot(3, [STILL]))


def test_paused_plan_is_told_as_such_with_the_command_that_cancels_the_move():
    held = snapshot(3, [MOVING], moving={name_of("t-0"): moving(adding=(3,), held_to=1024)._replace(is_paused=True)})
    [hit] = hits("reassignment-held", held)
    assert hit.detail == "the plan that moves it to broker 3 is paused"
    assert hit.remedy.startswith("resume the plan")
    document = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1]}]}'
    assert hit.remedy.endswith(f"`esp reassign-partitions --cancel --reassignment-json-file <(echo '{document}')`")
    [assignment] = read_reassignment(document, "")
    assert assignment.replicas == (2, 1)
