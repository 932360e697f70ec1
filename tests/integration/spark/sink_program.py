"""The driver of a query that copies a topic to another one, exactly once or by Spark's own sink, and dies if it is ordered to; it runs
until all is copied."""

import argparse
import os
import signal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from esp.spark import drain, exactly_once
from tests.integration.spark.sink_deaths import AFTER_SINK, DyingRows, Orders, arm

SINK = "copy"
ESP = "esp"
KAFKA = "kafka"
"""Spark's own sink."""


def main() -> None:
    """Run the query."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "source", "target", "checkpoint", "orders", "rows-of-a-batch", "master"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--sink", choices=(ESP, KAFKA), required=True)
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    builder = SparkSession.builder.appName("sink_program").master(given.master)
    for setting in given.conf:
        builder = builder.config(*setting.split("=", 1))
    spark = builder.getOrCreate()
    orders = Orders(given.orders)
    options = {
        "kafka.bootstrap.servers": given.bootstrap,
        "subscribe": given.source,
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
        "maxOffsetsPerTrigger": given.rows_of_a_batch,
    }
    stream = spark.readStream.format("esp").options(**options).load()
    rows = stream.select("key", "value")
    if given.sink == ESP:
        arm(orders)
        writer = exactly_once(rows, topic=given.target, sink=SINK)
    else:
        writer = _by_spark(rows, given.bootstrap, given.target, orders)
    drain(writer.option("checkpointLocation", given.checkpoint))
    spark.stop()


def _by_spark(rows: DataFrame, bootstrap: str, target: str, orders: Orders) -> DataStreamWriter:
    """A writer by Spark's own sink that obeys the same orders."""

    def write(frame: DataFrame, batch: int) -> None:
        orders.begin_when_allowed(batch)
        dying = frame.mapInArrow(DyingRows(orders), "key binary, value binary")
        dying.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", target).save()
        if orders.take(AFTER_SINK):
            os.killpg(0, signal.SIGKILL)

    return rows.writeStream.foreachBatch(write)


if __name__ == "__main__":
    main()
