from hypothesis import given
from hypothesis import strategies as st

from esp.replication.high_watermark import effective_min_isr, next_high_watermark

offsets = st.integers(min_value=0, max_value=1000)


@given(st.integers(1, 10), st.integers(1, 10))
def test_min_isr_never_exceeds_the_replicas(min_isr: int, replicas: int) -> None:
    assert effective_min_isr(min_isr, replicas) == min(min_isr, replicas)


@given(offsets, st.lists(offsets, min_size=1, max_size=5), st.integers(1, 5))
def test_high_watermark_never_falls_and_never_passes_the_slowest_replica(current, ends, min_isr) -> None:
    moved = next_high_watermark(current, ends, len(ends), min_isr)
    assert moved >= current
    assert moved in (current, min(ends))
    if len(ends) >= min_isr:
        assert moved >= min(ends)


@given(offsets, st.lists(offsets, min_size=1, max_size=3))
def test_nothing_is_committed_below_min_isr(current, ends) -> None:
    assert next_high_watermark(current, ends, isr_size=len(ends), min_isr=len(ends) + 1) == current
