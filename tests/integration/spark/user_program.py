"""A program of a user of ``format("esp")``, for sessions that a test cannot have in its own process: under Spark Connect, or on a cluster.

It reads a topic as a batch and as a stream, copies it to another topic exactly once, and shows its lag. The last line that it prints is
JSON of what it saw. It defines no function that Spark's processes would need.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from esp.spark import drain, exactly_once, progress, watch


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "source", "target", "name", "directory"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--remote", help="the URL of a server of Spark Connect")
    parser.add_argument("--master", help="the URL of a cluster")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args(arguments)
    builder = SparkSession.builder.appName("user_program")
    builder = builder.remote(given.remote) if given.remote else builder.master(given.master)
    for setting in given.conf:
        builder = builder.config(*setting.split("=", 1))
    spark = builder.getOrCreate()
    try:
        sys.stdout.write(f"{json.dumps(_run(spark, given))}\n")
    finally:
        spark.stop()


def _run(spark: SparkSession, given: argparse.Namespace) -> dict[str, Any]:
    cluster = {"kafka.bootstrap.servers": given.bootstrap}
    lag_options = cluster if given.remote else None
    options = {**cluster, "subscribe": given.source}
    rows = spark.read.format("esp").options(**options).load()
    counted = rows.selectExpr("count(*) AS rows", "sum(CAST(CAST(value AS STRING) AS INT)) AS sum").first()

    watcher = watch(spark, lag_options)
    options |= {"startingOffsets": "earliest", "endingOffsets": "latest", "maxOffsetsPerTrigger": "20"}
    stream = spark.readStream.format("esp").options(**options).load()
    files = stream.writeStream.format("parquet").queryName(f"files-{given.name}")
    files = files.option("path", f"{given.directory}/rows").option("checkpointLocation", f"{given.directory}/of-files")
    drain(files)
    copy = exactly_once(stream.select("key", "value"), topic=given.target, sink=given.name)
    copy = copy.queryName(f"copy-{given.name}").option("checkpointLocation", f"{given.directory}/of-copy")
    query = copy.start()
    try:
        query.processAllAvailable()
        behind = progress(query, lag_options)
    finally:
        query.stop()
    watcher.stop()
    return {
        "batch": [counted.rows, counted.sum],
        "stream": spark.read.parquet(f"{given.directory}/rows").count(),
        "behind": [[each.topic, each.partition, each.offset, each.records] for each in behind.partitions],
    }


if __name__ == "__main__":
    main()
