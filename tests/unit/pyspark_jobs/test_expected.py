from datetime import UTC, datetime

from pyspark_jobs.expected import Delays, WindowKey, expected_delays, expected_with_weather, window_start
from pyspark_jobs.flights_data import Flight, WeatherHour


def make_flight(id: int, event_time: str, dep_delay: int | None, arr_delay: int | None, origin: str = "EWR") -> Flight:  # noqa: A002
    return Flight(
        id,
        datetime.fromisoformat(event_time),
        "UA",
        1,
        "N1",
        origin,
        "ORD",
        dep_delay,
        arr_delay,
        air_time=60,
        distance=700,
    )


def test_a_day_begins_at_five_utc() -> None:
    assert window_start(datetime(2013, 1, 2, 5, 0, tzinfo=UTC)) == datetime(2013, 1, 2, 5, tzinfo=UTC)
    assert window_start(datetime(2013, 1, 2, 4, 59, tzinfo=UTC)) == datetime(2013, 1, 1, 5, tzinfo=UTC)


def test_cancelled_and_diverted_flights_count_but_add_no_delay() -> None:
    flights = [
        make_flight(0, "2013-01-01T10:00Z", 20, 10),
        make_flight(1, "2013-01-01T11:00Z", -5, None),
        make_flight(2, "2013-01-01T12:00Z", None, None),
    ]
    key = WindowKey(datetime(2013, 1, 1, 5, tzinfo=UTC), "EWR", "UA")
    assert expected_delays(flights) == {
        key: Delays(flights=3, cancelled=1, delayed=1, dep_delay_sum=15, arrived=1, arr_delay_sum=10)
    }


def test_weather_counts_by_airport_and_hour() -> None:
    weather = [WeatherHour("EWR", datetime(2013, 1, 1, 10, tzinfo=UTC), 39.0, 10.0, 0.0, 10.0)]
    flights = [make_flight(0, "2013-01-01T10:59Z", 0, 0), make_flight(1, "2013-01-01T10:59Z", 0, 0, origin="JFK")]
    assert expected_with_weather(flights, weather) == 1
