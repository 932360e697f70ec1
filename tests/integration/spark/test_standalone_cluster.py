"""The streaming job on a real Spark cluster: where users go who outgrow one machine."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from esp.testing.node_process import NodeProcess
from esp.testing.ports import free_port
from pyspark_jobs import feed_flights
from pyspark_jobs.expected import expected_delays, expected_with_weather
from pyspark_jobs.flight_report import read_windows, transform
from pyspark_jobs.flights_data import read_flights, read_weather
from pyspark_jobs.report_checks import Expected, check_rows, check_windows
from tests.integration.spark.session import QUICK_START
from tests.integration.spark.standalone import HOST, StandaloneCluster

FLIGHTS = 5_000


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[StandaloneCluster]:
    """A master and two workers of one core each."""
    cluster = StandaloneCluster(tmp_path, workers=2)
    yield cluster
    cluster.stop()


@pytest.mark.timeout(600)  # six JVMs on a few cores
def test_the_streaming_job_runs_on_a_cluster_of_two_workers(
    standalone: StandaloneCluster, node: NodeProcess, spark: SparkSession, tmp_path: Path
) -> None:
    rows = str(tmp_path / "rows")
    assert feed_flights.main(["--bootstrap-server", node.bootstrap, "--limit", str(FLIGHTS)]) == 0
    settings = {
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.driver.port": str(free_port()),
        "spark.blockManager.port": str(free_port()),
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": f"{QUICK_START} -Djava.io.tmpdir={tmp_path}",
    }
    command = [
        *(sys.executable, "-m", "pyspark_jobs.flight_delays", "--available-now", "--master", standalone.master),
        *("--bootstrap-server", node.bootstrap, "--output", rows, "--checkpoint", str(tmp_path / "checkpoint")),
        *("--max-offsets-per-trigger", "2600", *(f"--conf={key}={value}" for key, value in settings.items())),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=500,
        env={**os.environ, "TMPDIR": str(tmp_path), "JAVA_TOOL_OPTIONS": QUICK_START},
    )
    assert done.returncode == 0, done.stdout + done.stderr

    [application] = standalone.state()["completedapps"]
    assert (application["name"], application["cores"]) == ("flight_delays", 2)
    flights = read_flights(FLIGHTS)
    expected = Expected(FLIGHTS, expected_with_weather(flights, read_weather()), expected_delays(flights))
    windows = transform(read_windows(spark, node.bootstrap, "flight-delays"))
    checks = check_rows(spark.read.parquet(rows), expected) + check_windows(windows, expected)
    assert [check for check in checks if not check.holds] == []
