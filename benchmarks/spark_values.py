"""Spark's own ``from_json`` and ``from_avro`` beside the decoders of this package. ``python -m benchmarks.spark_values``.

Spark decodes the values of ``benchmarks.values`` from a Parquet file, in one thread. Its processor time is that of the JVM beyond a query
that only reads the file, in the best round of each.
"""

import argparse
import os
import tempfile
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812  the name that every PySpark program uses
from pyspark.sql.avro.functions import from_avro

from benchmarks.spark.session import AVRO_PACKAGE
from benchmarks.values import AVRO, DDL, RECORDS, as_avro, as_json, make_flights, measure_decoders
from pyspark_jobs.session import KAFKA_CONNECTOR, build_session

PACKAGES: Final = f"{KAFKA_CONNECTOR},{AVRO_PACKAGE}"
BLOCKS: Final = 10


def measure_spark(json_values: pa.Array, avro_values: pa.Array, rounds: int) -> dict[str, float]:
    """Millions of records per second of processor time of the JVM, by what was decoded."""
    spark = build_session("values", master="local[1]", conf={"spark.jars.packages": PACKAGES})
    pid = _find_jvm()
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "values.parquet")
        table = pa.table({"json": json_values, "avro": avro_values})
        pq.write_table(pa.concat_tables([table] * BLOCKS), path)
        frame = spark.read.parquet(path)
        queries = {
            "JSON, read only": frame.select("json"),
            "JSON": frame.select(F.from_json(F.col("json").cast("string"), DDL)),
            "Avro, read only": frame.select("avro"),
            "Avro": frame.select(from_avro("avro", AVRO)),
        }
        best = dict.fromkeys(queries, float("inf"))
        for _ in range(rounds):
            for name, query in queries.items():
                begun = _cpu_seconds(pid)
                query.write.format("noop").mode("overwrite").save()
                best[name] = min(best[name], _cpu_seconds(pid) - begun)
    spark.stop()
    count = len(json_values) * BLOCKS
    return {name: 1e-6 * count / (best[name] - best[f"{name}, read only"]) for name in ("JSON", "Avro")}


def _cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _find_jvm() -> int:
    """The process that PySpark started."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        children = file.read().split()
    for pid in children:
        with open(f"/proc/{pid}/comm", encoding="ascii") as file:
            if file.read().strip() == "java":
                return int(pid)
    raise SystemExit("PySpark started no JVM of its own")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    flights = make_flights(RECORDS)
    json_values, avro_values = as_json(flights), as_avro(flights)
    ours = measure_decoders(json_values, avro_values, options.rounds)
    print("| values | million records per CPU second, esp | Spark | CPU, Spark is 1.00 |")
    print("| --- | ---: | ---: | ---: |")
    for name, rate in measure_spark(json_values, avro_values, options.rounds).items():
        print(f"| {name} | {ours[name]:.2f} | {rate:.2f} | {rate / ours[name]:.2f} |")


if __name__ == "__main__":
    main()
