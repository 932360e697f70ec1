"""Floods of log lines."""

import logging

import pytest

from esp.runtime.log_flood import LINES_MAX, WINDOW_S, FloodFilter


def record(at_s: float, *, line: int = 1, level: int = logging.WARNING, who: str = "somebody") -> logging.LogRecord:
    made = logging.LogRecord("esp", level, "server.py", line, "refused a connection of %s", (who,), None)
    made.created = at_s
    return made


def test_what_an_orderly_node_says_is_logged_as_it_is() -> None:
    flood_filter = FloodFilter()
    records = [record(1000 + number, who=str(number)) for number in range(50)]
    assert all(map(flood_filter.filter, records))
    assert [said.getMessage() for said in records] == [f"refused a connection of {number}" for number in range(50)]


def test_a_flood_is_cut_and_its_size_told_with_the_next_line() -> None:
    flood_filter = FloodFilter()
    assert sum(flood_filter.filter(record(1000 + number / 1000)) for number in range(5000)) == LINES_MAX
    following = record(1000 + WINDOW_S)
    assert flood_filter.filter(following)
    assert (
        following.getMessage()
        == f"refused a connection of somebody ({5000 - LINES_MAX} lines like this were left out before)"
    )
    after_that = record(1001 + 2 * WINDOW_S)
    assert flood_filter.filter(after_that)
    assert after_that.getMessage() == "refused a connection of somebody"


def test_a_flood_of_one_place_leaves_others_their_lines() -> None:
    flood_filter = FloodFilter()
    for _ in range(2 * LINES_MAX):
        flood_filter.filter(record(1000))
    assert flood_filter.filter(record(1000, line=2))


@pytest.mark.parametrize("level", [logging.ERROR, logging.CRITICAL])
def test_errors_are_never_left_out(level: int) -> None:
    flood_filter = FloodFilter()
    assert all(flood_filter.filter(record(1000, level=level)) for _ in range(10 * LINES_MAX))


def test_a_clock_that_is_set_back_begins_a_new_window() -> None:
    flood_filter = FloodFilter()
    for _ in range(2 * LINES_MAX):
        flood_filter.filter(record(1000))
    assert flood_filter.filter(record(500))
