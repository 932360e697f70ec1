"""A topic to Parquet files: ``esp capture``, with the start of its process, beside Spark's source and its writer in a warm session."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from benchmarks.client import delete_topic
from benchmarks.results import ESP
from benchmarks.spark.metrics import CAPTURE
from benchmarks.spark.processes import EndedCommands
from benchmarks.spark.reading import read_batch
from benchmarks.spark.records import fill_topic, random_batches
from benchmarks.spark.session import Meters, Session
from benchmarks.stage import Stage, settle
from esp.testing.node_process import NodeProcess

BYTES: Final = 5e9
"""Bytes of record batches that are captured."""

_BATCHES: Final = 2_000
"""Batches that are different: more bytes than a row group of a file has, so that no writer of Parquet finds values that come again."""

_TOPIC: Final = "captured"


def capture(node: NodeProcess, name: str, directory: Path) -> None:
    """Capture the topic to files of a directory, by the command.

    Raises:
        subprocess.CalledProcessError: the command failed.
    """
    command = [
        sys.executable,
        "-m",
        "esp",
        "capture",
        "start",
        name,
        "--topic",
        _TOPIC,
        "--to",
        str(directory),
        "--once",
    ]
    subprocess.run([*command, "--bootstrap-server", node.bootstrap], check=True, stdout=subprocess.DEVNULL)


def write_by_spark(session: Session, product: str, node: NodeProcess, directory: Path) -> None:
    """Write the columns that a capture has to files of a directory, by Spark."""
    frame = read_batch(session, product, node, _TOPIC, (), {"includeHeaders": "true"})
    frame.write.parquet(str(directory))


def measure_capture(stage: Stage, session: Session) -> None:
    """Measure it in each round. The files of a round are removed behind it.

    Raises:
        RuntimeError: records are missing in the files.
    """
    batches = random_batches(_BATCHES)
    count = 0
    for node in stage.nodes.values():
        count = fill_topic(node, _TOPIC, stage.scaled(BYTES / batches.size_bytes * batches.records), batches)
        settle(node)
    stage.say(f"{count:,} records, {count / batches.records * batches.size_bytes / 1e9:.2f} GB")
    for number in stage.rounds():
        for name, node in stage.in_turn(number):
            directory = stage.directory / "files"
            meters = Meters(EndedCommands() if name == ESP else session.processes, node)
            with meters.running():
                if name == ESP:
                    capture(node, f"round-{number + stage.extent.warm_up_rounds}", directory)
                else:
                    write_by_spark(session, name, node, directory)
            found = sum(pq.read_metadata(path).num_rows for path in directory.rglob("*.parquet"))
            if found != count:
                raise RuntimeError(f"{name}: {found} records are in the files, of {count}")
            shutil.rmtree(directory)
            stage.take(name, meters.values(CAPTURE), number)
    for node in stage.nodes.values():
        delete_topic(node.port, _TOPIC)
