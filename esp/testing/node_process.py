"""A broker in a process of its own: start, stop, kill, restart, and what it costs."""

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from esp.testing.ports import free_port

HOST: Final = "127.0.0.1"
POLL_INTERVAL_S: Final = 0.01
STOP_TIMEOUT_S: Final = 30.0
SHOWN_OUTPUT_BYTES: Final = 8_000


class NodeError(Exception):
    """A node did not start or stop as it should; the message ends with the last of its output."""


class CpuSeconds(NamedTuple):
    """CPU time of a process since its start."""

    user: float
    system: float


class NodeProcess(ABC):
    """A one-node cluster in a process. As a context manager it starts on entry and is gone, however, on exit.

    The port stays the same over restarts, so that clients find the node again.

    Args:
        data_dir: the directory of the node's own; its output goes into files beside it.
        settings: settings by Kafka's names, over the node's defaults. ``log.dirs`` may name others than ``data_dir``.
        port: of the client listener; a free one if not given.
        host: the address that it listens on.
        command_prefix: what comes before the command, such as the way into a network namespace; it must keep the process id.
    """

    START_TIMEOUT_S: float = 60.0
    STOPS_WITHOUT_MAJORITY: bool = True
    """True if the node stops at a signal while most voters are gone, as they may be when all nodes of a cluster are stopped at once."""

    def __init__(
        self,
        data_dir: Path,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
        *,
        host: str = HOST,
        command_prefix: Sequence[str] = (),
    ) -> None:
        self.data_dir = data_dir
        self.host = host
        self._command_prefix = command_prefix
        self.settings = dict(settings or {})
        self.port = port or free_port()
        self.stdout_path = data_dir.with_name(data_dir.name + ".stdout")
        self.stderr_path = data_dir.with_name(data_dir.name + ".stderr")
        self._stdout_start = self._stderr_start = 0
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _prepare(self) -> Sequence[str]:
        """Make ready what the node needs and return its command line."""

    @abstractmethod
    def format(self, cluster_id: str, *options: str) -> None:
        """Format the node's directories for a cluster, with further options of the product's command.

        Raises:
            NodeError: the command refused.
        """

    @abstractmethod
    def _is_ready(self) -> bool:
        """True if the started process takes requests."""

    @property
    def bootstrap(self) -> str:
        """The value of ``bootstrap.servers`` for clients."""
        return f"{self.host}:{self.port}"

    @property
    def log_dirs(self) -> list[Path]:
        """The directories that hold the partitions."""
        text = self.settings.get("log.dirs")
        return [Path(part) for part in text.split(",")] if text else [self.data_dir]

    @property
    def pid(self) -> int:
        """Process id of the running node."""
        assert self._process is not None, "the node was not started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True if the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_ready(self) -> bool:
        """True if the process lives and takes requests."""
        return self.is_running and self._is_ready()

    @property
    def exit_status(self) -> int | None:
        """Status of the process that was started last, None while it runs; negative: the signal that ended it."""
        return self._process.poll() if self._process is not None else None

    @property
    def output(self) -> str:
        """The end of the node's output to stderr and stdout, to help find the cause of a failed test."""
        paths = [path for path in (self.stderr_path, self.stdout_path) if path.exists()]
        return "\n".join(
            f"--- {path}\n" + path.read_bytes()[-SHOWN_OUTPUT_BYTES:].decode(errors="replace") for path in paths
        )

    def start(self) -> Self:
        """Start the process and return when it takes requests.

        Raises:
            NodeError: it ended first, or took longer than ``START_TIMEOUT_S``.
        """
        self.launch()
        self.wait_until_ready()
        return self

    def launch(self) -> None:
        """Start the process and return at once."""
        assert not self.is_running, "the node runs already"
        command = [*self._command_prefix, *self._prepare()]
        with self.stdout_path.open("ab") as stdout, self.stderr_path.open("ab") as stderr:
            self._stdout_start, self._stderr_start = stdout.tell(), stderr.tell()
            self._process = subprocess.Popen(  # noqa: S603 - the command is made by the subclass
                command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
            )

    def wait_until_ready(self) -> None:
        """Wait until the launched process takes requests.

        Raises:
            NodeError: it ended first, or took longer than ``START_TIMEOUT_S``.
        """
        process = self._process
        assert process is not None, "the node was not launched"
        deadline = time.monotonic() + self.START_TIMEOUT_S
        while not self._is_ready():
            if process.poll() is not None:
                raise NodeError(f"the node ended with status {process.returncode} at its start\n{self.output}")
            if time.monotonic() > deadline:
                self.kill()
                raise NodeError(f"the node was not ready within {self.START_TIMEOUT_S} s\n{self.output}")
            time.sleep(POLL_INTERVAL_S)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the node in order (SIGTERM).

        Raises:
            NodeError: its exit status was not that of an orderly stop, or it took longer than ``timeout_s`` (it is killed then).
        """
        self.send_signal(signal.SIGTERM)
        self.wait_until_stopped(timeout_s)

    def wait_until_stopped(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Wait for the end of a node that was told to stop.

        Raises:
            NodeError: as :meth:`stop`.
        """
        process = self._process
        assert process is not None, "the node was not started"
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NodeError(f"the node did not stop within {timeout_s} s\n{self.output}") from None
        if not self._is_orderly(status):
            raise NodeError(f"the node stopped with status {status}\n{self.output}")

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        assert self._process is not None, "the node was not started"
        self._process.send_signal(number)

    def pause(self) -> None:
        """Stop the process where it is (SIGSTOP): it neither answers nor ends."""
        self.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on, with what it believed when it was paused (SIGCONT)."""
        self.send_signal(signal.SIGCONT)

    def _is_orderly(self, status: int) -> bool:
        return status == 0

    def kill(self) -> None:
        """End the process at once (SIGKILL)."""
        process = self._process
        assert process is not None, "the node was not started"
        process.kill()
        process.wait()

    def restart(self) -> Self:
        """Stop in order if it runs, and start again on the same port and data."""
        if self.is_running:
            self.stop()
        return self.start()

    def rss_bytes(self) -> int:
        """Resident memory of the process (Linux)."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def own_memory_bytes(self) -> int:
        """Resident memory, that of child processes too, without pages of mapped files: those the kernel takes back as it likes (Linux)."""
        found = _own_memory_bytes(self.pid)
        for child in self.child_pids():
            with suppress(OSError, KeyError):  # it has ended meanwhile
                found += _own_memory_bytes(child)
        return found

    def child_pids(self) -> list[int]:
        """The process ids of its children (Linux)."""
        found: list[int] = []
        for path in Path(f"/proc/{self.pid}/task").glob("*/children"):
            with suppress(OSError):  # the thread has ended meanwhile
                found += map(int, path.read_text().split())
        return found

    def cpu_seconds(self) -> CpuSeconds:
        """CPU time of the process so far, all threads, and of its children, those that have ended too (Linux; steps of 10 ms)."""
        user, system, ended_user, ended_system = _ticks(self.pid)
        for child in self.child_pids():
            with suppress(OSError):  # it has ended meanwhile
                user, system = user + _ticks(child)[0], system + _ticks(child)[1]
        ticks_per_second = os.sysconf("SC_CLK_TCK")
        return CpuSeconds((user + ended_user) / ticks_per_second, (system + ended_system) / ticks_per_second)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.is_running:
            return
        if error is None:
            self.stop()
        else:
            self.kill()


def _own_memory_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return sum(int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))


def _ticks(pid: int) -> tuple[int, int, int, int]:
    """User and system time of a process, and of its children that have ended."""
    # the second field is the command's name in parentheses and may hold blanks
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]), int(fields[12]), int(fields[13]), int(fields[14])
