import json
from pathlib import Path

import pytest

from esp.model.errors import OperatorError
from esp.model.ids import NodeId, TopicPartition
from esp.placement.intents import Drain
from esp.placement.limits import Limits
from esp.placement.plan import Plan
from esp.rebalance.plan_file import PlanFile, decode_plan, encode_plan, read_plan, write_plan
from esp.rebalance.rollback import plan_rollback
from tests.models.fake_cluster import FakeCluster
from tests.models.rebalance_plans import plan_of

P = [TopicPartition("t", number) for number in range(3)]


@pytest.fixture
def plan() -> Plan:
    cluster = FakeCluster(range(1, 5), dict.fromkeys(P, (1, 2)), dict.fromkeys(P, 1000))
    return plan_of(cluster, [{P[0]: (1, 3), P[1]: (1, 4)}, {P[2]: (3, 4)}], waits_for={1: (0,)}, limits=Limits(1000))


def test_plan_that_was_written_is_the_plan_that_is_read(plan: Plan, tmp_path: Path) -> None:
    path = str(tmp_path / "plan.json")
    for made in (plan, plan.inverse()):
        file = PlanFile("p", 5, made)
        assert decode_plan(encode_plan(file), "f") == file
    write_plan(path, PlanFile("p", 5, plan))
    assert read_plan(path).plan == plan


def test_every_intent_survives(plan: Plan) -> None:
    drained = Plan(**{**vars(plan), "intent": Drain((NodeId(1), NodeId(3)))})
    assert decode_plan(encode_plan(PlanFile("p", 5, drained)), "f").plan.intent == drained.intent


def test_file_is_never_overwritten(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("mine")
    with pytest.raises(OperatorError, match="exists already"):
        write_plan(str(path), PlanFile("p", 5, plan))
    assert path.read_text() == "mine"


def test_missing_file_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="cannot be read"):
        read_plan(str(tmp_path / "none"))


def test_what_is_no_plan_is_refused_with_the_entry(plan: Plan) -> None:
    good = json.loads(encode_plan(PlanFile("p", 5, plan)))

    def refused(change: dict[str, object]) -> str:
        with pytest.raises(OperatorError) as error:
            decode_plan(json.dumps(good | change), "f")
        return error.value.problem

    assert "version 2" in refused({"version": 2})
    assert "other" in refused({"kind": "other"})
    assert "$.seed" in refused({"seed": "x"})
    assert "extra" in refused({"extra": 1})
    assert "dance" in refused({"intent": ["dance"]})
    assert "$.limits" in refused({"limits": good["limits"] | {"disk_used_max": 7}})
    twice = json.loads(json.dumps(good["steps"]))
    twice[1]["moves"][0]["partition"] = 0
    assert "steps[1].moves[0] (t-0): the partition moves twice" in refused({"steps": twice})
    doubled = json.loads(json.dumps(good["steps"]))
    doubled[0]["moves"][1]["after"] = [3, 3]
    assert "steps[0].moves[1] (t-1)" in refused({"steps": doubled})
    waiting = json.loads(json.dumps(good["steps"]))
    waiting[0]["waits_for"] = [1]
    assert "steps[0] waits" in refused({"steps": waiting})
    with pytest.raises(OperatorError, match="not JSON"):
        decode_plan("{", "f")


def test_rollback_takes_back_what_was_done_and_nothing_else(plan: Plan) -> None:
    back = plan_rollback(plan, {P[0], P[2]})
    assert [(move.name, move.before, move.after) for move in back.moves] == [
        (P[2], (3, 4), (1, 2)),
        (P[0], (1, 3), (1, 2)),
    ]
    assert not plan_rollback(plan, set()).moves
    with pytest.raises(OperatorError, match="itself a rollback"):
        plan_rollback(back, {P[0]})
