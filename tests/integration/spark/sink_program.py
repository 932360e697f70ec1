"""The driver of a query that copies a topic to another one exactly once, and dies if it is ordered to; it runs until all is copied."""

import argparse

from pyspark.sql import SparkSession

from esp.spark import drain, exactly_once
from tests.integration.spark.sink_deaths import Orders, arm

SINK = "copy"


def main() -> None:
    """Run the query."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "source", "target", "checkpoint", "orders", "rows-of-a-batch", "master"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    builder = SparkSession.builder.appName("sink_program").master(given.master)
    for setting in given.conf:
        builder = builder.config(*setting.split("=", 1))
    spark = builder.getOrCreate()
    arm(Orders(given.orders))
    options = {
        "kafka.bootstrap.servers": given.bootstrap,
        "subscribe": given.source,
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
        "maxOffsetsPerTrigger": given.rows_of_a_batch,
    }
    stream = spark.readStream.format("esp").options(**options).load()
    writer = exactly_once(stream.select("key", "value"), topic=given.target, sink=SINK)
    drain(writer.option("checkpointLocation", given.checkpoint))
    spark.stop()


if __name__ == "__main__":
    main()
