"""The pipeline end to end on the first days of the flights, with the streaming job killed in the middle and started again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from esp.testing.node_process import NodeProcess
from esp.testing.ports import free_port
from esp.testing.pytest_plugin import AGAINST_KAFKA
from pyspark_jobs import feed_flights
from tests.integration.spark.session import QUICK_START

FLIGHTS = 9_000
TIMEOUT_S = 500


@pytest.fixture
def pipeline(node: NodeProcess, tmp_path: Path):
    """Run the whole pipeline as a user does, against the node under test."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pyspark_jobs.run", "--dir", str(tmp_path / "run"), *arguments]
        return subprocess.run(
            [*command, "--bootstrap-server", node.bootstrap, "--limit", str(FLIGHTS), "--master", "local[2]"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env={**os.environ, "TMPDIR": str(tmp_path), "JAVA_TOOL_OPTIONS": QUICK_START},
        )

    return run


@pytest.mark.timeout(600)  # three Spark sessions one after the other
def test_a_pipeline_killed_in_the_middle_loses_and_doubles_no_flight(
    pipeline, node: NodeProcess, tmp_path: Path
) -> None:
    done = pipeline("--kill-streaming", "--max-offsets-per-trigger", "3100")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed the streaming job (SIGKILL)" in done.stdout
    assert "no flight was lost or doubled" in done.stdout
    report = tmp_path / "run/report"
    assert "no flight was lost or doubled" in (report / "index.html").read_text()
    assert len(list(report.glob("*.png"))) == 5

    refused = pipeline()  # on the same cluster: the topic is full
    assert refused.returncode == 1
    assert "a second feed would double its flights" in refused.stderr


def test_a_feed_at_a_rate_takes_as_long_as_it_says(node: NodeProcess, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--bootstrap-server", node.bootstrap, "--topic", "slow", "--limit", "300", "--rate", "200"]
    assert feed_flights.main(arguments) == 0
    seconds = float(capsys.readouterr().out.rpartition(" in ")[2].split()[0])
    assert seconds >= 1.4


@pytest.mark.skipif(AGAINST_KAFKA, reason="our own cluster command")
@pytest.mark.timeout(600)
def test_a_pipeline_on_three_nodes_whose_leaders_are_killed_loses_and_doubles_no_flight(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pyspark_jobs.run", "--dir", str(tmp_path / "run"), "--port", str(free_port())]
    done = subprocess.run(
        [*command, "--nodes", "3", "--kill-leaders", "3", "--limit", str(FLIGHTS), "--master", "local[2]"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "TMPDIR": str(tmp_path), "JAVA_TOOL_OPTIONS": QUICK_START},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("(SIGKILL)") >= 3
    assert "did not come back" not in done.stdout
    assert "no flight was lost or doubled" in done.stdout
