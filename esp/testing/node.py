"""A node of ours as users run it: ``python -m esp broker`` in a process of its own."""

import sys
from collections.abc import Sequence

from esp.testing.node_process import HOST, NodeProcess


class Node(NodeProcess):
    """One ESP node, broker and controller in one; see :class:`esp.testing.node_process.NodeProcess`."""

    START_TIMEOUT_S = 20.0

    def _prepare(self) -> Sequence[str]:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "esp", "broker", "--data-dir", str(self.data_dir)]
        for name, value in {"listeners": f"PLAINTEXT://{HOST}:{self.port}", **self.settings}.items():
            command += ["--set", f"{name}={value}"]
        return command

    def _is_ready(self) -> bool:
        with self.stdout_path.open("rb") as stdout:
            stdout.seek(self._stdout_start)
            return any(line.startswith(b"ready node=") and line.endswith(b"\n") for line in stdout)
