"""The meter of the replication throttles, against what it promises for any stretch of time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.replication.replication_quota import ReplicationQuota

S = 1_000_000
WINDOW_US = 11 * S
BURST_US = S // 10


def limited(rate, *, window_us=WINDOW_US, burst_us=BURST_US):
    quota = ReplicationQuota(window_us, burst_us)
    quota.set_rate(0, rate)
    return quota


rates = st.integers(1, 10**9)
sizes = st.integers(0, 20_000_000)


@given(
    rates, st.sampled_from([0, BURST_US]), st.lists(st.tuples(st.integers(0, 3 * S), sizes), min_size=1, max_size=60)
)
def test_in_any_stretch_of_a_window_passes_at_most_the_rate_and_the_burst_and_one_fetch(rate, burst_us, steps):
    quota = limited(rate, burst_us=burst_us)
    now_us, taken = 0, []
    for pause_us, size in steps:
        now_us += pause_us
        if not quota.is_open(now_us) and pause_us % 2:  # half of those that come too early come again when it opens
            now_us = quota.opens_at_us
        if quota.is_open(now_us):
            quota.take(now_us, size)
            taken.append((now_us, size))
    for first, (from_us, _) in enumerate(taken):
        stretch = [(at_us, size) for at_us, size in taken[first:] if at_us < from_us + WINDOW_US]
        for count in range(1, len(stretch) + 1):
            part = stretch[:count]
            allowed = rate * (part[-1][0] - from_us + burst_us) / S
            assert sum(size for _, size in part[:-1]) <= allowed + 1, "all but the last fetch are paid for when it goes"


@given(rates, sizes)
def test_a_fetch_holds_up_the_next_one_for_a_window_at_the_most(rate, size):
    quota = limited(rate)
    quota.take(0, size)
    assert quota.opens_at_us <= WINDOW_US
    assert quota.is_open(WINDOW_US)


@given(st.integers(4_000_000, 10**9), st.lists(st.tuples(sizes, sizes), max_size=20))
def test_what_is_corrected_counts_as_if_it_had_been_known(rate, fetches):
    guessed, known = limited(rate), limited(rate)
    for taken, used in fetches:
        now_us = max(guessed.opens_at_us, known.opens_at_us)
        guessed.take(now_us, taken)
        guessed.correct(now_us, taken, used)
        known.take(now_us, used)
        assert guessed.opens_at_us == known.opens_at_us


@given(st.integers(100_000, 10**8), st.integers(1_000, 1_000_000))
def test_whoever_always_takes_gets_the_rate(rate, size):
    quota = limited(rate)
    now_us, total = 0, 0
    while now_us < 5 * S and total < 200 * size:
        now_us = max(now_us, quota.opens_at_us) + 50
        quota.take(now_us, size)
        total += size
    elapsed_us = max(now_us, quota.opens_at_us)
    if now_us >= S:
        assert total == pytest.approx(rate * elapsed_us / S, rel=0.01)


def test_without_a_rate_everything_passes():
    quota = ReplicationQuota(WINDOW_US, BURST_US)
    for _ in range(10):
        quota.take(5, 10**9)
        assert quota.is_open(5)


def test_a_rate_of_zero_lets_nothing_pass_and_never_opens():
    quota = limited(0)
    assert not quota.is_open(10**15)
    assert quota.opens_at_us is None


def test_a_higher_rate_shortens_what_is_owed_and_none_ends_it():
    quota = limited(1_000)
    quota.take(0, 10_000)
    assert quota.opens_at_us == 10 * S
    quota.set_rate(0, 10_000)
    assert quota.opens_at_us == S
    quota.set_rate(0, None)
    assert quota.is_open(0)
    assert quota.opens_at_us == 0


def test_a_lower_rate_lengthens_what_is_owed_up_to_a_window():
    quota = limited(1_000)
    quota.take(0, 1_000)
    quota.set_rate(0, 500)
    assert quota.opens_at_us == 2 * S
    quota.set_rate(0, 1)
    assert quota.opens_at_us == WINDOW_US


def test_a_first_rate_begins_with_nothing_owed():
    quota = ReplicationQuota(WINDOW_US, BURST_US)
    quota.take(0, 10**9)
    quota.set_rate(7, 1)
    assert quota.is_open(7)


def test_a_share_of_time_is_a_byte_at_the_least():
    assert limited(5_000_000).share(S // 10) == 500_000
    assert limited(1).share(S // 10) == 1
