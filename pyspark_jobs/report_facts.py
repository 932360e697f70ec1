"""The numbers that the report draws: small tables, aggregated by Spark from the pipeline's two outputs."""

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name that every PySpark program uses

from pyspark_jobs.flight_delays import DELAYED_MIN

NEW_YORK = "America/New_York"

Bins = Sequence[tuple[str, float]]
"""Label and lowest value of each bin, rising; a bin ends where the next begins."""

VISIBILITY: Bins = [("under 1 mi", 0), ("1 to 3", 1), ("3 to 6", 3), ("6 to 10", 6), ("10 mi", 10)]
PRECIPITATION: Bins = [("none", 0), ("under 0.05 in/h", 0.001), ("0.05 to 0.15", 0.05), ("0.15 and more", 0.15)]
WIND: Bins = [
    ("under 5 mph", 0),
    ("5 to 10", 5),
    ("10 to 15", 10),
    ("15 to 20", 15),
    ("20 to 25", 20),
    ("25 and more", 25),
]


class Group(NamedTuple):
    """Some of the flights. Delay: mean minutes at departure, of those that departed; delayed, cancelled: shares of 1."""

    name: str
    flights: int
    delay: float
    delayed: float
    cancelled: float


class Facts(NamedTuple):
    """All that the charts and the page show."""

    total: Group
    by_carrier: list[Group]
    by_origin: list[Group]
    by_hour: dict[str, list[tuple[int, float]]]  # origin -> (hour in New York, mean delay)
    by_weekday_and_hour: list[tuple[int, int, float]]  # Monday is 0
    by_day: list[tuple[str, int, int, float]]  # date, flights, cancelled, mean delay; from the windows
    by_visibility: list[Group]
    by_precipitation: list[Group]
    by_wind: list[Group]


def gather(rows: DataFrame, windows: DataFrame) -> Facts | None:
    """Aggregate the Parquet rows (``schemas.FLIGHT_ROW``) and the windows (``schemas.DELAYS``); None if there are no rows."""
    total = _groups(rows, F.lit("all flights"))
    if not total:
        return None
    local = rows.withColumn("local", F.from_utc_timestamp("event_time", NEW_YORK)).withColumn("hour", F.hour("local"))
    by_hour: dict[str, list[tuple[int, float]]] = {}
    for row in (
        local.groupBy("origin", "hour")
        .agg(F.avg("dep_delay").alias("delay"))
        .dropna()
        .orderBy("origin", "hour")
        .collect()
    ):
        by_hour.setdefault(row["origin"], []).append((row["hour"], row["delay"]))
    weekday = F.weekday("local").alias("weekday")
    days = (
        windows.groupBy(F.date_format("window_start", "yyyy-MM-dd").alias("day"))
        .agg(
            F.sum("flights").alias("flights"),
            F.sum("cancelled").alias("cancelled"),
            (F.sum("dep_delay_sum") / F.greatest(F.sum(F.col("flights") - F.col("cancelled")), F.lit(1))).alias(
                "delay"
            ),
        )
        .orderBy("day")
    )
    return Facts(
        total=total[0],
        by_carrier=sorted(_groups(rows, F.col("airline")), key=lambda group: group.delay),
        by_origin=_groups(rows, F.col("origin")),
        by_hour=by_hour,
        by_weekday_and_hour=[
            (row["weekday"], row["hour"], row["delay"])
            for row in local.groupBy(weekday, "hour").agg(F.avg("dep_delay").alias("delay")).dropna().collect()
        ],
        by_day=[(row["day"], row["flights"], row["cancelled"], row["delay"]) for row in days.collect()],
        by_visibility=_by_bin(rows, "visib", VISIBILITY),
        by_precipitation=_by_bin(rows, "precip", PRECIPITATION),
        by_wind=_by_bin(rows, "wind_speed", WIND),
    )


def _groups(rows: DataFrame, name: Column) -> list[Group]:
    """Return the groups of ``rows`` that have a ``name``, by name."""
    delay = F.col("dep_delay")
    found = (
        rows.groupBy(name.alias("name"))
        .agg(
            F.count("*").alias("flights"),
            F.coalesce(F.avg(delay), F.lit(0.0)).alias("delay"),
            F.avg((F.coalesce(delay, F.lit(0)) >= DELAYED_MIN).cast("int")).alias("delayed"),
            F.avg(F.col("cancelled").cast("int")).alias("cancelled"),
        )
        .dropna(subset="name")
        .orderBy("name")
    )
    return [Group(*row) for row in found.collect()]


def _by_bin(rows: DataFrame, column: str, bins: Bins) -> list[Group]:
    """Return the groups of ``rows`` by the bin that ``column`` falls into, in the order of ``bins``."""
    number: Column = F.lit(None)
    for position, (_, lowest) in enumerate(bins):
        number = F.when(F.col(column) >= lowest, F.lit(position)).otherwise(number)
    return [group._replace(name=bins[int(group.name)][0]) for group in _groups(rows, number)]
