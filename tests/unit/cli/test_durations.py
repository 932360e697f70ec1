import pytest

from esp.cli.durations import format_span


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (-5, "0 s"),
        (999, "0 s"),
        (4_200, "4 s"),
        (60_000, "1 min"),
        (200_000, "3 min 20 s"),
        (5_400_000, "1 h 30 min"),
        (2 * 86_400_000 + 4 * 3_600_000 + 59_000, "2 d 4 h"),
    ],
)
def test_spans_are_told_in_the_largest_units(span_ms: int, text: str) -> None:
    assert format_span(span_ms) == text
