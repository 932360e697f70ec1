from pathlib import Path

import pytest

from esp.model.errors import OperatorError
from esp.model.ids import NodeId, TopicPartition
from esp.placement.intents import Drain
from esp.placement.limits import Limits
from esp.rebalance.cluster import ALL_BROKERS, FOLLOWER_THROTTLED_RATE
from esp.rebalance.planning import plan_for
from esp.rebalance.replanning import by_hand, next_path, replan
from tests.models.fake_cluster import FakeCluster

P = [TopicPartition("t", number) for number in range(4)]
LIMITS = Limits(broker_bytes_per_second=4000)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster((1, 2, 3, 4), dict.fromkeys(P, (1, 2)), dict.fromkeys(P, 1000))


def test_the_new_plan_goes_around_the_broker_that_died(cluster: FakeCluster) -> None:
    stopped = plan_for(cluster, Drain((NodeId(1),)), LIMITS, 0, 7).plan
    assert any(3 in move.after for move in stopped.moves)
    cluster.fence(3)
    new = replan(cluster, stopped, cluster).plan
    assert new.intent == stopped.intent
    assert new.limits == LIMITS
    assert len(new.moves) == len(P)
    assert all(set(move.after) == {2, 4} for move in new.moves)


def test_what_was_done_is_not_planned_again(cluster: FakeCluster) -> None:
    stopped = plan_for(cluster, Drain((NodeId(1),)), LIMITS, 0, 7).plan
    for move in stopped.moves:
        cluster.replicas[move.name] = move.after
    assert replan(cluster, stopped, cluster).plan.is_empty


def test_it_waits_until_the_end_of_what_was_cancelled_is_known(cluster: FakeCluster) -> None:
    stopped = plan_for(cluster, Drain((NodeId(1),)), LIMITS, 0, 7).plan
    cluster.targets = {P[0]: (1, 2, 4)}  # as a broker tells that has not heard of it
    began_ms = cluster.now_ms()
    cluster.on_sleep = lambda: cluster.targets.clear() if cluster.now_ms() - began_ms > 3000 else None
    cluster.configs = {ALL_BROKERS: {FOLLOWER_THROTTLED_RATE: "1"}}
    assert len(replan(cluster, stopped, cluster).plan.moves) == len(P)
    assert cluster.now_ms() - began_ms > 3000


def test_a_way_back_has_no_other_way(cluster: FakeCluster) -> None:
    stopped = plan_for(cluster, Drain((NodeId(1),)), LIMITS, 0, 7).plan
    with pytest.raises(OperatorError, match="a stopped rollback"):
        replan(cluster, stopped.inverse(), cluster)


def test_files_of_new_plans_are_numbered(tmp_path: Path) -> None:
    path = str(tmp_path / "drain.json")
    assert next_path(path) == f"{path}.replan-1"
    assert next_path(f"{path}.replan-1") == f"{path}.replan-2"
    (tmp_path / "drain.json.replan-1").touch()
    assert next_path(path) == f"{path}.replan-2"


def test_commands_by_hand_are_those_of_the_same_intent(cluster: FakeCluster) -> None:
    stopped = plan_for(cluster, Drain((NodeId(1),)), LIMITS, 0, 7).plan
    assert by_hand(stopped, "nowhere/p") == (
        "esp rebalance plan drain 1 --budget 4000 --out nowhere/p.replan-1 && esp rebalance apply nowhere/p.replan-1"
    )
