import pytest

from esp.model.ids import TopicPartition
from esp.rebalance.cluster import (
    ALL_BROKERS,
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_RATE,
    LEADER_THROTTLED_REPLICAS,
    ConfigTarget,
)
from esp.rebalance.throttle_setting import RATES, ThrottleSetting
from tests.models.fake_cluster import FakeCluster
from tests.models.rebalance_plans import plan_of

P = TopicPartition("t", 0)
TOPIC = ConfigTarget(topic="t")
OURS = {LEADER_THROTTLED_REPLICAS: "0:1,0:2", FOLLOWER_THROTTLED_REPLICAS: "0:3"}


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(range(1, 4), {P: (1, 2)}, {P: 1000})


@pytest.fixture
def setting(cluster: FakeCluster) -> ThrottleSetting:
    return ThrottleSetting(cluster, plan_of(cluster, [{P: (3, 2)}]).moves)


def test_replicas_and_rates_are_named_and_taken_away(cluster: FakeCluster, setting: ThrottleSetting) -> None:
    setting.name_replicas()
    setting.set_rate(7)
    assert cluster.throttles == {TOPIC: OURS, ALL_BROKERS: dict.fromkeys(RATES, "7")}
    assert setting.previous_rates() == {}, "these are ours"
    setting.clear({})
    assert cluster.throttles == {}


def test_what_others_have_set_stays(cluster: FakeCluster, setting: ThrottleSetting) -> None:
    theirs = {
        TOPIC: {LEADER_THROTTLED_REPLICAS: "*", FOLLOWER_THROTTLED_REPLICAS: "5:1"},
        ALL_BROKERS: {LEADER_THROTTLED_RATE: "9"},
    }
    cluster.configs = {target: dict(settings) for target, settings in theirs.items()}
    previous = setting.previous_rates()
    assert previous == {LEADER_THROTTLED_RATE: "9"}
    setting.name_replicas()
    setting.set_rate(7)
    assert cluster.configs[TOPIC] == {LEADER_THROTTLED_REPLICAS: "*", FOLLOWER_THROTTLED_REPLICAS: "0:3,5:1"}
    setting.clear(previous)
    assert cluster.throttles == theirs


def test_rates_that_nobody_knows_are_ours_only_if_the_replicas_are_named(
    cluster: FakeCluster, setting: ThrottleSetting
) -> None:
    setting.set_rate(7)
    setting.clear(None)
    assert cluster.throttles == {ALL_BROKERS: dict.fromkeys(RATES, "7")}
    setting.name_replicas()
    setting.clear(None)
    assert cluster.throttles == {}


def test_no_broker_that_is_down_is_asked(cluster: FakeCluster, setting: ThrottleSetting) -> None:
    setting.name_replicas()
    setting.set_rate(7)
    cluster.fence(1)
    cluster.fence(3)
    setting.clear({})
    assert cluster.throttles == {}


def test_topic_that_is_gone_does_not_hinder(cluster: FakeCluster, setting: ThrottleSetting) -> None:
    setting.name_replicas()
    setting.set_rate(7)
    del cluster.replicas[P]
    del cluster.configs[TOPIC]
    setting.clear({})
    assert cluster.throttles == {}
