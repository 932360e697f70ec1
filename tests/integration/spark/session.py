"""The one Spark session of a test process, for the jobs' unit tests and the tests against a running node alike."""

import os
import sys
from collections.abc import Iterator
from typing import Final

import pyspark
import pytest
from pyspark.sql import SparkSession

from pyspark_jobs.session import KAFKA_CONNECTOR, build_session

AVRO_MODULE = "org.apache.spark:spark-avro_2.13:4.0.0"
"""Spark's own Avro, which ours is held against."""

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""No optimising compiler, and one thread that collects, for JVMs that live for a minute: both take more from two cores than they give
back (a short streaming job: 29 to 35 s without that compiler, 44 to 74 s with it; the JVMs of a run of the pipeline: 86 s of processor
time with that collector, 94 s with the usual one)."""

HAS_CONNECTOR: Final = pyspark.__version__.startswith("4.0.")
"""True if this PySpark's Kafka connector can be had. With another one the tests that read by ``kafka`` are skipped."""

HAS_CONNECT: Final = HAS_CONNECTOR
"""True if the packages that the extra ``dev`` brings are those of this PySpark's Connect, which refuses other versions of protobuf."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session; every directory that imports this fixture gets the same one."""
    os.environ.setdefault(
        "PYSPARK_PYTHON", sys.executable
    )  # otherwise Spark's Python processes are of the first python3 in PATH
    session = build_session(
        "tests",
        master="local[2]",
        conf={"spark.jars.packages": f"{KAFKA_CONNECTOR},{AVRO_MODULE}" if HAS_CONNECTOR else ""},
        java_options=[QUICK_START],
    )
    session.sparkContext.setLogLevel(
        "ERROR"
    )  # its cached producers go on warning about each node that a test has stopped
    yield session
    session.stop()


def mark_spark(items: list[pytest.Item]) -> None:
    """Mark tests that use Spark, and let PySpark leave it to reference counting to close the sockets it collects through."""
    for item in items:
        item.add_marker(pytest.mark.spark)
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
