"""The checker's own bucket: it finds what is not paid for, and nothing in what the product's quota lets go."""

import functools
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.broker.replication.fetcher import ReplicaFetcher
from esp.broker.replication.replication_throttle import BURST_US, FETCH_US
from esp.broker.replication.session import ReplicaSession
from esp.model.ids import TopicPartition
from esp.records.builder import NewRecord, build_batch
from esp.replication.replication_quota import ReplicationQuota
from esp.settings.setting import LONG_MAX
from esp.settings.throttled_replicas import NO_REPLICAS, ThrottledReplicas
from esp.settings.topic import TopicSettings
from esp.simulation.checkers.throttle_checker import Meter, Rates, ThrottleChecker
from esp.simulation.seeds import run_seed

WINDOW_US = 11_000_000
S = 1_000_000


@functools.cache
def batch(size: int) -> bytes:
    """A batch whose record has so many bytes."""
    return bytes(build_batch([NewRecord(b"." * size)]))


def take(meter: Meter, now_us: int, records: bytes) -> str:
    meter.on_let_go(now_us, "fetch")
    return meter.on_bytes(now_us, "fetch", records)


def test_bytes_at_the_rate_are_well_and_twice_as_many_are_found():
    records = batch(900)
    even = Meter(len(records), WINDOW_US)
    assert not any(take(even, second * S, records) for second in range(60))
    double = Meter(len(records) // 2, WINDOW_US)
    found = [take(double, second * S, records) for second in range(60)]
    assert not found[0]
    assert "owed" in found[-1]


def test_at_a_rate_of_zero_only_what_was_on_its_way_may_come():
    meter = Meter(0, WINDOW_US)
    meter.on_let_go(0, "first")
    assert not meter.on_bytes(0, "first", batch(10))
    assert not take(meter, 1, batch(10))
    assert take(meter, 100 * S, batch(10))


def test_partitions_that_were_let_go_together_may_come_together():
    meter = Meter(1000, WINDOW_US)
    for number in range(5):
        meter.on_let_go(0, number)
    assert not any(meter.on_bytes(0, number, batch(500)) for number in range(5))
    assert take(meter, 0, batch(500))


def test_partitions_that_come_late_are_no_reason_to_find_the_next_one():
    meter = Meter(1000, WINDOW_US)
    for number in range(5):
        meter.on_let_go(number * S // 2, number)
    for number in range(5):
        assert not meter.on_bytes(3 * S, number, batch(500))
    assert not take(meter, 3 * S, batch(500)), "the quota was paid for all of them before"
    assert not take(meter, 7 * S // 2, batch(500))


def test_what_was_let_go_under_another_rate_is_not_counted():
    meter = Meter(100_000, WINDOW_US)
    meter.on_let_go(0, "large")
    meter.set_rate(10)
    meter.on_let_go(S, "large")
    assert not meter.on_bytes(S, "large", batch(50_000))
    assert not take(meter, S, batch(10))
    assert not take(meter, 20 * S, batch(10))


@given(
    rates=st.lists(st.integers(300, 20_000), min_size=1, max_size=3),
    events=st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, S), st.integers(1, 2_000)),
        max_size=80,
    ),
)
def test_what_the_quota_of_the_product_lets_go_is_never_found(rates, events):
    """Four partitions, of which each may be let go when the quota is open, and comes when it likes; the rate changes now and then."""
    quota = ReplicationQuota(WINDOW_US, BURST_US)
    quota.set_rate(0, rates[0])
    meter = Meter(rates[0], WINDOW_US)
    now_us = 0
    costs = {}
    for what, partition, pause_us, size in events:
        now_us += pause_us
        if not what:
            rates.append(rates.pop(0))
            quota.set_rate(now_us, rates[0])
            meter.set_rate(rates[0])
        elif partition in costs:
            records = batch(size)
            quota.correct(now_us, costs.pop(partition), len(records))
            assert not meter.on_bytes(now_us, partition, records)
        else:
            now_us = max(now_us, quota.opens_at_us)
            costs[partition] = quota.share(FETCH_US)
            quota.take(now_us, costs[partition])
            meter.on_let_go(now_us, partition)


class Followed:
    """A partition that node 3 fetches, of which nobody has throttled anything but what is marked for self-repair."""

    def __init__(self, *, marked=False):
        replicas = ThrottledReplicas(replicas=frozenset([(0, 3)])) if marked else NO_REPLICAS
        settings = TopicSettings(rebalance_throttled_replicas=replicas)
        self.hosted = SimpleNamespace(name=TopicPartition("t", 0), log=SimpleNamespace(settings=settings))
        self.follower = SimpleNamespace(state=SimpleNamespace(isr=(1,), adding_replicas=(3,)))


@pytest.mark.parametrize("rate", [1000, LONG_MAX])
@pytest.mark.parametrize("marked", [True, False])
def test_who_waits_for_the_budget_must_go_by_it(rate, marked):
    found = []
    rates = Rates(leader=LONG_MAX, follower=LONG_MAX, repair=rate, window_us=WINDOW_US)
    checker = ThrottleChecker(lambda _node: rates, found.append)
    throttles = SimpleNamespace(listed="listed", repair="repair")
    fetcher = SimpleNamespace(_settings=SimpleNamespace(node_id=3), _throttles=throttles)
    checker._on_asked(fetcher, Followed(marked=marked), has_turn=False)
    is_throttled = marked and rate != LONG_MAX
    assert len(found) == (not is_throttled)
    assert not found or "waits for no throttle" in str(found[0])


def test_methods_that_are_watched_are_as_before_in_the_end():
    before = ReplicaSession._look_at, ReplicaFetcher._is_let
    checker = ThrottleChecker(lambda _node: None, lambda _violation: None)
    with checker.watched():
        assert ReplicaSession._look_at is not before[0]
    assert (ReplicaSession._look_at, ReplicaFetcher._is_let) == before


def test_run_with_throttles_keeps_to_them():
    outcome = run_seed(4, node_count=3)
    assert outcome.violation is None
    assert outcome.administered["throttles set"] > 0
