"""The figures of Spark's work, with their aims, in the order of the report."""

from typing import Final, NamedTuple

from benchmarks.results import Metric


class Work(NamedTuple):
    """The figures of one piece of work.

    Attributes:
        wall: its time by the clock.
        cpu: the CPU time of the client and of the broker together.
        client: that of the client alone: Spark's driver, its JVM and its Python processes; or a command.
        broker: that of the broker alone.
    """

    wall: Metric
    cpu: Metric
    client: Metric
    broker: Metric


def _work(key: str, title: str, digits: int, wall: float, cpu: float, broker: float | None = None) -> Work:
    return Work(
        Metric(f"spark_{key}_wall_s", f"{title}: wall time", "s", digits, ratio_aim=wall),
        Metric(f"spark_{key}_cpu_s", f"{title}: CPU of client and broker", "s", digits, ratio_aim=cpu),
        Metric(f"spark_{key}_client_s", f"{title}: CPU of the client alone", "s", digits),
        Metric(f"spark_{key}_broker_s", f"{title}: CPU of the broker alone", "s", digits, ratio_aim=broker),
    )


READ_ALL: Final = _work("read_all", "Batch read, all columns", 2, wall=1.0, cpu=0.8, broker=0.2)
READ_TWO: Final = _work("read_two", "Batch read, value and offset", 2, wall=0.7, cpu=0.6)
MICRO_BATCH: Final = _work("micro_batch", "Micro-batch of 1,000 records", 3, wall=1.5, cpu=1.5)
JSON: Final = _work("json", "JSON flights to columns, beside from_json", 2, wall=0.55, cpu=0.6)
AVRO: Final = _work("avro", "Avro of a registry to columns, beside from_avro", 2, wall=1.0, cpu=1.0)
WRITE: Final = _work("write", "Write, exactly once beside at least once", 2, wall=2.0, cpu=2.0)
CAPTURE: Final = _work("capture", "Capture to Parquet", 2, wall=0.6, cpu=0.6)
SQL: Final = _work("sql", "Count and sum, esp sql beside a batch in a warm session", 2, wall=0.5, cpu=0.5)

DECODE: Final = Metric("arrow_decode_s", "Decoding of record batches, CPU per million records", "s", 3, value_aim=0.333)
ENCODE: Final = Metric("arrow_encode_s", "Encoding of record batches, CPU per million records", "s", 3, value_aim=0.4)

_WORKS: Final = (READ_ALL, READ_TWO, JSON, AVRO, MICRO_BATCH, WRITE, CAPTURE, SQL)
SPARK_METRICS: Final = (*(metric for work in _WORKS for metric in work), DECODE, ENCODE)
"""All of them, in the order of the report."""
