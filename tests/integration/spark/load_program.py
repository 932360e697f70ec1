"""Streams that go on until a file appears, one by each data source that is named; the last line is JSON of their batches."""

import argparse
import json
import os
import sys

from pyspark.sql.streaming import StreamingQuery

from pyspark_jobs.session import build_session
from tests.integration.spark.session import QUICK_START

CHANGED = ("was changed", "may have been missed")
"""Words of the Kafka source's warnings about offsets that went back, which fail the query as well."""


def main() -> None:
    """Run the queries."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "topic", "directory", "until", "sources"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    sources = given.sources.split(",")
    spark = build_session(
        "load_program",
        master="local[2]",
        conf={
            "spark.sql.streaming.numRecentProgressUpdates": "10000",
            **({} if "kafka" in sources else {"spark.jars.packages": ""}),
        },
        java_options=[QUICK_START],
    )
    queries: dict[str, StreamingQuery] = {}
    for source in sources:
        stream = spark.readStream.format(source).options(
            **{
                "kafka.bootstrap.servers": given.bootstrap,
                "subscribe": given.topic,
                "startingOffsets": "earliest",
                "kafka.isolation.level": "read_committed",
            }
        )
        rows = stream.load().selectExpr("partition", "offset", "CAST(value AS STRING) AS value")
        directory = os.path.join(given.directory, source)
        sink = rows.writeStream.format("parquet").option("path", os.path.join(directory, "rows"))
        queries[source] = sink.option("checkpointLocation", os.path.join(directory, "checkpoint")).start()
    while not os.path.exists(given.until):
        for query in queries.values():
            query.awaitTermination(1)
    batches = {}
    for source, query in queries.items():
        query.processAllAvailable()
        query.stop()
        batches[source] = [
            {
                "rows": progress.numInputRows,
                "ms": progress.durationMs,
                "end": json.loads(progress.sources[0].endOffset),
            }
            for progress in query.recentProgress
            if progress.sources[0].endOffset
        ]
    spark.stop()
    sys.stdout.write(f"{json.dumps(batches)}\n")


if __name__ == "__main__":
    main()
