"""Dates and timestamps in texts; that Spark says the same is tested where Spark runs."""

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.values.errors import SchemaError
from esp.values.times import find_zone, parse_date, parse_local_timestamp, parse_timestamp, require_zone

EPOCH = datetime(1970, 1, 1)
PARIS = ZoneInfo("Europe/Paris")


def microseconds(time: datetime) -> int:
    return (time.replace(tzinfo=None) - (time.utcoffset() or timedelta()) - EPOCH) // timedelta(microseconds=1)


@given(st.dates())
def test_dates_are_those_of_the_calendar(day: date) -> None:
    assert parse_date(day.isoformat()) == (day - EPOCH.date()).days


@given(st.datetimes(timezones=st.sampled_from([UTC, PARIS, timezone(timedelta(hours=-3.5))])))
def test_timestamps_with_an_offset_are_instants(time: datetime) -> None:
    if time.utcoffset().seconds % 60 == 0:  # isoformat writes seconds of old offsets, which are taken too
        assert parse_timestamp(time.isoformat(), PARIS) == microseconds(time)


@given(st.datetimes(), st.sampled_from([UTC, PARIS, ZoneInfo("America/New_York")]))
def test_timestamps_without_a_zone_are_of_the_zone_given(time: datetime, zone: ZoneInfo) -> None:
    assert parse_timestamp(time.isoformat(" "), zone) == microseconds(time.replace(tzinfo=zone))
    assert parse_local_timestamp(time.isoformat()) == microseconds(time)


def test_a_time_that_was_twice_is_the_first_and_one_that_was_not_is_later() -> None:
    assert parse_timestamp("2013-10-27 02:30:00", PARIS) == microseconds(datetime(2013, 10, 27, 0, 30, tzinfo=UTC))
    assert parse_timestamp("2013-03-31 02:30:00", PARIS) == microseconds(datetime(2013, 3, 31, 1, 30, tzinfo=UTC))


def test_years_beyond_pythons_have_dates_and_offsets() -> None:
    assert parse_date("0000-12-31") == parse_date("0001-01-01") - 1
    assert parse_date("-0001-01-01") == parse_date("0000-01-01") - 365
    assert parse_timestamp("12013-07-01", PARIS) == parse_local_timestamp("12013-07-01 02:00:00") - 4 * 3600 * 1_000_000
    assert parse_timestamp("-0044-03-15", PARIS) == parse_local_timestamp("-0044-03-15") - 561_000_000
    assert parse_timestamp("294248", UTC) is None, "beyond 64 bits"
    assert parse_date("5881581") is None, "beyond 32 bits"


@pytest.mark.parametrize(
    "text", ["", "201", "2013-13", "2013-02-29", "2013-01-01x", "20130101x", "x", "2013-1-", "12:00"]
)
def test_what_is_no_date_is_none(text: str) -> None:
    assert parse_date(text) is None
    assert parse_timestamp(text, UTC) is None


@pytest.mark.parametrize(
    "text", ["2013-01-01 24:00:00", "2013-01-01T05:60", "2013-01-01 5:0:61", "2013-01-01 05:00:00 Mars", "2013-01-01T"]
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert parse_timestamp(text, UTC) is None
    assert parse_local_timestamp(text) is None


def test_a_local_timestamp_has_no_zone() -> None:
    assert parse_local_timestamp("2013-01-01T05:00:00Z") is None


@pytest.mark.parametrize(
    ("name", "hours"),
    [("Z", 0), ("UTC", 0), ("+1", 1), ("-01:30", -1.5), ("+0130", 1.5), ("UTC+3", 3), ("GMT-18:00", -18)],
)
def test_zones_have_javas_names(name: str, hours: float) -> None:
    assert find_zone(name) == timezone(timedelta(hours=hours))


@pytest.mark.parametrize("name", ["+19:00", "+01:60", "Mars", "", "../etc/passwd", "PARIS+1"])
def test_no_zone_has_another_name(name: str) -> None:
    assert find_zone(name) is None
    with pytest.raises(SchemaError, match="no time zone"):
        require_zone(name)
