from hypothesis import given
from hypothesis import strategies as st

from esp.quotas.limited_rate import LimitedRate
from esp.quotas.rate import Rate, Windows

WINDOWS = Windows(5, 100)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 150), st.integers(1, 30), st.sampled_from(["count", "take back", "limit", "idle", "look"])
        ),
        max_size=80,
    )
)
def test_what_is_put_off_changes_no_throttle_time(steps):
    now_ms, limit = 1_000, 50.0
    limited, plain = LimitedRate(WINDOWS, limit, now_ms), Rate(WINDOWS, now_ms)
    for pause_ms, amount, kind in steps:
        now_ms += pause_ms
        if kind == "limit":
            limit = 20.0 + amount
            limited.set_limit(limit)
        elif kind == "idle":
            assert limited.is_unused(now_ms) == (plain.per_second(now_ms) <= 0)
        elif kind == "look":
            expected_ms = limited.wait_ms(amount, now_ms)
        plain.record(amount, now_ms)
        throttle_ms = limited.count(amount, now_ms)
        assert throttle_ms == plain.throttle_ms(limit, now_ms)
        if kind == "look":
            assert expected_ms == throttle_ms
        if kind == "take back" or throttle_ms:
            plain.record(-amount, now_ms)
            assert limited.count(-amount, now_ms) == plain.throttle_ms(limit, now_ms)
