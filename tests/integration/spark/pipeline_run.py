"""The pipeline run as a user runs it, on the first days of the flights."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.integration.spark.session import QUICK_START

FLIGHTS: Final = 9_000
_TIMEOUT_S: Final = 500


def run_pipeline(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the whole pipeline, which keeps what it makes in ``run`` below ``directory``; its output is captured."""
    command = [sys.executable, "-m", "pyspark_jobs.run", "--dir", str(directory / "run"), *arguments]
    return subprocess.run(
        [*command, "--limit", str(FLIGHTS), "--master", "local[2]"],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        env={**os.environ, "TMPDIR": str(directory), "JAVA_TOOL_OPTIONS": QUICK_START},
    )
