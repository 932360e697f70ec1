"""The judge of a group that was moved to another cluster."""

import pytest

from tests.ecosystem.oracles.moved_group import judge_moved_group


@pytest.mark.parametrize("first", [10, 15, 20])
def test_group_goes_on_within_its_last_commit(first: int) -> None:
    assert judge_moved_group(10, 20, 25, range(first, 25)) == []


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ([], "the moved group read nothing"),
        (range(22, 25), "records 20 to 21 were skipped: the group had committed 20"),
        (range(9, 25), "the group began at 9: its last commits on the source were 10 and 20"),
        ([18, 19, 21, 22, 23, 24], "record 19 is followed by 21"),
        ([18, 19, 19, 20, 21, 22, 23, 24], "record 19 is followed by 19"),
        (range(18, 24), "the last record is 23, not 24"),
    ],
)
def test_wrong_positions_are_found(numbers: list[int], problem: str) -> None:
    assert judge_moved_group(10, 20, 25, numbers) == [problem]
