"""Fewer faults that break the same invariant: delta debugging over the plan of a seed (Zeller's ddmin)."""

from collections.abc import Callable, Sequence


def shrink(places: Sequence[int], fails: Callable[[Sequence[int]], bool], *, tries_max: int = 500) -> list[int]:
    """Return a part of ``places`` that still fails, and does so no more without any one of its members (as far as the tries go).

    Args:
        places: of the faults in the plan; together they fail.
        fails: whether a part of them does.
        tries_max: calls of ``fails``, at most.
    """
    left = list(places)
    parts = 2
    tries = 0
    while len(left) > 1 and tries < tries_max:
        size = -(-len(left) // parts)
        chunks = [left[start : start + size] for start in range(0, len(left), size)]
        for chunk in chunks:
            if tries >= tries_max:
                return left
            rest = [place for place in left if place not in chunk]
            tries += 1
            if fails(rest):
                left, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts >= len(left):
                break
            parts = min(len(left), parts * 2)
    if len(left) == 1 and fails([]):
        return []
    return left
