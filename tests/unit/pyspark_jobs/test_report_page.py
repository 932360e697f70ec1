import re
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_jobs import schemas
from pyspark_jobs.flight_delays import delays, transform
from pyspark_jobs.flights_data import read_airlines, read_flights, read_weather
from pyspark_jobs.report_charts import CHARTS, draw_all, draw_lag, smoothed
from pyspark_jobs.report_checks import Check
from pyspark_jobs.report_facts import Facts, Group, gather
from pyspark_jobs.report_page import page

FLIGHTS = 3000


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    records = [(msgspec.json.encode(flight).decode(), 0, flight.id) for flight in read_flights(limit=FLIGHTS)]
    return transform(
        spark.createDataFrame(records, schemas.KAFKA_RECORD),
        spark.createDataFrame(read_weather(), schemas.WEATHER),
        spark.createDataFrame(read_airlines(), schemas.AIRLINE),
    ).cache()


@pytest.fixture(scope="module")
def facts(rows: DataFrame) -> Facts:
    found = gather(rows, delays(rows))
    assert found is not None
    return found


@pytest.mark.spark
def test_every_breakdown_adds_up_to_all_flights(facts: Facts) -> None:
    assert facts.total.flights == FLIGHTS
    assert sum(group.flights for group in facts.by_carrier) == FLIGHTS
    assert sum(group.flights for group in facts.by_origin) == FLIGHTS
    assert sum(flights for _, flights, _, _ in facts.by_day) == FLIGHTS
    assert [group.name for group in facts.by_origin] == ["EWR", "JFK", "LGA"]


@pytest.mark.spark
def test_days_and_hours_are_new_yorks(facts: Facts) -> None:
    assert facts.by_day[0][0] == "2013-01-01"
    assert min(hour for points in facts.by_hour.values() for hour, _ in points) == 5
    assert {weekday for weekday, _, _ in facts.by_weekday_and_hour} >= {1, 2, 3}


@pytest.mark.spark
def test_weather_bins_rise_and_hold_each_flight_with_a_report_once(facts: Facts, rows: DataFrame) -> None:
    assert sum(group.flights for group in facts.by_visibility) == rows.where("visib is not null").count()
    assert sum(group.flights for group in facts.by_wind) == rows.where("wind_speed is not null").count()
    assert facts.by_precipitation[0].name == "none"


@pytest.mark.spark
def test_no_rows_give_no_facts(rows: DataFrame) -> None:
    assert gather(rows.limit(0), delays(rows.limit(0))) is None


@pytest.mark.spark
def test_the_page_holds_every_chart_and_needs_no_other_file(facts: Facts, tmp_path: Path) -> None:
    charts = draw_all(facts, str(tmp_path))
    assert [Path(chart.path).stem for chart in charts] == list(CHARTS)
    assert all(Path(chart.path).read_bytes().startswith(b"\x89PNG") for chart in charts)
    html = page(facts, [Check("Rows", 3000, 3000)], charts)
    assert html.count("data:image/png;base64,") == len(charts)
    assert not re.search(r'(src|href)="(?!data:)', html)
    assert "no flight was lost or doubled" in html


FEW = Facts(Group("all", 1, 2.0, 0.0, 0.0), [], [], {}, [], [], [], [], [])


def test_a_wrong_count_stands_out_on_the_page() -> None:
    html = page(FEW, [Check("Rows <b>", 10, 9), Check("Windows", 1, 1)], [])
    assert 'class="verdict wrong">1 of 2 counts are off.' in html
    assert "Rows &lt;b&gt;" in html


def test_the_page_shows_the_lag_of_each_group_and_the_sink(tmp_path: Path) -> None:
    lag = draw_lag({"spark.rows": [(0.5, 10), (1.0, 0)], "spark.windows": [(0.5, 10)]}, str(tmp_path))
    html = page(FEW, [], [], lag, "TOPIC  BATCH\n<b>")
    assert html.count("data:image/png;base64,") == 1
    assert "<pre>TOPIC  BATCH\n&lt;b&gt;</pre>" in html
    assert "<pre>" not in page(FEW, [], [])


@pytest.mark.parametrize(
    ("values", "means"), [([], []), ([3.0], [3.0]), ([0.0, 3.0, 6.0], [1.5, 3.0, 4.5])], ids=["none", "one", "three"]
)
def test_smoothing_takes_fewer_values_at_both_ends(values: list[float], means: list[float]) -> None:
    assert smoothed(values, days=3) == means
