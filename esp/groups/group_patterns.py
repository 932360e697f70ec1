"""Patterns of group ids: ids in which ``*`` stands for any characters."""

import re
from collections.abc import Iterable
from functools import lru_cache


class GroupPatterns:
    """Some patterns.

    Args:
        patterns: no pattern matches no group.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._any = re.compile(
            "|".join(".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns), re.DOTALL
        )
        self._is_empty = not self._any.pattern

    def matches(self, group_id: str) -> bool:
        """True if the whole id fits one of the patterns."""
        return not self._is_empty and self._any.fullmatch(group_id) is not None


@lru_cache(maxsize=256)
def group_patterns(patterns: tuple[str, ...]) -> GroupPatterns:
    """Patterns that are asked for again and again: those of a topic's holds, for each offset of each group."""
    return GroupPatterns(patterns)
