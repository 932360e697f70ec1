"""Counts of durations by size, cheap enough for every request."""

from bisect import bisect_left
from typing import Final

BOUNDS_US: Final = (
    *(100, 250, 500),
    *(1_000, 2_500, 5_000),
    *(10_000, 25_000, 50_000),
    *(100_000, 250_000, 500_000),
    *(1_000_000, 2_500_000, 5_000_000),
    *(10_000_000, 30_000_000),
)
"""Upper bounds of the buckets in microseconds, the last bucket's excepted, which has none."""

_BOUNDS_S: Final = (*(repr(bound_us / 1_000_000) for bound_us in BOUNDS_US), "+Inf")


class Histogram:
    """The number of durations in each bucket."""

    __slots__ = ("_counts", "_sum_us")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_US) + 1)
        self._sum_us = 0

    def observe(self, duration_us: int) -> None:
        """Count one; a duration of exactly a bound is below it."""
        self._counts[bisect_left(BOUNDS_US, duration_us)] += 1
        self._sum_us += duration_us

    @property
    def count(self) -> int:
        """The number of durations."""
        return sum(self._counts)

    @property
    def sum_s(self) -> float:
        """Their sum in seconds."""
        return self._sum_us / 1_000_000

    def buckets(self) -> list[tuple[str, float]]:
        """Upper bounds in seconds, as Prometheus writes them, each with the number of durations up to it."""
        total = 0
        cumulative: list[tuple[str, float]] = []
        for bound, count in zip(_BOUNDS_S, self._counts, strict=True):
            total += count
            cumulative.append((bound, total))
        return cumulative
