"""A consumer group that was moved to a mirrored topic: it goes on within its last commit, and then without a gap."""

import itertools
from collections.abc import Sequence


def judge_moved_group(previous_commit: int, last_commit: int, total: int, numbers: Sequence[int]) -> list[str]:
    """Return what is wrong with the records that the moved group read.

    Args:
        previous_commit: the number of the first record after the group's last commit but one.
        last_commit: the number of the first record after the group's last commit.
        total: the records of the mirrored topic are numbered from 0 to ``total - 1``.
        numbers: of the records that the group read in its new place, in order.
    """
    if not numbers:
        return ["the moved group read nothing"]
    found = []
    if numbers[0] > last_commit:
        found.append(f"records {last_commit} to {numbers[0] - 1} were skipped: the group had committed {last_commit}")
    if numbers[0] < previous_commit:
        found.append(
            f"the group began at {numbers[0]}: its last commits on the source were {previous_commit} and {last_commit}"
        )
    for left, right in itertools.pairwise(numbers):
        if right != left + 1:
            found.append(f"record {left} is followed by {right}")
            break
    if numbers[-1] != total - 1:
        found.append(f"the last record is {numbers[-1]}, not {total - 1}")
    return found
