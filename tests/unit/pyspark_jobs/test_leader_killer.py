import json
import subprocess
import sys
import time
from pathlib import Path

from pyspark_jobs.leader_killer import LeaderKiller


def test_nodes_are_killed_in_turn_and_a_failed_restart_is_told(tmp_path: Path) -> None:
    """The nodes are two sleepers that no cluster keeps, so nobody starts them again."""
    sleepers = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) for _ in range(2)]
    nodes = [{"node_id": number, "pid": sleeper.pid} for number, sleeper in enumerate(sleepers, 1)]
    (tmp_path / "cluster.json").write_text(json.dumps(nodes))
    said: list[str] = []
    deadline = time.monotonic() + 20
    with LeaderKiller(str(tmp_path), 0.01, said.append) as killer:
        while killer.kills < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert [sleeper.wait(10) for sleeper in sleepers] == [-9, -9]
    assert said[0] == "killed node 1 (SIGKILL)"
    assert said[1].startswith("node 1 did not come back: esp cluster: No cluster runs in")
    assert said[2] == "killed node 2 (SIGKILL)"
