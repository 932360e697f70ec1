from esp.rebalance.journal_entries import Sample
from esp.rebalance.report import RATE_WINDOW_MS, measured_rate


def test_rate_is_that_of_the_last_samples() -> None:
    assert measured_rate([]) is None
    assert measured_rate([Sample(0, 5)]) is None
    assert measured_rate([Sample(0, 0), Sample(2000, 500)]) == 250
    long_ago = [Sample(0, 0), Sample(1000, 1_000_000)]
    recent = [Sample(1000 + RATE_WINDOW_MS, 1_000_000), Sample(2000 + RATE_WINDOW_MS, 1_000_100)]
    assert measured_rate([*long_ago, *recent]) == 100


def test_rate_is_not_negative_when_a_copy_begins_anew() -> None:
    assert measured_rate([Sample(0, 500), Sample(1000, 0)]) == 0
