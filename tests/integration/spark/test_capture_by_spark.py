"""``esp capture start --master``: tasks of Spark's, in processes of their own, write the files."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from esp.cli.app import run_tools
from esp.testing.node_process import NodeProcess
from tests.integration.capture_runs import names_in, produce
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.spark.session import QUICK_START


@pytest.mark.timeout(300)
def test_tasks_of_spark_capture_a_topic_to_a_delta_table(
    node: NodeProcess, topic: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    make_topic(partitions=2)
    lake = tmp_path / "lake"
    for number in range(2):
        produce(node.bootstrap, topic, [b"a"] * 1000, number)
    command = [sys.executable, "-m", "esp", "capture", "start", "tasks", "--topic", topic, "--to", str(lake)]
    options = ["--bootstrap-server", node.bootstrap, "--table", "delta", "--every", "1s", "--master", "local[2]"]
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": QUICK_START, "TMPDIR": str(tmp_path)}
    with (
        open(tmp_path / "log", "w+") as log,
        subprocess.Popen([*command, *options], stderr=log, stdout=log, env=environment) as process,
    ):
        eventually(lambda: len(names_in(lake)) == 2, 120)
        produce(node.bootstrap, topic, [b"b"] * 10)
        eventually(lambda: len(names_in(lake)) == 3, 60)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert process.returncode == 0, (tmp_path / "log").read_text()
    assert run_tools(("capture", "verify", str(lake), "--bootstrap-server", node.bootstrap)) == 0
