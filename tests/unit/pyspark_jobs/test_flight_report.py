import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that every PySpark program uses
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_jobs import schemas
from pyspark_jobs.flight_report import print_checks, transform
from pyspark_jobs.report_checks import Check

RECORD = StructType(
    [StructField("key", StringType()), StructField("value", StringType()), StructField("offset", LongType())]
)


def window(flights: int) -> str:
    return f'{{"window_start": "2013-01-01T05:00:00.000Z", "origin": "EWR", "carrier": "UA", "flights": {flights}}}'


@pytest.mark.spark
def test_the_last_value_of_a_key_is_its_window(spark: SparkSession) -> None:
    records = [("a", window(1), 0), ("b", window(5), 1), ("a", window(3), 7), ("a", window(2), 4)]
    found = transform(spark.createDataFrame(records, RECORD).withColumn("value", F.col("value").cast("binary")))
    assert found.schema == schemas.DELAYS
    assert sorted(row["flights"] for row in found.collect()) == [3, 5]


def test_the_verdict_counts_what_is_off(capsys: pytest.CaptureFixture[str]) -> None:
    print_checks([Check("Rows", 1000, 1000), Check("Windows", 12, 11)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["Rows", "1,000", "1,000", "ok"]
    assert lines[2].split() == ["Windows", "12", "11", "WRONG"]
    assert lines[3] == "1 of 2 counts are off."
