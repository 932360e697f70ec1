"""The pipeline end to end on three nodes, whose leaders are killed again and again meanwhile."""

from pathlib import Path

import pytest

from esp.testing.ports import free_port
from esp.testing.pytest_plugin import AGAINST_KAFKA
from tests.integration.spark.pipeline_run import run_pipeline


@pytest.mark.skipif(AGAINST_KAFKA, reason="our own cluster command")
@pytest.mark.timeout(600)  # three Spark sessions one after the other
def test_a_pipeline_on_three_nodes_whose_leaders_are_killed_loses_and_doubles_no_flight(tmp_path: Path) -> None:
    done = run_pipeline(tmp_path, "--port", str(free_port()), "--nodes", "3", "--kill-leaders", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("(SIGKILL)") >= 3
    assert "did not come back" not in done.stdout
    assert "no flight was lost or doubled" in done.stdout
