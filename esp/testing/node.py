"""A node of ours as users run it: ``python -m esp broker`` in a process of its own."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from esp.testing.node_process import NodeError, NodeProcess

_PREPARED: Final = b"prepared for requests of every kind"


class Node(NodeProcess):
    """One ESP node, broker and controller in one unless its settings say otherwise; see :class:`esp.testing.node_process.NodeProcess`."""

    PROGRAM: Sequence[str] = ("-m", "esp")
    """The program, as the interpreter's options name it."""

    def _prepare(self) -> Sequence[str]:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        return [sys.executable, *self.PROGRAM, "broker", *self._options()]

    def _options(self) -> list[str]:
        settings = {"listeners": f"PLAINTEXT://{self.host}:{self.port}", **self.settings}
        options = [f"--set={name}={value}" for name, value in settings.items()]
        return ["--data-dir", str(self.data_dir), *options]

    def format(self, cluster_id: str, *options: str) -> None:
        """Format the node's directories for a cluster, with further options of ``esp format``."""
        command = [sys.executable, *self.PROGRAM, "format", f"--cluster-id={cluster_id}", *self._options(), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the command is made here
        if done.returncode != 0:
            raise NodeError(f"the node could not be formatted\n{done.stdout}{done.stderr}")

    @property
    def is_warm(self) -> bool:
        """True if the node has said since its start that it is prepared for requests of every kind."""
        with self.stderr_path.open("rb") as stderr:
            stderr.seek(self._stderr_start)
            return _PREPARED in stderr.read()

    def _is_ready(self) -> bool:
        with self.stdout_path.open("rb") as stdout:
            stdout.seek(self._stdout_start)
            return any(line.startswith(b"ready node=") and line.endswith(b"\n") for line in stdout)
