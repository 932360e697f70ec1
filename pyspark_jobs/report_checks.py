"""The report's checks: every count of the pipeline's two outputs against the source."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812  the name that every PySpark program uses

from pyspark_jobs import schemas
from pyspark_jobs.expected import Delays, WindowKey
from pyspark_jobs.flight_delays import delays


class Check(NamedTuple):
    """A count, and its expected value."""

    name: str
    expected: int
    found: int

    @property
    def holds(self) -> bool:
        """True if the count is right."""
        return self.found == self.expected


class Expected(NamedTuple):
    """The counts that follow from the source."""

    flights: int
    with_weather: int
    delays: Mapping[WindowKey, Delays]


def check_rows(rows: DataFrame, expected: Expected) -> list[Check]:
    """Check the Parquet rows (``schemas.FLIGHT_ROW``): each flight is there once, and says what the source says."""
    known = F.col("id").between(0, expected.flights - 1)
    totals = rows.agg(
        F.count("*").alias("rows"),
        F.count_distinct(F.when(known, F.col("id"))).alias("flights"),
        F.count_distinct("partition", "offset").alias("records"),
        F.count("visib").alias("with_weather"),
        F.count("airline").alias("with_airline"),
    ).collect()[0]
    return [
        Check("Rows in Parquet", expected.flights, totals["rows"]),
        Check("Flights missing from Parquet", 0, expected.flights - totals["flights"]),
        Check("Flights doubled in Parquet", 0, totals["rows"] - totals["flights"]),
        Check("Records of the topic that the rows came from", expected.flights, totals["records"]),
        Check("Rows joined with weather", expected.with_weather, totals["with_weather"]),
        Check("Rows joined with an airline", expected.flights, totals["with_airline"]),
        Check(
            "Days of a carrier at an airport whose rows differ from the source", 0, _differing(delays(rows), expected)
        ),
    ]


def check_windows(windows: DataFrame, expected: Expected) -> list[Check]:
    """Check the last value of each window (``schemas.DELAYS``)."""
    totals = windows.agg(F.count("*").alias("windows"), F.sum("flights").alias("flights")).collect()[0]
    return [
        Check("Windows in the topic", len(expected.delays), totals["windows"]),
        Check("Flights in all windows", expected.flights, totals["flights"] or 0),
        Check("Windows whose numbers differ from the source", 0, _differing(windows, expected)),
    ]


def check_updates(records: DataFrame) -> list[Check]:
    """Check that no update of a window is in the topic twice, which is so when its records are written exactly once.

    A batch writes the windows whose number of flights it has raised: two records of a window with one number are one update.
    """
    parsed = records.select("key", F.from_json(F.col("value").cast("string"), schemas.DELAYS).alias("window"))
    totals = parsed.agg(
        F.count("*").alias("records"), F.count_distinct("key", "window.flights").alias("updates")
    ).collect()[0]
    return [Check("Updates of windows that are in the topic twice", 0, totals["records"] - totals["updates"])]


def _differing(windows: DataFrame, expected: Expected) -> int:
    """Return how many windows are on one side only, or differ in a number."""
    found = {
        _key(row): Delays(*(row[name] for name in Delays._fields))
        for row in windows.withColumn("window_start", F.unix_timestamp("window_start")).toLocalIterator()
    }
    return sum(found.get(key) != expected.delays.get(key) for key in found.keys() | expected.delays.keys())


def _key(row: Row) -> WindowKey:
    return WindowKey(datetime.fromtimestamp(row["window_start"], UTC), row["origin"], row["carrier"])
