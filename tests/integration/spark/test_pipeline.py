"""The pipeline end to end on one node, with the streaming job killed in the middle and started again."""

from pathlib import Path

import pytest

from esp.testing.node_process import NodeProcess
from pyspark_jobs import feed_flights
from tests.integration.spark.pipeline_run import run_pipeline


@pytest.mark.timeout(600)  # three Spark sessions one after the other
def test_a_pipeline_killed_in_the_middle_loses_and_doubles_no_flight(node: NodeProcess, tmp_path: Path) -> None:
    here = ("--bootstrap-server", node.bootstrap)
    done = run_pipeline(tmp_path, *here, "--kill-streaming", "--max-offsets-per-trigger", "3100")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed the streaming job (SIGKILL)" in done.stdout
    assert "no flight was lost or doubled" in done.stdout
    report = tmp_path / "run/report"
    assert "no flight was lost or doubled" in (report / "index.html").read_text()
    assert len(list(report.glob("*.png"))) == 6

    refused = run_pipeline(tmp_path, *here)  # on the same cluster: the topic is full
    assert refused.returncode == 1
    assert "a second feed would double its flights" in refused.stderr


def test_a_feed_at_a_rate_takes_as_long_as_it_says(node: NodeProcess, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--bootstrap-server", node.bootstrap, "--topic", "slow", "--limit", "300", "--rate", "200"]
    assert feed_flights.main(arguments) == 0
    seconds = float(capsys.readouterr().out.rpartition(" in ")[2].split()[0])
    assert seconds >= 1.4
