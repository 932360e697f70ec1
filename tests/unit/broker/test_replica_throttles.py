"""Which throttle a replica goes by, of those that a node has for one direction."""

from types import SimpleNamespace

import pytest

from esp.broker.replica_throttles import ReplicaThrottles
from esp.model.broker_settings import BrokerSettings
from esp.model.ids import TopicPartition
from esp.model.throttled_replicas import NO_REPLICAS, ThrottledReplicas
from esp.model.topic_settings import LONG_MAX, TopicSettings

MARKED = TopicSettings(rebalance_throttled_replicas=ThrottledReplicas(replicas=frozenset([(0, 3)])))
LISTED = ThrottledReplicas(replicas=frozenset([(0, 3)]))


def found(*, listed=NO_REPLICAS, listed_rate=LONG_MAX, settings=MARKED, repairs=True, rate=5, adding=(3,)):
    throttles = ReplicaThrottles(SimpleNamespace(monotonic_us=lambda: 0), BrokerSettings())
    node = BrokerSettings(follower_replication_throttled_rate=listed_rate, rebalance_bytes_per_second_max=rate)
    throttles.on_settings(node, repairs=repairs)
    hosted = SimpleNamespace(name=TopicPartition("t", 0), log=SimpleNamespace(settings=settings))
    follower = throttles.follower
    throttle = follower.find(hosted, SimpleNamespace(adding_replicas=adding), listed, 3, 3)
    assert throttle is None or follower.is_active
    return {follower.listed: "listed", follower.repair: "repair", None: None}[throttle]


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        ({}, "repair"),
        ({"rate": LONG_MAX}, None),
        ({"repairs": False}, None),
        ({"adding": ()}, None),
        ({"adding": (4,)}, None),
        ({"settings": TopicSettings()}, None),
        ({"listed": LISTED}, "repair"),
        ({"listed": LISTED, "listed_rate": 9}, "listed"),
        ({"listed": LISTED, "listed_rate": 9, "rate": LONG_MAX}, "listed"),
        ({"listed_rate": 9}, "repair"),
    ],
)
def test_an_operator_s_throttle_counts_before_the_budget_and_each_only_where_it_holds(situation, expected):
    assert found(**situation) == expected
