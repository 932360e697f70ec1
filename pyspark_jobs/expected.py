"""The expected output of the pipeline, computed from the source in plain Python: the other side of every check."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from pyspark_jobs.flight_delays import DELAYED_MIN
from pyspark_jobs.flights_data import Flight, WeatherHour

DAY = timedelta(days=1)
MIDNIGHT = timedelta(hours=5)
"""Midnight of New York in UTC; see ``flight_delays.WINDOW_START``."""


class WindowKey(NamedTuple):
    """A day (its first instant, UTC), an airport and a carrier."""

    window_start: datetime
    origin: str
    carrier: str


class Delays(NamedTuple):
    """The delays of the flights of one window; meanings and units as in ``schemas.DELAYS``."""

    flights: int = 0
    cancelled: int = 0
    delayed: int = 0
    dep_delay_sum: int = 0
    arrived: int = 0
    arr_delay_sum: int = 0


def expected_delays(flights: Iterable[Flight]) -> dict[WindowKey, Delays]:
    """Return the delays of every window that has a flight."""
    found: dict[WindowKey, Delays] = {}
    for flight in flights:
        key = WindowKey(window_start(flight.event_time), flight.origin, flight.carrier)
        old = found.get(key, Delays())
        departure, arrival = flight.dep_delay, flight.arr_delay
        found[key] = Delays(
            flights=old.flights + 1,
            cancelled=old.cancelled + (departure is None),
            delayed=old.delayed + (departure is not None and departure >= DELAYED_MIN),
            dep_delay_sum=old.dep_delay_sum + (departure or 0),
            arrived=old.arrived + (arrival is not None),
            arr_delay_sum=old.arr_delay_sum + (arrival or 0),
        )
    return found


def expected_with_weather(flights: Iterable[Flight], weather: Iterable[WeatherHour]) -> int:
    """Return how many flights have a weather report of their hour and airport."""
    known = {(hour.origin, hour.time_hour) for hour in weather}
    return sum((flight.origin, flight.event_time.replace(minute=0)) in known for flight in flights)


def window_start(event_time: datetime) -> datetime:
    """Return the start of the day in New York that ``event_time`` falls into."""
    return (event_time - MIDNIGHT).replace(hour=0, minute=0, second=0, microsecond=0) + MIDNIGHT
