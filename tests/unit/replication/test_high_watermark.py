from hypothesis import given
from hypothesis import strategies as st

from esp.replication.partition_leader import effective_min_isr


@given(st.integers(1, 10), st.integers(1, 10))
def test_min_isr_never_exceeds_the_replicas(min_isr: int, replicas: int) -> None:
    assert effective_min_isr(min_isr, replicas) == min(min_isr, replicas)
