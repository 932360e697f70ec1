"""Filters that Spark 4.1 and later hand to a source, and the ranges of topics, partitions and offsets beyond which no row passes them.

Spark looks at every row again. So a filter may be understood in part: what is left out must only be what it would refuse. A lower bound of
timestamps is an offset, that of the first record which is as late: all before it are earlier. An upper bound is none: producers choose
timestamps, and an early one may follow a late one.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from esp.spark.ranges import OffsetRange

_NUMBER_MOST: Final = 2**63 - 1
_MILLISECOND: Final = dt.timedelta(milliseconds=1)
_LOWER_BOUNDS: Final = ("EqualTo", "In", "GreaterThan", "GreaterThanOrEqual")
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(slots=True)
class Interval:
    """Whole numbers from ``first`` on, up to ``end``, which is not included."""

    first: int = 0
    end: int = _NUMBER_MOST

    def __contains__(self, number: int) -> bool:
        return self.first <= number < self.end


class Narrowing:
    """The rows that filters may let pass.

    Attributes:
        topics: their topics; None: any.
        partitions: the numbers of their partitions.
        offsets: their offsets.
        since_ms: the earliest timestamp, in milliseconds since 1970; None: any.
    """

    def __init__(self) -> None:
        self.topics: frozenset[str] | None = None
        self.partitions = Interval()
        self.offsets = Interval()
        self.since_ms: int | None = None

    def apply(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Return what is left of ranges; some may be empty."""
        left = []
        for one in ranges:
            if self.topics is not None and one.partition.topic not in self.topics:
                continue
            if one.partition.number in self.partitions:
                first = min(max(one.first, self.offsets.first), one.end)
                left.append(OffsetRange(one.partition, first, max(first, min(one.end, self.offsets.end))))
        return left

    def add(self, filters: Iterable[Any]) -> None:
        """Take filters of PySpark's into account, all of which rows must pass; those that are not understood narrow nothing."""
        for one in filters:
            attribute: Sequence[str] = getattr(one, "attribute", ())
            if len(attribute) == 1 and hasattr(one, "value"):
                self._add(attribute[0], type(one).__name__, one.value)

    def _add(self, column: str, kind: str, value: Any) -> None:
        values = tuple(value) if kind == "In" else (value,)
        if column == "topic":
            if kind in ("EqualTo", "In") and _are(values, str):
                self.topics = frozenset(values) if self.topics is None else self.topics & frozenset(values)
        elif column in ("partition", "offset"):
            if _are(values, int):
                _bound(self.partitions if column == "partition" else self.offsets, kind, values)
        elif column == "timestamp" and kind in _LOWER_BOUNDS and _are(values, dt.datetime):
            self._begin(values)

    def _begin(self, times: Sequence[dt.datetime]) -> None:
        if all(each.tzinfo is not None for each in times):
            since_ms = (min(times) - _EPOCH) // _MILLISECOND
            self.since_ms = since_ms if self.since_ms is None else max(self.since_ms, since_ms)


def _are(values: Sequence[Any], kind: type) -> bool:
    return bool(values) and all(type(each) is kind for each in values)


def _bound(interval: Interval, kind: str, values: Sequence[int]) -> None:
    bounds: dict[str, Callable[[], tuple[int, int]]] = {
        "EqualTo": lambda: (values[0], values[0] + 1),
        "In": lambda: (min(values), max(values) + 1),
        "GreaterThan": lambda: (values[0] + 1, _NUMBER_MOST),
        "GreaterThanOrEqual": lambda: (values[0], _NUMBER_MOST),
        "LessThan": lambda: (0, values[0]),
        "LessThanOrEqual": lambda: (0, values[0] + 1),
    }
    if kind in bounds:
        first, end = bounds[kind]()
        interval.first, interval.end = max(interval.first, first), min(interval.end, end)
