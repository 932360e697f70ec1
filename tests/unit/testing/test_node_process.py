"""The process handle, with a few lines of Python in place of a broker."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from esp.testing.node import Node
from esp.testing.node_process import NodeError, NodeProcess

SERVES = "import time; print('ready node=1 listening=x', flush=True); [time.sleep(0.05) for _ in iter(int, 1)]"
"""Short sleeps: a signal that comes just before one begins is handled at its end."""

STOPS = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); " + SERVES


class Script(Node):
    """A node that is a script."""

    START_TIMEOUT_S = 5.0
    script = STOPS

    def _prepare(self) -> Sequence[str]:
        return [sys.executable, "-c", self.script]


def make(tmp_path: Path, script: str = STOPS) -> NodeProcess:
    node = Script(tmp_path / "data")
    node.script = script
    return node


def test_node_is_started_stopped_and_started_again_on_its_port(tmp_path: Path) -> None:
    node = make(tmp_path)
    port = node.port
    assert not node.is_running
    node.start()
    first = node.pid
    assert node.is_running
    assert node.exit_status is None
    node.restart()
    assert node.pid != first
    assert node.port == port < 32_768
    node.stop()
    assert node.exit_status == 0


def test_killed_node_is_gone_when_kill_returns(tmp_path: Path) -> None:
    node = make(tmp_path).start()
    node.kill()
    assert (node.is_running, node.exit_status) == (False, -9)


def test_node_that_ends_at_its_start_shows_what_it_said(tmp_path: Path) -> None:
    node = make(tmp_path, "import sys; print('the disk is on fire', file=sys.stderr); sys.exit(3)")
    with pytest.raises(NodeError, match=r"(?s)status 3 .*the disk is on fire"):
        node.start()


def test_node_that_is_not_ready_in_time_is_killed(tmp_path: Path) -> None:
    node = make(tmp_path, "import time; print('ready', flush=True); time.sleep(60)")
    node.START_TIMEOUT_S = 0.3
    with pytest.raises(NodeError, match="not ready within"):
        node.start()
    assert not node.is_running


def test_ready_line_of_an_earlier_start_does_not_count(tmp_path: Path) -> None:
    node = make(tmp_path).start()
    node.stop()
    node.script = "import time; time.sleep(60)"
    node.START_TIMEOUT_S = 0.3
    with pytest.raises(NodeError, match="not ready within"):
        node.start()


def test_stop_with_another_status_than_0_is_an_error(tmp_path: Path) -> None:
    node = make(tmp_path, SERVES).start()  # SIGTERM ends it without any order
    with pytest.raises(NodeError, match="status -15"):
        node.stop()


def test_node_that_does_not_stop_in_time_is_killed(tmp_path: Path) -> None:
    node = make(tmp_path, "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SERVES).start()
    with pytest.raises(NodeError, match="did not stop"):
        node.stop(timeout_s=0.2)
    assert not node.is_running


def test_context_stops_in_order_and_kills_after_an_error(tmp_path: Path) -> None:
    with make(tmp_path) as node:
        pass
    assert node.exit_status == 0
    with pytest.raises(ZeroDivisionError), make(tmp_path) as node:
        raise ZeroDivisionError
    assert node.exit_status == -9


def test_memory_and_cpu_time_are_those_of_the_process(tmp_path: Path) -> None:
    with make(tmp_path, "sum(range(10**7)); " + STOPS.replace("0.05", "0.001")) as node:
        assert 1_000_000 < node.rss_bytes() < 200_000_000
        assert 1_000_000 < node.own_memory_bytes() < node.rss_bytes()
        before = node.cpu_seconds()
        subprocess.run([sys.executable, "-c", "sum(range(10**6))"], check=True)  # time goes by
        after = node.cpu_seconds()
        assert before.user <= after.user
        assert before.system <= after.system
        assert sum(after) > 0


WORKS = (
    "import subprocess, sys; "
    "subprocess.run([sys.executable, '-c', 'sum(range(10**7))']); "
    "child = subprocess.Popen([sys.executable, '-c', "
    "'held = bytes(1) * 60_000_000; print(len(held), flush=True); input()'], "
    "stdin=subprocess.PIPE, stdout=subprocess.PIPE); child.stdout.readline(); "
)


def test_memory_and_cpu_time_of_children_count(tmp_path: Path) -> None:
    """Children count while they run, and after they have ended."""
    with make(tmp_path, WORKS + STOPS) as node:
        assert len(node.child_pids()) == 1
        assert node.own_memory_bytes() > 60_000_000
        assert node.rss_bytes() < 60_000_000
        assert sum(node.cpu_seconds()) > 0.1
