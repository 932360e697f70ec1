import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that every PySpark program uses

from pyspark_jobs import schemas
from pyspark_jobs.flight_delays import delays, to_records, transform
from pyspark_jobs.flights_data import Airline, WeatherHour

pytestmark = pytest.mark.spark

WEATHER = [
    WeatherHour("EWR", datetime(2013, 1, 1, 10, tzinfo=UTC), temp=39.0, wind_speed=12.5, precip=0.0, visib=10.0),
    WeatherHour("EWR", datetime(2013, 1, 1, 11, tzinfo=UTC), temp=None, wind_speed=None, precip=None, visib=None),
]
AIRLINES = [Airline("UA", "United Air Lines Inc.")]


def flight(**changes: object) -> dict[str, object]:
    value: dict[str, object] = {
        "id": 0,
        "event_time": "2013-01-01T10:15:00Z",
        "carrier": "UA",
        "flight": 1545,
        "tailnum": "N14228",
        "origin": "EWR",
        "dest": "IAH",
        "dep_delay": 2,
        "arr_delay": 11,
        "air_time": 227,
        "distance": 1400,
    }
    return value | changes


@pytest.fixture(scope="module")
def weather(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(WEATHER, schemas.WEATHER)


@pytest.fixture(scope="module")
def airlines(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(AIRLINES, schemas.AIRLINE)


@pytest.fixture
def rows_of(spark: SparkSession, weather: DataFrame, airlines: DataFrame):
    """Make the rows of records with these values; a value that is no text becomes JSON."""

    def make(*values: object) -> DataFrame:
        texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
        records = spark.createDataFrame([(text, 0, offset) for offset, text in enumerate(texts)], schemas.KAFKA_RECORD)
        return transform(records.withColumn("value", F.col("value").cast("binary")), weather, airlines)

    return make


def test_a_flight_becomes_a_row_with_airline_and_weather_of_its_hour(rows_of) -> None:
    rows = rows_of(flight())
    assert rows.schema.fieldNames() == schemas.FLIGHT_ROW.fieldNames()
    [row] = rows.withColumn("event_time", F.unix_timestamp("event_time")).collect()
    assert row.asDict() == {
        "partition": 0,
        "offset": 0,
        **flight(event_time=int(datetime(2013, 1, 1, 10, 15, tzinfo=UTC).timestamp())),
        "cancelled": False,
        "airline": "United Air Lines Inc.",
        "temp": 39.0,
        "wind_speed": 12.5,
        "precip": 0.0,
        "visib": 10.0,
    }


def test_a_flight_is_kept_when_its_weather_or_its_carrier_is_not_known(rows_of) -> None:
    rows = rows_of(flight(origin="JFK"), flight(event_time="2013-01-01T12:00:00Z"), flight(carrier="ZZ")).orderBy(
        "offset"
    )
    united = "United Air Lines Inc."
    assert [(row["visib"], row["airline"]) for row in rows.collect()] == [(None, united), (None, united), (10.0, None)]


def test_a_flight_without_departure_is_cancelled(rows_of) -> None:
    rows = rows_of(flight(dep_delay=None, arr_delay=None, air_time=None), flight(id=1, arr_delay=None)).orderBy("id")
    assert [(row["cancelled"], row["arr_delay"]) for row in rows.collect()] == [(True, None), (False, None)]


def test_records_that_are_no_flight_are_left_out(rows_of) -> None:
    rows = rows_of(
        None,
        "",
        "no JSON",
        "{}",
        "[1, 2]",
        flight(id=None),
        flight(event_time=None),
        flight(event_time="yesterday"),
        flight(origin=None),
        flight(carrier=None),
        flight(id=7, gate="a field that nobody knows"),
    )
    assert [row["id"] for row in rows.collect()] == [7]


def test_delays_add_up_per_origin_and_carrier(rows_of) -> None:
    found = delays(
        rows_of(
            flight(dep_delay=20, arr_delay=5),
            flight(dep_delay=15, arr_delay=None),
            flight(dep_delay=-3, arr_delay=-10),
            flight(dep_delay=None, arr_delay=None),
            flight(origin="JFK"),
            flight(carrier="ZZ", dep_delay=None, arr_delay=None),
        )
    )
    assert found.schema.fieldNames() == schemas.DELAYS.fieldNames()
    windows = {(row["origin"], row["carrier"]): row for row in found.collect()}
    assert windows.keys() == {("EWR", "UA"), ("JFK", "UA"), ("EWR", "ZZ")}
    window = windows["EWR", "UA"]
    assert (window["flights"], window["cancelled"], window["delayed"], window["arrived"]) == (4, 1, 2, 2)
    assert (window["dep_delay_sum"], window["dep_delay_max"], window["arr_delay_sum"]) == (32, 20, -5)
    assert window["dep_delay_avg"] == 10.67
    empty = windows["EWR", "ZZ"]
    assert (empty["flights"], empty["cancelled"], empty["dep_delay_sum"], empty["dep_delay_avg"]) == (1, 1, 0, None)


def test_a_window_is_a_day_that_begins_at_five_utc(rows_of) -> None:
    times = ["2013-01-02T04:59:59Z", "2013-01-02T05:00:00Z", "2014-01-01T04:59:00Z"]
    starts = delays(rows_of(*(flight(event_time=time) for time in times))).select(F.col("window_start").cast("string"))
    assert sorted(row[0] for row in starts.collect()) == [
        "2013-01-01 05:00:00",
        "2013-01-02 05:00:00",
        "2013-12-31 05:00:00",
    ]


def test_a_window_becomes_a_record_that_parses_back(rows_of) -> None:
    found = delays(rows_of(flight()))
    [record] = to_records(found).collect()
    assert record["key"] == "2013-01-01T05:00:00Z/EWR/UA"
    parsed = to_records(found).select(F.from_json("value", schemas.DELAYS).alias("w")).select("w.*")
    assert parsed.collect() == found.collect()
    assert json.loads(record["value"])["window_end"] == "2013-01-02T05:00:00.000Z"


def test_a_late_flight_counts_until_the_watermark_has_passed_its_window(
    spark: SparkSession, tmp_path: Path, weather: DataFrame, airlines: DataFrame
) -> None:
    source, sink = tmp_path / "source", tmp_path / "sink"
    source.mkdir()

    def run(*flights: dict[str, object]) -> list[tuple[str, int]]:
        """Stream one more file of flights; the answer is what the windows were updated to."""
        batch = len(list(source.iterdir()))
        lines = [json.dumps({"value": json.dumps(one), "partition": 0, "offset": 0}) for one in flights]
        (source / f"{batch}.json").write_text("\n".join(lines))
        updates: list[tuple[str, int]] = []

        def collect(windows: DataFrame, _batch: int) -> None:
            updates.extend((str(row["s"])[:10], row["flights"]) for row in windows.collect())

        records = spark.readStream.schema(schemas.KAFKA_RECORD).json(str(source))
        windows = delays(transform(records, weather, airlines), watermark="2 days")
        query = (
            windows.withColumn("s", F.col("window_start").cast("string"))
            .writeStream.outputMode("update")
            .option("checkpointLocation", str(sink))
            .trigger(availableNow=True)
            .foreachBatch(collect)
            .start()
        )
        query.awaitTermination()
        return updates

    assert run(flight(event_time="2013-01-10T12:00:00Z")) == [("2013-01-10", 1)]
    late, too_late = flight(event_time="2013-01-09T12:00:00Z"), flight(event_time="2013-01-07T12:00:00Z")
    assert run(late, too_late) == [("2013-01-09", 1)]
    assert run(late) == [("2013-01-09", 2)]
