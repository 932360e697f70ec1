"""A stream by Spark's own Kafka source that goes on until a file appears; its last line is JSON of its batches."""

import argparse
import json
import os
import sys

from pyspark_jobs.session import build_session
from tests.integration.spark.session import QUICK_START

CHANGED = ("was changed", "may have been missed")
"""Words of the source's warnings about offsets that went back, which fail the query as well."""


def main() -> None:
    """Run the query."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "topic", "directory", "until"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    spark = build_session(
        "load_program",
        master="local[2]",
        conf={"spark.sql.streaming.numRecentProgressUpdates": "10000"},
        java_options=[QUICK_START],
    )
    stream = spark.readStream.format("kafka").options(
        **{
            "kafka.bootstrap.servers": given.bootstrap,
            "subscribe": given.topic,
            "startingOffsets": "earliest",
            "kafka.isolation.level": "read_committed",
        }
    )
    rows = stream.load().selectExpr("partition", "offset", "CAST(value AS STRING) AS value")
    sink = rows.writeStream.format("parquet").option("path", os.path.join(given.directory, "rows"))
    query = sink.option("checkpointLocation", os.path.join(given.directory, "checkpoint")).start()
    while not os.path.exists(given.until):
        query.awaitTermination(1)
    query.processAllAvailable()
    query.stop()
    batches = [
        {
            "rows": progress.numInputRows,
            "ms": progress.durationMs.get("triggerExecution", 0),
            "end": json.loads(progress.sources[0].endOffset),
        }
        for progress in query.recentProgress
    ]
    spark.stop()
    sys.stdout.write(f"{json.dumps(batches)}\n")


if __name__ == "__main__":
    main()
