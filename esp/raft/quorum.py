"""Majority arithmetic."""

from collections.abc import Iterable


def is_majority(granted: int, voters: int) -> bool:
    """Whether so many of the voters are more than half of them."""
    return 2 * granted > voters


def majority_offset(offsets: Iterable[int]) -> int:
    """The greatest offset that a majority has reached, given how far each voter has come, at least one."""
    descending = sorted(offsets, reverse=True)
    return descending[len(descending) // 2]
