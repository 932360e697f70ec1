from hypothesis import given
from hypothesis import strategies as st

from esp.broker.metrics.histogram import BOUNDS_US, Histogram


@given(st.lists(st.integers(0, 40_000_000)))
def test_every_duration_is_in_the_buckets_of_all_bounds_that_it_does_not_exceed(durations_us):
    histogram = Histogram()
    for duration_us in durations_us:
        histogram.observe(duration_us)
    buckets = histogram.buckets()
    for bound_us, (text, count) in zip(BOUNDS_US, buckets, strict=False):
        assert float(text) * 1_000_000 == bound_us
        assert count == sum(duration_us <= bound_us for duration_us in durations_us)
    assert buckets[-1] == ("+Inf", len(durations_us))
    assert histogram.count == len(durations_us)
    assert histogram.sum_s == sum(durations_us) / 1_000_000
