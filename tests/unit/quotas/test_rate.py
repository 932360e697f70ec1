import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.quotas.rate import LONGEST_MS, Rate, Windows

KAFKAS = Windows(11, 1000)


class NaiveRate:
    """Kafka's algorithm word for word: every sample is looked at each time."""

    def __init__(self, windows, now_ms):
        self.windows = windows
        self.samples = [[now_ms, now_ms, 0.0]]
        """Start, last event, value."""
        self.current = 0

    def record(self, amount, now_ms):
        if now_ms - self.samples[self.current][0] >= self.windows.size_ms:
            self.current = (self.current + 1) % (self.windows.number + 1)
            if self.current >= len(self.samples):
                self.samples.append([now_ms, now_ms, 0.0])
            else:
                self.samples[self.current] = [now_ms, now_ms, 0.0]
        self.samples[self.current][1] = now_ms
        self.samples[self.current][2] += amount

    def throttle_ms(self, limit, now_ms):
        self.samples = [
            [now_ms, now_ms, 0.0] if now_ms - sample[1] >= self.windows.total_ms else sample for sample in self.samples
        ]
        elapsed = now_ms - min(sample[0] for sample in self.samples)
        full = elapsed // self.windows.size_ms
        if full < self.windows.number - 1:
            elapsed += (self.windows.number - 1 - full) * self.windows.size_ms
        elapsed = max(elapsed, 1)
        rate = sum(sample[2] for sample in self.samples) * 1000 / elapsed
        return int((rate - limit) / limit * elapsed + 0.5) if rate > limit else 0


@given(
    st.integers(1, 12),
    st.sampled_from([10, 1000]),
    st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 30), st.booleans()), max_size=60),
)
def test_a_rate_is_what_all_samples_give_each_time(number, size_ms, events):
    windows, now_ms = Windows(number, size_ms), 5
    rate, naive = Rate(windows, now_ms), NaiveRate(windows, now_ms)
    for pause_ms, amount, asks in events:
        now_ms += pause_ms
        rate.record(amount, now_ms)
        naive.record(amount, now_ms)
        # A window begins anew when it is looked at: both are looked at each time that anything is recorded.
        assert rate.throttle_ms(3, now_ms) == naive.throttle_ms(3, now_ms)
        if asks:
            now_ms += pause_ms
            assert rate.throttle_ms(7, now_ms) == naive.throttle_ms(7, now_ms)


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 1_500_000)), max_size=80))
def test_all_that_the_windows_hold_is_waited_for_but_what_they_allow_at_once(requests):
    limit, now_ms = 100_000, 0
    rate = Rate(KAFKAS, now_ms)
    sent = []
    for pause_ms, size in requests:
        now_ms += pause_ms
        rate.record(size, now_ms)
        sent.append((now_ms, size))
        counted = sum(size for sent_ms, size in sent if now_ms - sent_ms < KAFKAS.total_ms)
        throttle_ms = rate.throttle_ms(limit, now_ms)
        assert throttle_ms >= counted * 1000 / limit - KAFKAS.total_ms - KAFKAS.size_ms
        now_ms += throttle_ms


def test_a_client_of_large_requests_that_waits_as_told_has_more_than_its_quota():
    """As in Kafka (decision 52): when it has waited for a request as large as all windows allow, that is forgotten, and they are empty."""
    limit, now_ms, total = 100_000, 0, 0
    rate, naive = Rate(KAFKAS, now_ms), NaiveRate(KAFKAS, now_ms)
    for _ in range(100):
        for size in (1_000_000, 1_100_000):
            rate.record(size, now_ms)
            naive.record(size, now_ms)
            total += size
            throttle_ms = rate.throttle_ms(limit, now_ms)
            assert throttle_ms == naive.throttle_ms(limit, now_ms)
            now_ms += throttle_ms
    assert 1.9 < total * 1000 / now_ms / limit < 1.92


def test_the_third_request_of_400_kb_waits_for_what_kafka_lets_it_wait():
    """A client at 100 kB/s, as measured on Kafka 4.3.1: 1,982 ms, then 5,997 ms, and 5,995 ms for a connection that does not wait."""
    rate, now_ms = Rate(KAFKAS, 0), 0
    told = []
    for pause_ms in (0, 9, 9, 1985):
        now_ms += pause_ms
        rate.record(400_000, now_ms)
        told.append(rate.throttle_ms(100_000, now_ms))
    assert told == [0, 0, 1982, 5997]


def test_a_rate_that_is_taken_back_is_as_if_it_was_not():
    rate = Rate(KAFKAS, 0)
    rate.record(900_000, 0)
    rate.record(300_000, 10)
    assert rate.throttle_ms(100_000, 10) > 0
    rate.record(-300_000, 10)
    assert rate.throttle_ms(100_000, 10) == 0


def test_a_rate_is_idle_when_nothing_counts_any_more():
    rate = Rate(KAFKAS, 0)
    rate.record(5, 3_000)
    assert not rate.is_idle(13_999)
    assert rate.is_idle(14_000)
    assert rate.per_second(14_000) == 0
    assert rate.per_second(3_000 + 500) == 0


@pytest.mark.parametrize("limit", [0, 5e-324, 1e-310, 1e-9])
def test_a_limit_may_be_as_small_as_a_number_can_be(limit):
    rate = Rate(KAFKAS, 0)
    assert rate.throttle_ms(limit, 0) == 0
    rate.record(5, 3)
    assert rate.throttle_ms(limit, 3) == LONGEST_MS
