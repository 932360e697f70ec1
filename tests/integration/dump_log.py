"""Kafka's dump-log as a judge of files. Its exit status is 0 in almost every bad case: what it prints is looked through."""

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from esp.testing.kafka_tools import KafkaTools

COMPLAINTS = (
    "isvalid: false",
    "Mismatches in",
    "Non-consecutive offsets",
    "Found timestamp mismatch",
    "Found out of order timestamp",
    "Error at",
    "invalid bytes",
    "Exception",
    "Could not find",
)

FALSE_ALARM = re.compile(r"^Non-consecutive offsets in .*/0*(\d+)\.log\n  -1 is followed by \1\n", re.MULTILINE)
"""With ``--deep-iteration`` Kafka 4.3.1 says this of every segment whose base offset is not 0, its own included."""

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")


def dumpable_files(log_dirs: Iterable[Path], *, metadata: bool) -> list[Path]:
    """Return the files that dump-log understands: those of the metadata log, or those of all other partitions."""
    return sorted(
        path
        for directory in log_dirs
        for path in directory.glob("*-*/*")
        if path.suffix in SUFFIXES and path.parent.name.startswith("__cluster_metadata-") == metadata
    )


def dump(tools: KafkaTools, files: Iterable[Path], *options: str, is_compacted: bool = False) -> str:
    """Dump all files at once and return what was printed, which holds no complaint and speaks of each file.

    Gaps between offsets are no reason to complain of files that are compacted.
    """
    paths = [str(path) for path in files]
    assert paths
    done = tools.run("dump-log", *options, "--files", ",".join(paths), timeout_s=120)
    output = done.stdout + FALSE_ALARM.sub("", done.stderr)
    complaints = [each for each in COMPLAINTS if not (is_compacted and each == "Non-consecutive offsets")]
    found = [line for line in output.splitlines() if any(complaint in line for complaint in complaints)]
    assert not found, "\n".join(found[:20])
    assert done.returncode == 0, output
    assert sorted(re.findall(r"^Dumping (.+)$", output, re.MULTILINE)) == sorted(paths)
    return output


def dump_here(files: Iterable[Path], *options: str) -> str:
    """Dump all files by ``esp dump-log``, which finds nothing wrong with them, and return what it printed."""
    command = [sys.executable, "-m", "esp", "dump-log", *options, "--files", ",".join(map(str, files))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout


def check_files(tools: KafkaTools, log_dirs: Iterable[Path]) -> tuple[str, str]:
    """Dump everything in the directories of a stopped node; return the output for the partitions and for the metadata log."""
    directories = list(log_dirs)
    of_partitions = dumpable_files(directories, metadata=False)
    data = dump(tools, of_partitions, "--deep-iteration") if of_partitions else ""
    metadata = dump(tools, dumpable_files(directories, metadata=True), "--cluster-metadata-decoder")
    return data, metadata
