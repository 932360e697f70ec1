"""The Spark session of the measurements, and the meters around a piece of its work."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from benchmarks.cost import CostMeter, Metered
from benchmarks.results import ESP, Metric
from benchmarks.spark.metrics import Work
from benchmarks.spark.processes import SparkProcesses, find_jvm
from esp.testing.node_process import NodeProcess
from pyspark_jobs.session import KAFKA_CONNECTOR, build_session

MASTER: Final = "local[2]"
DRIVER_MEMORY: Final = "2g"
AVRO_PACKAGE: Final = "org.apache.spark:spark-avro_2.13:4.0.0"
"""Spark's own Avro."""


class Session(NamedTuple):
    """A session, and its processes."""

    spark: SparkSession
    processes: SparkProcesses


@contextmanager
def open_session(packages: Sequence[str] = ()) -> Iterator[Session]:
    """A session with Spark's Kafka source and sink, and with the format ``esp``.

    Args:
        packages: coordinates of more packages.

    Raises:
        SystemExit: the session does not start with these packages.
    """
    packages = (KAFKA_CONNECTOR, *packages)
    conf = {"spark.driver.memory": DRIVER_MEMORY, "spark.jars.packages": ",".join(packages)}
    try:
        spark = build_session("benchmark", master=MASTER, conf=conf)
    except PySparkRuntimeError as error:
        raise SystemExit(
            f"SPARK DOES NOT START with the packages {', '.join(packages)} ({error}): see what it has printed. "
            "If one of them cannot be had, measure the rows that do without it: only the row avro needs spark-avro"
        ) from error
    spark.sparkContext.setLogLevel("OFF")  # its cached producers go on warning about each broker that was stopped
    try:
        yield Session(spark, SparkProcesses(find_jvm()))
    finally:
        spark.stop()


def format_of(product: str) -> str:
    """The data source that is measured on a broker: ours on ESP, Spark's own on Kafka."""
    return "esp" if product == ESP else "kafka"


class Meters:
    """The costs of a piece of work while the ``with`` block of :meth:`running` runs.

    Args:
        client: Spark, or commands.
        node: the broker.
    """

    def __init__(self, client: Metered, node: NodeProcess) -> None:
        self._client = CostMeter(client)
        self._broker = CostMeter(node)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure the block."""
        with self._broker, self._client:
            yield

    def values(self, work: Work, pieces: int = 1, wall_s: float | None = None) -> Mapping[Metric, float]:
        """Return the figures of the work.

        Args:
            work: the work.
            pieces: the costs are given for each of so many pieces of it.
            wall_s: the time of one piece, if that of the block is not it.
        """
        client_s, broker_s = self._client.all_s / pieces, self._broker.all_s / pieces
        return {
            work.wall: self._client.elapsed_s / pieces if wall_s is None else wall_s,
            work.cpu: client_s + broker_s,
            work.client: client_s,
            work.broker: broker_s,
        }
