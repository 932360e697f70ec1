import datetime as dt
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.consumer.messages import Partition
from esp.spark.narrowing import Narrowing
from esp.spark.ranges import OffsetRange


@dataclass(frozen=True)
class Filter:
    """As PySpark 4.1 has them, one class for each kind."""

    attribute: tuple[str, ...]
    value: Any


class EqualTo(Filter):
    def passes(self, found: Any) -> bool:
        return found == self.value


class In(Filter):
    def passes(self, found: Any) -> bool:
        return found in self.value


class GreaterThan(Filter):
    def passes(self, found: Any) -> bool:
        return found > self.value


class GreaterThanOrEqual(Filter):
    def passes(self, found: Any) -> bool:
        return found >= self.value


class LessThan(Filter):
    def passes(self, found: Any) -> bool:
        return found < self.value


class LessThanOrEqual(Filter):
    def passes(self, found: Any) -> bool:
        return found <= self.value


@dataclass(frozen=True)
class Not:
    """A kind that narrows nothing."""

    child: Filter

    def passes(self, found: Any) -> bool:
        return not self.child.passes(found)


KINDS = st.sampled_from([EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual])
NUMBERS = st.integers(-2, 12)
FILTERS = st.one_of(
    st.builds(
        lambda kind, column, value: kind((column,), value), KINDS, st.sampled_from(["partition", "offset"]), NUMBERS
    ),
    st.builds(
        lambda column, values: In((column,), tuple(values)),
        st.sampled_from(["partition", "offset"]),
        st.lists(NUMBERS, min_size=1, max_size=3),
    ),
    st.builds(lambda value: EqualTo(("topic",), value), st.sampled_from(["a", "b"])),
    st.builds(lambda values: In(("topic",), tuple(values)), st.lists(st.sampled_from("abc"), min_size=1)),
    st.builds(lambda kind, value: Not(kind(("offset",), value)), KINDS, NUMBERS),
)
RANGES = [OffsetRange(Partition(topic, number), 2, 9) for topic in "abc" for number in range(4)]


def column_of(one: Filter | Not) -> str:
    return one.child.attribute[0] if isinstance(one, Not) else one.attribute[0]


@given(filters=st.lists(FILTERS, max_size=4))
def test_no_row_is_left_out_that_passes_all_filters(filters: list[Filter | Not]) -> None:
    narrowing = Narrowing()
    narrowing.add(filters)
    left = narrowing.apply(RANGES)
    rows = {(one.partition, offset) for one in left for offset in range(one.first, one.end)}
    for one in RANGES:
        for offset in range(one.first, one.end):
            found = {"topic": one.partition.topic, "partition": one.partition.number, "offset": offset}
            if all(each.passes(found[column_of(each)]) for each in filters):
                assert (one.partition, offset) in rows
    assert rows <= {(one.partition, offset) for one in RANGES for offset in range(one.first, one.end)}


def test_bounds_are_exact() -> None:
    narrowing = Narrowing()
    narrowing.add(
        [EqualTo(("topic",), "b"), LessThan(("partition",), 2), GreaterThan(("offset",), 3), In(("offset",), (9, 5, 7))]
    )
    assert narrowing.apply(RANGES) == [OffsetRange(Partition("b", number), 5, 9) for number in (0, 1)]


def test_timestamps_have_a_lower_bound_only() -> None:
    noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    narrowing = Narrowing()
    narrowing.add([LessThan(("timestamp",), noon)])
    assert narrowing.since_ms is None
    narrowing.add([GreaterThan(("timestamp",), noon), GreaterThanOrEqual(("timestamp",), noon - dt.timedelta(hours=1))])
    assert narrowing.since_ms == 1_767_261_600_000
    narrowing.add([EqualTo(("timestamp",), noon + dt.timedelta(microseconds=1500))])
    assert narrowing.since_ms == 1_767_261_600_001


@pytest.mark.parametrize(
    "other",
    [
        EqualTo(("offset",), None),
        EqualTo(("offset",), 1.5),
        EqualTo(("offset", "inner"), 1),
        EqualTo(("key",), b"k"),
        In(("offset",), ()),
        GreaterThan(("timestamp",), dt.datetime(2026, 1, 1)),
        GreaterThan(("topic",), "a"),
        Not(EqualTo(("offset",), 1)),
    ],
)
def test_what_is_not_understood_narrows_nothing(other: Filter | Not) -> None:
    narrowing = Narrowing()
    narrowing.add([other])
    assert narrowing.apply(RANGES) == RANGES
    assert narrowing.since_ms is None
