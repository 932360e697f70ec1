"""Numbered lines through a pipeline: each once and in order where it is exactly once, none skipped where it is at least once."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

_NUMBERED: Final = re.compile(r"<(\d{8})>")


def numbered_line(number: int) -> str:
    """Return line ``number``, which can be told from its neighbours when the line feed between them is missing."""
    return f"<{number:08}>"


def numbers_in(text: str) -> list[int]:
    """Return the numbers of the lines in a text; a process that was killed between a line and its line feed does not matter."""
    return [int(number) for number in _NUMBERED.findall(text)]


def judge_exactly_once(total: int, numbers: Sequence[int]) -> list[str]:
    """Return the differences between ``numbers`` and 0, 1, 2 and so on below ``total``."""
    for place, number in enumerate(numbers):
        if number != place:
            kind = "again" if number in numbers[:place] else "too early" if number > place else "late"
            return [f"line {number} comes {kind}, in the place of line {place} of {total}"]
    return [] if len(numbers) == total else [f"{len(numbers)} lines came, not {total}"]


def judge_at_least_once(total: int, numbers: Iterable[int]) -> list[str]:
    """Return where ``numbers`` skip a line: after a restart they may go back, and go on from there without a gap."""
    next_new = 0
    previous = -1
    for number in numbers:
        if number >= total:
            return [f"line {number} was never written"]
        if number > next_new:
            return [f"line {next_new} of {total} was skipped: line {number} came"]
        if number > previous + 1:
            return [f"line {previous} is followed by line {number}"]
        next_new = max(next_new, number + 1)
        previous = number
    return [] if next_new == total else [f"the last line is {next_new - 1}, not {total - 1}"]
