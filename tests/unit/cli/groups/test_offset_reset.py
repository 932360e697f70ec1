from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.cli.groups.offset_reset import (
    Bounds,
    Target,
    format_offsets_csv,
    new_offset,
    parse_datetime,
    parse_duration,
    parse_offsets_csv,
    parse_topics,
)
from esp.cli.kafka.answers import PartitionId
from esp.model.errors import OperatorError

BOUNDS = st.tuples(st.integers(0, 50), st.integers(0, 50), st.none() | st.integers(0, 120)).map(
    lambda each: Bounds(each[0], each[0] + each[1], each[2])
)
NAMES = st.text("abc.-_", min_size=1, max_size=6)


@given(bounds=BOUNDS, offset=st.integers(0, 150))
def test_an_offset_is_put_where_the_log_is(bounds, offset):
    found = new_offset(Target.OFFSET, offset, bounds)
    assert bounds.earliest <= found <= bounds.latest
    if bounds.earliest <= offset <= bounds.latest:
        assert found == offset


@given(bounds=BOUNDS, by=st.integers(-150, 150))
def test_a_shift_goes_from_what_is_committed_and_stays_in_the_log(bounds, by):
    if bounds.committed is None:
        with pytest.raises(ValueError, match="there is no committed offset"):
            new_offset(Target.SHIFT, by, bounds)
        return
    everything = range(bounds.earliest, bounds.latest + 1)
    wanted = bounds.committed + by
    assert new_offset(Target.SHIFT, by, bounds) == min(everything, key=lambda offset: abs(offset - wanted))


@given(bounds=BOUNDS)
def test_named_places_are_those_of_the_log_and_of_the_group(bounds):
    assert new_offset(Target.EARLIEST, 0, bounds) == bounds.earliest
    assert new_offset(Target.LATEST, 0, bounds) == bounds.latest
    assert new_offset(Target.TIME, -1, bounds) == bounds.latest, "no record is that young"
    assert new_offset(Target.TIME, bounds.earliest, bounds) == bounds.earliest
    current = bounds.latest if bounds.committed is None else bounds.committed
    assert new_offset(Target.CURRENT, 0, bounds) == current


def test_topics_are_named_whole_or_by_partition():
    assert parse_topics(["a", "b:0,2", "b:5"]) == {"a": None, "b": frozenset({0, 2, 5})}
    for text in ("a:x", "a:", ":1", "a:-1"):
        with pytest.raises(OperatorError, match="--topic"):
            parse_topics([text])


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT0S", 0),
        ("P1D", 86_400_000),
        ("PT1.5S", 1500),
        ("P1DT2H3M4S", 93_784_000),
        ("-PT1M", -60_000),
        ("p1w", 604_800_000),
    ],
)
def test_durations_are_read(text, milliseconds):
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1H", "P1DT", "P1Y"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(OperatorError, match="--by-duration"):
        parse_duration(text)


@given(milliseconds=st.integers(0, 4_000_000_000_000))
def test_times_are_read_to_the_millisecond_and_without_a_zone_in_utc(milliseconds):
    moment = datetime.fromtimestamp(milliseconds // 1000, UTC).replace(microsecond=milliseconds % 1000 * 1000)
    text = moment.isoformat(timespec="milliseconds")
    assert parse_datetime(text) == milliseconds
    assert parse_datetime(text.removesuffix("+00:00")) == milliseconds


@given(
    offsets=st.dictionaries(
        NAMES, st.dictionaries(st.builds(PartitionId, NAMES, st.integers(0, 9)), st.integers(0, 10**9), min_size=1)
    )
)
def test_what_is_exported_is_read_back(offsets):
    text = "\n".join(format_offsets_csv(offsets))
    assert parse_offsets_csv(text, list(offsets)) == offsets


def test_lines_of_other_groups_are_left_out_and_bad_ones_named():
    assert parse_offsets_csv("g,t,0,5\nh,t,0,6\n", ["h"]) == {"h": {PartitionId("t", 0): 6}}
    with pytest.raises(OperatorError, match="line 2"):
        parse_offsets_csv("t,0,5\nt,0\n", ["g"])
