"""Cuts between files, held against a model that takes one row after the other."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from esp.capture.cutting import Limits, OpenFile, days_of, rows_that_fit
from esp.capture.file_names import DAY_MS, NO_DAY


def model(file: OpenFile, limit: int, days: list[int], row_bytes: float) -> int:
    """Take rows while they fit."""
    taken, size = 0, float(file.size_bytes)
    for day in days:
        is_first = file.rows + taken == 0
        if not is_first and (day > file.day or size + row_bytes > limit):
            break
        size += row_bytes
        taken += 1
    return taken


@given(
    st.integers(-1, 3),
    st.integers(0, 2),
    st.integers(0, 60),
    st.integers(1, 50),
    st.lists(st.integers(-1, 5), min_size=1),
    st.sampled_from([0.5, 1.0, 4.0, 64.0]),
)
def test_rows_are_taken_while_they_fit(
    day: int, rows: int, size: int, limit: int, days: list[int], row_bytes: float
) -> None:
    file = OpenFile(max(day, days[0]) if rows == 0 else day, 0.0, rows, size if rows else 0)
    taken = rows_that_fit(file, Limits(1.0, limit), np.array(days), row_bytes)
    assert taken == model(file, limit, days, row_bytes)


def test_records_without_a_usable_time_have_no_day() -> None:
    times = np.array([-1, 0, DAY_MS - 1, DAY_MS, 253_402_300_799_999, 253_402_300_800_000, 2**62])
    assert days_of(times).tolist() == [NO_DAY, 0, 0, 1, 2_932_896, NO_DAY, NO_DAY]


def test_file_is_closed_for_its_time_and_its_size() -> None:
    limits = Limits(10.0, 100)
    file = OpenFile(0, 5.0, 1, 100)
    assert file.is_full(limits)
    assert not file.is_due(limits, 14.9)
    assert file.is_due(limits, 15.0)
