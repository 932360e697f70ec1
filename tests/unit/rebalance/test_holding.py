from esp.model.ids import TopicPartition
from esp.rebalance.holding import look_for_holding
from tests.models.fake_cluster import FakeCluster

P = [TopicPartition("t", number) for number in range(12)]


def test_what_is_on_its_way_to_others_is_leaving() -> None:
    cluster = FakeCluster((1, 2, 3), {P[0]: (1, 2), P[1]: (2, 1), P[2]: (2, 3)}, dict.fromkeys(P, 1000))
    cluster.reassign({P[1]: (2, 3)})
    holding = look_for_holding(cluster, 1)
    assert (holding.staying, holding.leaving, holding.alone) == ((P[0],), (P[1],), frozenset())
    assert holding.everything == (P[0], P[1])
    cluster.sleep(1)
    assert look_for_holding(cluster, 1).everything == (P[0],)


def test_who_is_alone_is_named_first() -> None:
    cluster = FakeCluster((1, 2), dict.fromkeys(P, (1, 2)) | {P[7]: (1,)}, dict.fromkeys(P, 0))
    holding = look_for_holding(cluster, 1)
    assert holding.alone == {P[7]}
    assert holding.describe().startswith("t-7 (no other replica is in sync), t-0, ")
    assert holding.describe().endswith(" and 2 more")
    cluster.fence(2)
    assert look_for_holding(cluster, 1).alone == set(P)


def test_a_broker_that_nobody_knows_may_hold_something() -> None:
    cluster = FakeCluster((2,), {P[0]: (1, 2)}, {P[0]: 0})
    assert look_for_holding(cluster, 1).everything == (P[0],)
    assert look_for_holding(cluster, 9).everything == ()
