"""Kills the nodes of a running ``esp cluster`` in turn, so every leader again and again, and has each started again.

The cluster is known by its command and by its ``cluster.json``, which names the address and the process id of each node.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from types import TracebackType

RESTART_TIMEOUT_S = 60.0


class LeaderKiller:
    """Kills one node at a time (SIGKILL), as a context manager for as long as a step of the pipeline runs.

    Args:
        directory: of the cluster.
        interval_s: from the moment a node is back to the next kill.
        say: told of each kill.
    """

    def __init__(self, directory: str, interval_s: float, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._interval_s = interval_s
        self._say = say
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.kills = 0

    def __enter__(self) -> "LeaderKiller":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop killing; a node that was killed is back."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            nodes = self._read_nodes()
            victim = nodes[self.kills % len(nodes)]
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim["pid"], signal.SIGKILL)
            self.kills += 1
            self._say(f"killed node {victim['node_id']} (SIGKILL)")
            self._stopping.wait(1.0)
            self._restart(victim["node_id"])

    def _read_nodes(self) -> list[dict[str, int]]:
        with open(os.path.join(self._directory, "cluster.json"), encoding="utf-8") as file:
            nodes: list[dict[str, int]] = json.load(file)
        return nodes

    def _restart(self, node_id: int) -> None:
        command = [sys.executable, "-m", "esp", "cluster", "restart-node", "--dir", self._directory, str(node_id)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=RESTART_TIMEOUT_S, check=False)
        if done.returncode != 0:
            self._say(f"node {node_id} did not come back: {done.stderr.strip()}")
