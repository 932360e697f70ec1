import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that every PySpark program uses

from pyspark_jobs import schemas
from pyspark_jobs.expected import expected_delays, expected_with_weather
from pyspark_jobs.flight_delays import delays, transform
from pyspark_jobs.flights_data import Flight, read_airlines, read_flights, read_weather
from pyspark_jobs.report_checks import Check, Expected, check_rows, check_updates, check_windows

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def flights() -> list[Flight]:
    return read_flights(limit=1000)


@pytest.fixture(scope="module")
def expected(flights: list[Flight]) -> Expected:
    return Expected(len(flights), expected_with_weather(flights, read_weather()), expected_delays(flights))


@pytest.fixture(scope="module")
def rows(spark: SparkSession, flights: list[Flight]) -> DataFrame:
    records = [(msgspec.json.encode(flight).decode(), flight.id % 4, flight.id // 4) for flight in flights]
    return transform(
        spark.createDataFrame(records, schemas.KAFKA_RECORD),
        spark.createDataFrame(read_weather(), schemas.WEATHER),
        spark.createDataFrame(read_airlines(), schemas.AIRLINE),
    ).cache()


def off(checks: list[Check]) -> dict[str, int]:
    """The checks that do not hold, and what each found."""
    return {check.name: check.found for check in checks if not check.holds}


DIFFERS = "Days of a carrier at an airport whose rows differ from the source"


def test_a_pipeline_that_lost_and_doubled_nothing_passes(rows: DataFrame, expected: Expected) -> None:
    assert off(check_rows(rows, expected)) == {}
    assert off(check_windows(delays(rows), expected)) == {}


def test_a_lost_row_is_found(rows: DataFrame, expected: Expected) -> None:
    found = off(check_rows(rows.where("id != 500"), expected))
    assert found["Rows in Parquet"] == 999
    assert found["Flights missing from Parquet"] == 1
    assert found[DIFFERS] == 1
    assert "Flights doubled in Parquet" not in found


def test_a_doubled_row_is_found(rows: DataFrame, expected: Expected) -> None:
    found = off(check_rows(rows.union(rows.where("id = 500")), expected))
    assert found["Rows in Parquet"] == 1001
    assert found["Flights doubled in Parquet"] == 1
    assert found[DIFFERS] == 1
    assert "Flights missing from Parquet" not in found


def test_a_row_lost_and_another_doubled_do_not_cancel_out(rows: DataFrame, expected: Expected) -> None:
    found = off(check_rows(rows.where("id != 500").union(rows.where("id = 501")), expected))
    assert (found["Flights missing from Parquet"], found["Flights doubled in Parquet"]) == (1, 1)
    assert "Rows in Parquet" not in found


def test_a_changed_delay_is_found(rows: DataFrame, expected: Expected) -> None:
    changed = rows.withColumn("dep_delay", F.when(F.col("id") == 500, 9999).otherwise(F.col("dep_delay")))
    assert off(check_rows(changed, expected)) == {DIFFERS: 1}


def test_a_missing_join_is_found(rows: DataFrame, expected: Expected) -> None:
    found = off(check_rows(rows.withColumn("visib", F.lit(None).cast("double")), expected))
    assert found == {"Rows joined with weather": 0}


def test_a_lost_window_is_found(rows: DataFrame, expected: Expected) -> None:
    windows = delays(rows)
    lost = windows.orderBy("window_start", "origin", "carrier").offset(1)
    found = off(check_windows(lost, expected))
    assert found["Windows in the topic"] == len(expected.delays) - 1
    assert found["Windows whose numbers differ from the source"] == 1


def test_a_window_with_an_early_value_is_found(rows: DataFrame, expected: Expected) -> None:
    windows = delays(rows)
    stale = windows.withColumn("arr_delay_sum", F.col("arr_delay_sum") + (F.col("carrier") == "HA").cast("long"))
    days = windows.where("carrier = 'HA'").count()
    assert days > 0
    assert off(check_windows(stale, expected)) == {"Windows whose numbers differ from the source": days}


def test_empty_outputs_are_off_and_raise_nothing(rows: DataFrame, expected: Expected) -> None:
    assert off(check_rows(rows.limit(0), expected))["Flights missing from Parquet"] == 1000
    assert off(check_windows(delays(rows.limit(0)), expected))["Flights in all windows"] == 0


def test_an_update_that_is_there_twice_is_found(spark: SparkSession) -> None:
    def record(key: str, flights: int) -> tuple[str, bytes]:
        return key, msgspec.json.encode({"flights": flights})

    once = [record("a", 1), record("a", 3), record("b", 1)]
    schema = "key string, value binary"
    assert off(check_updates(spark.createDataFrame(once, schema))) == {}
    twice = spark.createDataFrame([*once, record("a", 3)], schema)
    assert off(check_updates(twice)) == {"Updates of windows that are in the topic twice": 1}
