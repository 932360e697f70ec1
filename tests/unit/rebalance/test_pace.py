from hypothesis import given
from hypothesis import strategies as st

from esp.rebalance.pace import Pace


@given(st.lists(st.one_of(st.none(), st.floats(0, 1000)), max_size=100))
def test_rate_stays_within_its_bounds(latencies: list[float | None]) -> None:
    pace = Pace(32_000_000, 50.0)
    for each in latencies:
        pace.on_latency(each)
        assert 1_000_000 <= pace.bytes_per_second <= 128_000_000


def test_fixed_budget_is_fixed() -> None:
    pace = Pace(1000)
    for latency in (None, 0.0, 1e9):
        pace.on_latency(latency)
        assert pace.bytes_per_second == 1000


def test_suffering_halves_calm_adds_and_in_between_it_stays() -> None:
    pace = Pace(1_000_000, 50.0)
    pace.on_latency(51.0)
    assert pace.bytes_per_second == 500_000
    pace.on_latency(45.0)
    assert pace.bytes_per_second == 500_000
    pace.on_latency(10.0)
    assert pace.bytes_per_second == 600_000
    pace.on_latency(None)
    assert pace.bytes_per_second == 700_000
