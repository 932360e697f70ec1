import pytest

from esp.model.errors import OperatorError
from esp.model.ids import NodeId, TopicPartition
from esp.placement.intents import Move
from esp.placement.limits import Limits
from esp.placement.plan import Plan
from esp.placement.planner import make_plan
from esp.rebalance.looking import look_for_planner
from esp.rebalance.staleness import check_before_begin, check_before_resume
from tests.models.fake_cluster import FakeCluster

P = [TopicPartition("t", number) for number in range(2)]


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(range(1, 5), dict.fromkeys(P, (1, 2)), dict.fromkeys(P, 1000))


@pytest.fixture
def plan(cluster: FakeCluster) -> Plan:
    made = make_plan(look_for_planner(cluster), Move("t", 0, (NodeId(3), NodeId(2))), Limits(), 0)
    assert isinstance(made, Plan)
    return made


def test_view_shows_what_the_cluster_tells(cluster: FakeCluster) -> None:
    cluster.fence(4)
    cluster.replicas[P[1]] = (2, 9)
    view = look_for_planner(cluster, draining=[1])
    assert [(each.broker_id, each.is_alive, each.is_draining) for each in view.brokers] == [
        *((1, True, True), (2, True, False), (3, True, False), (4, False, False), (9, False, False))
    ]
    assert view.brokers[0].disk_capacity_bytes == 1 << 40
    assert view.brokers[3].disk_capacity_bytes is None
    assert [(each.name, each.replicas, each.leader, each.size_bytes) for each in view.partitions] == [
        *((P[0], (1, 2), 1, 1000),),
        (P[1], (2, 9), 2, 1000),
    ]


def test_fresh_plan_fits(cluster: FakeCluster, plan: Plan) -> None:
    check_before_begin(plan, cluster)
    check_before_resume(plan, cluster)


def test_plan_of_another_cluster_is_refused(cluster: FakeCluster, plan: Plan) -> None:
    cluster.id = "c2"
    for check in (check_before_begin, check_before_resume):
        with pytest.raises(OperatorError, match="made for cluster c1, and this is c2"):
            check(plan, cluster)


def test_what_has_changed_is_named_before_anything_begins(cluster: FakeCluster, plan: Plan) -> None:
    cluster.fence(3)
    with pytest.raises(OperatorError, match="t-0"):
        check_before_begin(plan, cluster)
    cluster.unfence(3)
    cluster.replicas[P[0]] = (4, 2)
    for check in (check_before_begin, check_before_resume):
        with pytest.raises(OperatorError, match="t-0"):
            check(plan, cluster)
    del cluster.replicas[P[0]]
    for check in (check_before_begin, check_before_resume):
        with pytest.raises(OperatorError, match="t-0"):
            check(plan, cluster)


def test_plan_that_is_on_its_way_or_done_can_be_resumed(cluster: FakeCluster, plan: Plan) -> None:
    cluster.size = dict.fromkeys(P, 1 << 50)
    cluster.reassign({P[0]: (3, 2)})
    check_before_resume(plan, cluster)
    cluster.targets.clear()
    cluster.replicas[P[0]] = (3, 2)
    check_before_resume(plan, cluster)
