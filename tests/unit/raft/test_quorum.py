"""Majority arithmetic, compared with counting."""

from hypothesis import given
from hypothesis import strategies as st

from esp.raft.voters import is_majority, majority_offset


@given(st.lists(st.integers(0, 20), min_size=1, max_size=7))
def test_the_majority_offset_is_the_greatest_that_more_than_half_have_reached(offsets):
    reached = [offset for offset in offsets if is_majority(sum(other >= offset for other in offsets), len(offsets))]
    assert majority_offset(offsets) == max(reached)


def test_half_is_no_majority():
    assert not is_majority(2, 4)
    assert is_majority(1, 1)
