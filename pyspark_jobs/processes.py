"""Processes that the pipeline starts, each in a session of its own, so that all that it started goes with it.

A Spark driver is two processes, Python and the JVM below it; a signal to the group reaches both.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence

STOP_TIMEOUT_S = 30.0
SHOWN_LOG_LINES = 15


class ProcessError(Exception):
    """A process did not do what it was started for; the message names it, says why, and where its log is."""


class PipelineProcess:
    """A running process. As a context manager it is gone, with all that it started, on exit.

    Args:
        name: what messages and the log file call it.
        command: its command line.
        log_directory: where ``NAME.log`` takes its stderr; its stdout is read by ``lines``.
        environment: variables on top of this process's.

    Raises:
        ProcessError: it cannot be started.
    """

    def __init__(
        self, name: str, command: Sequence[str], log_directory: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log_path = os.path.join(log_directory, f"{name}.log")
        with open(self.log_path, "ab") as log:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    errors="replace",
                    start_new_session=True,
                    env={**os.environ, **(environment or {})},
                )
            except OSError as error:
                raise ProcessError(f"{name} cannot be started: {shlex.join(command)}: {error}") from error
        self._is_gone = False

    def __enter__(self) -> "PipelineProcess":
        return self

    def __exit__(self, *_error: object) -> None:
        self.kill()

    def lines(self, timeout_s: float) -> Iterator[str]:
        """Yield each line that it prints on stdout, until it ends.

        Raises:
            ProcessError: it still ran after ``timeout_s``, and was killed.
        """
        assert self._process.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            self._kill_group()

        timer = threading.Timer(timeout_s, end)
        timer.start()
        try:
            for line in self._process.stdout:
                yield line.rstrip("\n")
        finally:
            timer.cancel()
        if late.is_set():
            raise ProcessError(f"{self.name} took longer than {timeout_s:.0f} s and was killed\n{self.log_tail()}")

    def require_success(self) -> None:
        """Wait for the end of the process; raise ProcessError if its status is not 0."""
        status = self._process.wait()
        if status != 0:
            raise ProcessError(f"{self.name} ended with status {status}\n{self.log_tail()}")

    def log_tail(self) -> str:
        """Return the last lines of the log, and where all of it is."""
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            tail = file.read().splitlines()[-SHOWN_LOG_LINES:]
        return "\n".join([*(f"  | {line}" for line in tail), f"  all of it: {self.log_path}"])

    def stop(self) -> None:
        """End the process in order (SIGTERM).

        Raises:
            ProcessError: it did not end in time, or not with status 0.
        """
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.communicate(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProcessError(f"{self.name} did not stop within {STOP_TIMEOUT_S:.0f} s\n{self.log_tail()}") from None
        self.require_success()

    def kill(self) -> None:
        """End the process and all that it started at once (SIGKILL); nothing happens the second time."""
        if self._is_gone:
            return
        self._is_gone = True
        self._kill_group()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
