import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.quotas.rate import LONGEST_MS, Windows
from esp.quotas.token_bucket import TokenBucket

KAFKAS = Windows(11, 1000)


def test_eleven_partitions_may_be_changed_at_once_and_then_one_a_second():
    """As measured on Kafka 4.3.1 at a rate of 1 and six partitions a request: the third request waits for 887 ms."""
    bucket = TokenBucket(KAFKAS, 0)
    assert bucket.throttle_ms(1, 0) == 0
    bucket.take(6, 1, 0)
    assert bucket.throttle_ms(1, 50) == 0
    bucket.take(6, 1, 50)
    assert bucket.throttle_ms(1, 113) == 887


@given(st.floats(0.5, 20), st.lists(st.tuples(st.integers(0, 5000), st.integers(-3, 9)), max_size=40))
def test_a_bucket_holds_what_a_number_of_tokens_would(limit, steps):
    tokens = burst = limit * KAFKAS.total_ms / 1000
    bucket, now_ms = TokenBucket(KAFKAS, 0), 0
    for pause_ms, taken in steps:
        now_ms += pause_ms
        tokens = min(burst, tokens + limit * pause_ms / 1000)
        assert abs(bucket.throttle_ms(limit, now_ms) - max(0, -tokens / limit * 1000)) <= 1
        tokens = min(burst, tokens - taken)
        bucket.take(taken, limit, now_ms)


def test_a_bucket_is_idle_when_it_is_full_again():
    bucket = TokenBucket(KAFKAS, 0)
    assert bucket.is_idle(0)
    bucket.take(100, 10, 0)
    assert not bucket.is_idle(9_900)
    assert bucket.is_idle(10_001)


@pytest.mark.parametrize("limit", [0, 5e-324, 1e-310, 1e-9])
def test_a_limit_may_be_as_small_as_a_number_can_be(limit):
    bucket = TokenBucket(KAFKAS, 0)
    bucket.take(5, limit, 3)
    assert bucket.throttle_ms(limit, 3) == LONGEST_MS
