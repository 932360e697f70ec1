"""Programs that have a session of their own, each a process that is ended with all that it has started if its time is over."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.integration.spark.session import QUICK_START

ROOT: Final = Path(__file__).parents[3]


def run_program(module: str, arguments: Sequence[str], directory: Path, timeout_s: float) -> str:
    """Run a module as a program, as :func:`run_program_with_log` does; return what it has printed."""
    return run_program_with_log(module, arguments, directory, timeout_s)[0]


def run_program_with_log(module: str, arguments: Sequence[str], directory: Path, timeout_s: float) -> tuple[str, str]:
    """Run a module as a program; return its output and its log.

    Args:
        module: its name.
        arguments: of the program.
        directory: for scratch files.
        timeout_s: the time that it may take.
    """
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={
            **os.environ,
            "TMPDIR": str(directory),
            "JAVA_TOOL_OPTIONS": QUICK_START,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            raise AssertionError(f"the program does not end:\n{output[-5000:]}\n{errors[-5000:]}") from None
    assert process.returncode == 0, output[-5000:] + errors[-5000:]
    return output, errors
