"""The pipeline end to end by this package's own source and sink, without a jar, with the streaming job killed in the middle."""

from pathlib import Path

import pytest

from esp.testing.node_process import NodeProcess
from pyspark_jobs.lag import load_lag
from tests.integration.spark.pipeline_run import FLIGHTS, run_pipeline


@pytest.mark.timeout(600)  # three Spark sessions one after the other
def test_a_pipeline_of_esps_own_source_and_sink_writes_each_update_once(node: NodeProcess, tmp_path: Path) -> None:
    here = ("--bootstrap-server", node.bootstrap, "--source", "esp", "--exactly-once")
    done = run_pipeline(
        tmp_path, *here, "--kill-streaming", "--max-offsets-per-trigger", "3100", "--conf", "spark.jars.ivy=/dev/null"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed the streaming job (SIGKILL)" in done.stdout
    assert "no flight was lost or doubled" in done.stdout
    checked = next(
        line for line in done.stdout.splitlines() if "Updates of windows that are in the topic twice" in line
    )
    assert checked.split()[-3:] == ["0", "0", "ok"]

    page = (tmp_path / "run/report/index.html").read_text()
    assert "OF PARTITIONS" in page
    assert "How far the queries were behind" in page
    for group, samples in load_lag(str(tmp_path / "run/lag.csv")).items():
        assert group in {"spark.rows", "spark.windows"}
        behind = [lag for _, lag in samples]
        assert max(behind) == FLIGHTS
        assert behind[-1] == 0
