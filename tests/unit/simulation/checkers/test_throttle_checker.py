"""The checker's own bucket: it finds what is not paid for, and nothing in what the product's quota lets go."""

from hypothesis import given
from hypothesis import strategies as st

from esp.broker.replica_fetcher import ReplicaFetcher
from esp.broker.replica_session import ReplicaSession
from esp.broker.replication_throttle import BURST_US, FETCH_US
from esp.records.builder import build_batch
from esp.records.record import NewRecord
from esp.replication.replication_quota import ReplicationQuota
from esp.simulation.checkers.throttle_checker import Meter, ThrottleChecker
from esp.simulation.seeds import run_seed

WINDOW_US = 11_000_000
S = 1_000_000


def batch(size: int) -> bytes:
    """A batch whose record has so many bytes."""
    return bytes(build_batch([NewRecord(b"." * size)]))


def take(meter: Meter, now_us: int, records: bytes) -> str:
    meter.on_let_go("fetch")
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
    meter.on_let_go("first")
    assert not meter.on_bytes(0, "first", batch(10))
    assert not take(meter, 1, batch(10))
    assert take(meter, 100 * S, batch(10))


def test_partitions_that_were_let_go_together_may_come_together():
    meter = Meter(1000, WINDOW_US)
    for number in range(5):
        meter.on_let_go(number)
    assert not any(meter.on_bytes(0, number, batch(500)) for number in range(5))
    assert take(meter, 0, batch(500))


@given(
    rate=st.integers(300, 20_000),
    fetches=st.lists(st.tuples(st.integers(0, 3 * S), st.integers(1, 2_000)), max_size=60),
)
def test_what_the_quota_of_the_product_lets_go_is_never_found(rate, fetches):
    quota = ReplicationQuota(WINDOW_US, BURST_US)
    quota.set_rate(0, rate)
    meter = Meter(rate, WINDOW_US)
    now_us = 0
    for pause_us, size in fetches:
        now_us = max(now_us + pause_us, quota.opens_at_us)
        reserved = quota.share(FETCH_US)
        quota.take(now_us, reserved)
        records = batch(size)
        quota.correct(now_us, reserved, len(records))
        assert not take(meter, now_us, records)


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
