import pytest

from esp.model.errors import OperatorError
from esp.model.ids import NodeId, TopicPartition
from esp.placement.intents import Drain, Spread
from esp.placement.limits import Limits
from esp.rebalance.cluster import ConfigTarget
from esp.rebalance.planning import plan_for
from tests.models.fake_cluster import FakeCluster

P = [TopicPartition("t", number) for number in range(4)]


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster((1, 2, 3, 4), dict.fromkeys(P, (1, 2)), dict.fromkeys(P, 1000))


def test_plans_have_names_of_their_own(cluster: FakeCluster) -> None:
    made = [plan_for(cluster, Drain((NodeId(1),)), Limits(), 0, 7) for _ in range(2)]
    assert made[0].plan_id != made[1].plan_id
    assert made[0].plan == made[1].plan
    assert made[0].made_at_ms == 7


def test_nothing_is_planned_onto_a_broker_that_is_draining(cluster: FakeCluster) -> None:
    cluster.configs[ConfigTarget(broker="3")] = {"broker.draining": "true"}
    for intent in (Drain((NodeId(1),)), Spread()):
        moves = plan_for(cluster, intent, Limits(), 0, 7).plan.moves
        assert moves
        assert all(3 not in move.after for move in moves)


def test_refusal_names_what_stands_in_the_way(cluster: FakeCluster) -> None:
    cluster.fence(3)
    cluster.fence(4)
    with pytest.raises(OperatorError, match="there is no plan to drain 1") as refused:
        plan_for(cluster, Drain((NodeId(1),)), Limits(), 0, 7)
    assert "broker-count" in refused.value.problem
    assert refused.value.remedy == "Nothing was changed."


def test_refusal_has_a_line_for_a_reason_and_not_for_a_partition() -> None:
    names = [TopicPartition("t", number) for number in range(200)]
    cluster = FakeCluster((1, 2), dict.fromkeys(names, (1, 2)), dict.fromkeys(names, 1000))
    with pytest.raises(OperatorError) as refused:
        plan_for(cluster, Drain((NodeId(1),)), Limits(), 0, 7)
    told = refused.value.problem.splitlines()
    assert len(told) == 2, told
    assert told[1].startswith("  broker-count: t-0, t-1, t-2 and 197 others: it needs 2 replica(s)")
