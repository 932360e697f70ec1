"""Which throttle a replica goes by, of those that a node has for one direction."""

from types import SimpleNamespace

import pytest

from esp.broker.replication.replication_throttle import Share
from esp.broker.replication.throttles import ReplicaThrottles
from esp.model.ids import TopicPartition
from esp.settings.broker import BrokerSettings
from esp.settings.setting import LONG_MAX
from esp.settings.throttled_replicas import NO_REPLICAS, ThrottledReplicas
from esp.settings.topic import TopicSettings

MARKED = TopicSettings(rebalance_throttled_replicas=ThrottledReplicas(replicas=frozenset([(0, 3)])))
LISTED = ThrottledReplicas(replicas=frozenset([(0, 3)]))


class StandingClock:
    """Time passes when the test says so, and nobody is called."""

    def __init__(self):
        self.now_us = 0

    def monotonic_us(self):
        return self.now_us

    def call_later_us(self, delay_us, call):
        return SimpleNamespace(cancel=lambda: None)


def found(*, listed=NO_REPLICAS, listed_rate=LONG_MAX, settings=MARKED, rate=5, adding=(3,)):
    throttles = ReplicaThrottles(StandingClock(), BrokerSettings())
    node = BrokerSettings(follower_replication_throttled_rate=listed_rate, rebalance_bytes_per_second_max=rate)
    throttles.on_settings(node, repairs=True)
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


@pytest.mark.parametrize("repairs", [True, False])
def test_nobody_needs_to_ask_for_the_budget_while_nothing_is_repaired(repairs):
    throttles = ReplicaThrottles(StandingClock(), BrokerSettings())
    throttles.on_settings(BrokerSettings(rebalance_bytes_per_second_max=5), repairs=repairs)
    assert throttles.leader.is_active is throttles.follower.is_active is repairs


def test_next_round_of_repairs_pays_for_what_the_last_one_took():
    clock = StandingClock()
    throttles = ReplicaThrottles(clock, BrokerSettings())
    node = BrokerSettings(rebalance_bytes_per_second_max=1000)
    throttles.on_settings(node, repairs=True)
    repair = throttles.follower.repair
    share = Share(repair, lambda: None)
    assert repair.reserve(share, 100)
    share.settle(5000)
    throttles.on_settings(node, repairs=False)
    clock.now_us = 4_999_999
    throttles.on_settings(node, repairs=True)
    assert not repair.reserve(share, 100)
    clock.now_us = 5_000_000
    assert repair.reserve(share, 100)
