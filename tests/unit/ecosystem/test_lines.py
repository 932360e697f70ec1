"""The judges of numbered lines."""

import pytest

from tests.ecosystem.oracles.lines import judge_at_least_once, judge_exactly_once, numbered_line, numbers_in


def test_lines_are_found_in_a_text_without_line_feeds() -> None:
    assert numbers_in(numbered_line(7) + numbered_line(8) + "\n" + numbered_line(9)[:5]) == [7, 8]


def test_each_line_once_in_order_passes() -> None:
    assert judge_exactly_once(3, [0, 1, 2]) == []
    assert judge_at_least_once(3, [0, 1, 2]) == []


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ([0, 1], "2 lines came, not 3"),
        ([0, 1, 1, 2], "line 1 comes again, in the place of line 2 of 3"),
        ([0, 2, 1], "line 2 comes too early, in the place of line 1 of 3"),
        ([0, 1, 2, 0], "line 0 comes again, in the place of line 3 of 3"),
    ],
)
def test_loss_repetition_and_disorder_are_found(numbers: list[int], problem: str) -> None:
    assert judge_exactly_once(3, numbers) == [problem]


def test_going_back_is_at_least_once() -> None:
    assert judge_at_least_once(4, [0, 1, 2, 1, 2, 3]) == []


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ([0, 1, 3], "line 2 of 4 was skipped: line 3 came"),
        ([0, 1, 2, 0, 2, 3], "line 0 is followed by line 2"),
        ([0, 1, 2], "the last line is 2, not 3"),
        ([0, 1, 2, 3, 4], "line 4 was never written"),
    ],
)
def test_skipped_lines_are_found(numbers: list[int], problem: str) -> None:
    assert judge_at_least_once(4, numbers) == [problem]
