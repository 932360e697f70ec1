"""The streaming job: flights from a topic, joined with weather and airlines, to Parquet rows and to delays per window.

Two queries read the topic, each with a checkpoint of its own, so that each delivers as strongly as its sink can:

* ``rows`` appends every flight to Parquet, exactly once: the file sink's log names the files of each committed batch, and
  Spark reads the directory through that log;
* ``windows`` upserts the delays per origin, carrier and day into a topic, at least once: a batch that is repeated after a
  crash writes its windows again, and its reader takes the last value of each key. With ``--exactly-once`` nothing is
  written again.

``--source esp`` reads the topic by ``format("esp")``, which needs no jar. Its end is where the topic ends at the start: before
Spark 4.2 the trigger ``availableNow`` reads such a source in one batch, whatever the limit.

The queries run in update mode: append mode would hold each window back until the watermark passes it, and so never write the
last days of a stream that pauses.
"""

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

from kafka.errors import KafkaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that every PySpark program uses
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_jobs import schemas, with_esp
from pyspark_jobs.flights_data import read_airlines, read_weather
from pyspark_jobs.session import add_session_arguments, build_session
from pyspark_jobs.topics import Topics

WINDOW = "1 day"
WINDOW_START = "5 hours"
"""05:00 UTC is midnight in New York, 01:00 in summer; no flight is scheduled between the two, so a window is a local day."""

WATERMARK = "7 days"
"""The event time by which a flight may be read later than others. Spark reads equal shares of the partitions per batch; at the same share,
the four partitions of the year's flights differ by up to 4.7 days of event time when they are replayed at full speed."""

DELAYED_MIN = 15
"""Minutes from which a departure counts as delayed (the definition of the US Department of Transportation)."""

MAX_OFFSETS_PER_TRIGGER = 60_000
POLL_INTERVAL_S = 0.2

ESP = "esp"
SOURCES = ("kafka", ESP)
DEFAULT_SINK = "flight-delays"


def transform(records: DataFrame, weather: DataFrame, airlines: DataFrame) -> DataFrame:
    """Return a row (``schemas.FLIGHT_ROW``) for each record of the topic that holds a flight.

    A record without id, event time, origin or carrier is no flight, and is left out. A flight whose hour or carrier is not
    known to ``weather`` and ``airlines`` (each unique by its key) is kept, with nulls.
    """
    parsed = records.select(
        "partition", "offset", F.from_json(F.col("value").cast("string"), schemas.FLIGHT).alias("f")
    )
    flights = parsed.select("partition", "offset", "f.*").dropna(subset=["id", "event_time", "origin", "carrier"])
    return (
        flights.withColumn("cancelled", F.col("dep_delay").isNull())
        .withColumn("time_hour", F.date_trunc("hour", "event_time"))
        .join(F.broadcast(airlines), "carrier", "left")
        .join(F.broadcast(weather), ["origin", "time_hour"], "left")
        .select(schemas.FLIGHT_ROW.fieldNames())
    )


