"""The report job: read the streaming job's two outputs back, check every count against the source, draw the result.

Exit status 1 when a count is off. A window's key may have several values in the topic, because the streaming job upserts, and
repeats a batch after a crash: the last value of a key is the window. With ``--exactly-once`` it repeats nothing, which is checked.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from kafka.errors import KafkaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that every PySpark program uses

from pyspark_jobs import report_charts, report_page, schemas
from pyspark_jobs.expected import expected_delays, expected_with_weather
from pyspark_jobs.flight_delays import ESP, SOURCES
from pyspark_jobs.flights_data import read_flights, read_weather
from pyspark_jobs.lag import load_lag
from pyspark_jobs.report_checks import Check, Expected, check_rows, check_updates, check_windows
from pyspark_jobs.report_facts import gather
from pyspark_jobs.session import add_session_arguments, build_session
from pyspark_jobs.topics import Topics


def transform(records: DataFrame) -> DataFrame:
    """Return the windows (``schemas.DELAYS``) that the records of the topic of windows leave in force.

    A key's records stand in one partition, so the highest offset is the last value.
    """
    last = records.groupBy("key").agg(F.max_by(F.col("value").cast("string"), "offset").alias("value"))
    return last.select(F.from_json("value", schemas.DELAYS).alias("window")).select("window.*")


def read_windows(spark: SparkSession, bootstrap_server: str, topic: str, source: str = "kafka") -> DataFrame:
    """Return all committed records of the topic of windows, as ``source`` gives them."""
    return (
        spark.read.format(source)
        .option("kafka.bootstrap.servers", bootstrap_server)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Check and draw; exit status 1 when a count is off, or the outputs cannot be read."""
    arguments = _parse(argv)
    os.makedirs(arguments.output, exist_ok=True)
    flights = read_flights(arguments.limit)
    expected = Expected(len(flights), expected_with_weather(flights, read_weather()), expected_delays(flights))
    try:
        with Topics(arguments.bootstrap_server) as topics:
            checks = [Check("Records in the topic of flights", len(flights), topics.record_count(arguments.topic))]
    except KafkaError as error:
        print(f"Reading {arguments.topic} at {arguments.bootstrap_server} failed: {error!r}", file=sys.stderr)
        return 1
    spark = build_session(
        "flight_report",
        master=arguments.master,
        conf=dict(arguments.conf),
        has_connector=arguments.source != ESP,
    )
    try:
        rows = spark.read.schema(schemas.FLIGHT_ROW).parquet(arguments.rows).cache()
        records = read_windows(spark, arguments.bootstrap_server, arguments.windows_topic, arguments.source)
        windows = transform(records).cache()
        checks += check_rows(rows, expected) + check_windows(windows, expected)
        if arguments.exactly_once:
            checks += check_updates(records)
        facts = gather(rows, windows)
    except AnalysisException as error:
        print(f"Reading the rows in {arguments.rows} failed: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    finally:
        spark.stop()
    print_checks(checks)
    if facts is None:
        print("There is nothing to draw.", file=sys.stderr)
        return 1
    charts = report_charts.draw_all(facts, arguments.output)
    lag = load_lag(arguments.lag) if arguments.lag else {}
    lag_chart = report_charts.draw_lag(lag, arguments.output) if lag else None
    sink = ""
    if arguments.sink_text:
        with open(arguments.sink_text, encoding="utf-8") as file:
            sink = file.read()
    page_path = os.path.join(arguments.output, "index.html")
    with open(page_path, "w", encoding="utf-8") as file:
        file.write(report_page.page(facts, checks, charts, lag_chart, sink))
    print(f"Report: {page_path}")
    return 0 if all(check.holds for check in checks) else 1


def print_checks(checks: Sequence[Check]) -> None:
    """Print the checks as a table, and the verdict."""
    width = max(len(check.name) for check in checks)
    print(f"{'':{width}}  {'source':>9}  {'pipeline':>9}")
    for check in checks:
        print(f"{check.name:{width}}  {check.expected:9,}  {check.found:9,}  {'ok' if check.holds else 'WRONG'}")
    print(report_page.verdict(checks))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="flight_report", description="Check the streaming job's outputs against the source, and draw them."
    )
    parser.add_argument("--bootstrap-server", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--windows-topic", default="flight-delays")
    parser.add_argument("--rows", required=True, help="directory of the Parquet rows: flight_delays' --output")
    parser.add_argument("--output", required=True, help="directory for charts and page")
    parser.add_argument("--source", choices=SOURCES, default="kafka", help="as for flight_delays (default: kafka)")
    parser.add_argument(
        "--exactly-once", action="store_true", help="check that no record of the topic of windows is there twice"
    )
    parser.add_argument("--lag", metavar="FILE", help="samples of the queries' lag, to be drawn")
    parser.add_argument("--sink-text", metavar="FILE", help="the output of: esp spark sinks show, for the page")
    parser.add_argument("--limit", type=int, help="the --limit of feed_flights, if one was given")
    add_session_arguments(parser)
    arguments = parser.parse_args(argv)
    if arguments.sink_text is not None and not arguments.exactly_once:
        parser.error("--sink-text shows the sink of --exactly-once: give both, or neither")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
