"""A program of the ecosystem as a process that is killed and started again."""

import contextlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

STOP_TIMEOUT_S: Final = 60
_SHOWN_BYTES: Final = 6_000


class Program:
    """One process at a time of a command, started again after each kill.

    Standard output and standard error of all its processes are files of their own.

    Args:
        command: the program with its arguments.
        directory: for the two files.
        name: of the program in messages, and of the files.
    """

    def __init__(self, command: Sequence[str], *, directory: Path, name: str) -> None:
        self.name = name
        self.stdout_path = directory / f"{name}.stdout"
        self.stderr_path = directory / f"{name}.stderr"
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self.own_ends = 0
        """The number of times that the process had ended by itself when it was to be killed."""

    def start(self) -> None:
        """Start the process."""
        assert not self.is_running, f"{self.name} runs already"
        with self.stdout_path.open("ab") as stdout, self.stderr_path.open("ab") as stderr:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)

    @property
    def is_running(self) -> bool:
        """True if the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_status(self) -> int | None:
        """Status of the process; None while it runs."""
        return None if self._process is None else self._process.poll()

    def kill(self) -> None:
        """End the process at once (SIGKILL), if it still runs."""
        if self._process is None:
            return
        if not self.is_running:
            self.own_ends += 1
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ask the process to end (SIGTERM), and kill it if it takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    @property
    def output(self) -> str:
        """The end of what the program wrote."""
        parts = []
        for path in (self.stderr_path, self.stdout_path):
            with contextlib.suppress(FileNotFoundError):
                parts.append(f"--- {path}\n" + path.read_bytes()[-_SHOWN_BYTES:].decode(errors="replace"))
        return "\n".join(parts)


def write_properties(path: Path, properties: Mapping[str, object]) -> Path:
    """Write a Java properties file and return its path."""
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path