def delays(rows: DataFrame, watermark: str = WATERMARK) -> DataFrame:
    """Return the delays (``schemas.DELAYS``) of each day, origin and carrier."""
    departure, arrival = F.col("dep_delay"), F.col("arr_delay")
    return (
        rows.withWatermark("event_time", watermark)
        .groupBy(F.window("event_time", WINDOW, startTime=WINDOW_START), "origin", "carrier", "airline")
        .agg(
            F.count("*").alias("flights"),
            F.count_if("cancelled").alias("cancelled"),
            F.count_if(departure >= DELAYED_MIN).alias("delayed"),
            F.coalesce(F.sum(departure), F.lit(0)).alias("dep_delay_sum"),
            F.max(departure).alias("dep_delay_max"),
            F.count(arrival).alias("arrived"),
            F.coalesce(F.sum(arrival), F.lit(0)).alias("arr_delay_sum"),
            F.round(F.avg(departure), 2).alias("dep_delay_avg"),
        )
        .select(F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"), "*")
        .select(schemas.DELAYS.fieldNames())
    )


def to_records(windows: DataFrame) -> DataFrame:
    """Return a record (key, value) for each window: the key is its start, origin and carrier, the value all of it as JSON."""
    start = F.date_format("window_start", "yyyy-MM-dd'T'HH:mm:ss'Z'")
    return windows.select(
        F.concat_ws("/", start, "origin", "carrier").alias("key"),
        F.to_json(F.struct(*schemas.DELAYS.fieldNames())).alias("value"),
    )


def read_source(spark: SparkSession, arguments: argparse.Namespace) -> DataFrame:
    """Return the stream of the topic's records."""
    reader = (
        spark.readStream.format(arguments.source)
        .option("kafka.bootstrap.servers", arguments.bootstrap_server)
        .option("subscribe", arguments.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", arguments.max_offsets_per_trigger)
    )
    if arguments.source == ESP:
        reader = reader.option("columns", ",".join(schemas.KAFKA_RECORD.fieldNames()))
        if arguments.available_now:
            reader = reader.option("endingOffsets", "latest")
    return reader.load()


def start_queries(spark: SparkSession, arguments: argparse.Namespace) -> list[StreamingQuery]:
    """Start both queries; each goes on where its checkpoint ends."""
    source = read_source(spark, arguments)
    weather = spark.createDataFrame(read_weather(), schemas.WEATHER)
    airlines = spark.createDataFrame(read_airlines(), schemas.AIRLINE)
    rows = transform(source, weather, airlines)
    trigger: dict[str, Any] = {"processingTime": arguments.trigger}
    if arguments.available_now:
        trigger = {"processingTime": "0 seconds"} if arguments.source == ESP else {"availableNow": True}
    to_parquet = (
        rows.writeStream.queryName("rows")
        .format("parquet")
        .outputMode("append")
        .option("path", arguments.output)
        .option("checkpointLocation", os.path.join(arguments.checkpoint, "rows"))
        .trigger(**trigger)
    )
    records = to_records(delays(rows, arguments.watermark))
    if arguments.exactly_once:
        to_topic = with_esp.write_exactly_once(records, arguments.windows_topic, arguments.sink or DEFAULT_SINK)
    else:
        to_topic = (
            records.writeStream.format("kafka")
            .option("kafka.bootstrap.servers", arguments.bootstrap_server)
            .option("topic", arguments.windows_topic)
        )
    to_topic = (
        to_topic.queryName("windows")
        .outputMode("update")
        .option("checkpointLocation", os.path.join(arguments.checkpoint, "windows"))
        .trigger(**trigger)
    )
    queries = [to_parquet.start(), to_topic.start()]
    if arguments.available_now and arguments.source == ESP:
        for query in queries:
            threading.Thread(target=_end_when_done, args=(query,), daemon=True).start()
    return queries


def _end_when_done(query: StreamingQuery) -> None:
    """Stop a query when it has read its source up to the end."""
    with suppress(StreamingQueryException):  # the main thread finds it
        query.processAllAvailable()
    query.stop()


def raise_failure(queries: Sequence[StreamingQuery]) -> None:
    """Raise the exception that ended one of ``queries``, if one failed."""
    for query in queries:
        if (error := query.exception()) is not None:
            raise error


class ProgressLines:
    """Prints a line for each batch that a query completed.

    Args:
        query: the query to follow.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._last_batch = -1

    def print_new(self) -> None:
        """Print what completed since the last call."""
        for progress in self._query.recentProgress:
            if progress.batchId <= self._last_batch:
                continue
            self._last_batch = progress.batchId
            dropped = sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)
            event_time = progress.eventTime.get("max", "")
            print(
                f"{progress.name}: batch {progress.batchId}, {progress.numInputRows:,} flights"
                + (f" up to {event_time[:10]}" if event_time else "")
                + f" in {progress.batchDuration / 1000:.1f} s"
                + (f", {dropped:,} rows dropped: later than the watermark" if dropped else ""),
                flush=True,
            )


def main(argv: Sequence[str] | None = None) -> int:
    """Run both queries until they end; exit status 1 when one of them failed. SIGTERM and SIGINT stop them in order."""
    arguments = _parse(argv)
    try:
        with Topics(arguments.bootstrap_server) as topics:
            topics.ensure(arguments.windows_topic, arguments.partitions)
    except KafkaError as error:
        print(f"Preparing {arguments.windows_topic} at {arguments.bootstrap_server} failed: {error!r}", file=sys.stderr)
        return 1
    spark = build_session(
        "flight_delays",
        master=arguments.master,
        conf=dict(arguments.conf),
        has_connector=arguments.source != ESP or not arguments.exactly_once,
    )
    watch = with_esp.watch_lag(spark) if arguments.watch else None
    stopped: list[int] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        stopped.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    try:
        queries = start_queries(spark, arguments)
        lines = [ProgressLines(query) for query in queries]
        while any(query.isActive for query in queries) and not stopped:
            time.sleep(POLL_INTERVAL_S)
            for line in lines:
                line.print_new()
            raise_failure(queries)
        for query, line in zip(queries, lines, strict=True):
            query.stop()
            line.print_new()
        raise_failure(queries)
    except StreamingQueryException as error:
        print(f"The streaming job failed: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    finally:
        if watch is not None:
            watch.stop()
        spark.stop()
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="flight_delays",
        description="Stream flights from a topic to Parquet and, as delays per window, to a topic.",
    )
    parser.add_argument("--bootstrap-server", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--windows-topic", default="flight-delays")
    parser.add_argument("--partitions", type=int, default=4, help="of the topic of windows, if it is to be created")
    parser.add_argument(
        "--source",
        choices=SOURCES,
        default="kafka",
        help="read the topic by Spark's Kafka source, or by the one of the package esp (default: kafka)",
    )
    parser.add_argument(
        "--exactly-once",
        action="store_true",
        help="write the windows by esp.spark.exactly_once, not by Spark's sink, which writes at least once",
    )
    parser.add_argument(
        "--sink",
        metavar="NAME",
        help=f"of --exactly-once: its name, which belongs to this checkpoint (default: {DEFAULT_SINK})",
    )
    parser.add_argument(
        "--watch", action="store_true", help="commit the queries' positions to the groups spark.rows and spark.windows"
    )
    parser.add_argument("--output", required=True, help="directory of the Parquet rows")
    parser.add_argument(
        "--checkpoint", required=True, help="directory of the checkpoints; a restart goes on from there"
    )
    parser.add_argument("--watermark", default=WATERMARK, help=f"how late a flight may come (default: {WATERMARK})")
    parser.add_argument("--max-offsets-per-trigger", type=int, default=MAX_OFFSETS_PER_TRIGGER)
    parser.add_argument("--available-now", action="store_true", help="end when all that is there now is read")
    parser.add_argument("--trigger", default="2 seconds", help="interval of the batches (default: 2 seconds)")
    add_session_arguments(parser)
    arguments = parser.parse_args(argv)
    if arguments.sink is not None and not arguments.exactly_once:
        parser.error("--sink names the sink of --exactly-once: give both, or neither")
    for option, is_given in (
        ("--source esp", arguments.source == ESP),
        ("--exactly-once", arguments.exactly_once),
        ("--watch", arguments.watch),
    ):
        if is_given:
            with_esp.require_esp(option)
    return arguments


if __name__ == "__main__":
    sys.exit(main())
