"""Patterns of group ids: ids in which ``*`` stands for any characters.

Clients choose both the ids and, with the settings of a topic, the patterns. So a match takes time in proportion to their lengths: between
two stars each part is looked for behind the one before, and the first place is as good as any later one. An expression with as many ``.*``
would go back and try others.
"""

from collections.abc import Iterable
from functools import lru_cache


class GroupPatterns:
    """Some patterns.

    Args:
        patterns: no pattern matches no group.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(tuple(pattern.split("*")) for pattern in patterns)

    def matches(self, group_id: str) -> bool:
        """True if the whole id fits one of the patterns."""
        return any(_fits(parts, group_id) for parts in self._patterns)


def _fits(parts: tuple[str, ...], group_id: str) -> bool:
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return group_id == first
    place, end = len(first), len(group_id) - len(last)
    if place > end or not group_id.startswith(first) or not group_id.endswith(last):
        return False
    for part in parts[1:-1]:
        place = group_id.find(part, place, end)
        if place < 0:
            return False
        place += len(part)
    return True


@lru_cache(maxsize=256)
def group_patterns(patterns: tuple[str, ...]) -> GroupPatterns:
    """Patterns that are asked for again and again: those of a topic's holds, for each offset of each group."""
    return GroupPatterns(patterns)
