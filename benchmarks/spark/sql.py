"""A count and a sum over a topic: ``esp sql``, with the start of its process, beside a batch in a session that is warm."""

import csv
import subprocess
import sys
from typing import Final

from benchmarks.client import delete_topic
from benchmarks.results import ESP
from benchmarks.spark.metrics import SQL
from benchmarks.spark.processes import EndedCommands
from benchmarks.spark.reading import read_batch
from benchmarks.spark.records import VALUE_BYTES, fill_topic
from benchmarks.spark.session import Meters, Session
from benchmarks.stage import Stage, settle
from esp.testing.node_process import NodeProcess

RECORDS: Final = 10_000_000
_TOPIC: Final = "sql"
_QUERY: Final = f"SELECT count(*), sum(octet_length(value)) FROM {_TOPIC}"


def ask_command(node: NodeProcess) -> tuple[int, int]:
    """The count and the sum, by ``esp sql``.

    Raises:
        subprocess.CalledProcessError: the command failed.
    """
    command = [sys.executable, "-m", "esp", "sql", _QUERY, "--format", "csv", "--bootstrap-server", node.bootstrap]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    _, (records, size) = csv.reader(text.splitlines())
    return int(records), int(size)


def ask_spark(session: Session, product: str, node: NodeProcess) -> tuple[int, int]:
    """The count and the sum, by a batch of Spark."""
    frame = read_batch(session, product, node, _TOPIC, ("value",))
    row = frame.selectExpr("count(*)", "sum(length(value))").collect()[0]
    return int(row[0]), int(row[1])


def measure_sql(stage: Stage, session: Session) -> None:
    """Measure the query on each broker in each round.

    Raises:
        RuntimeError: an answer is wrong.
    """
    count = 0
    for node in stage.nodes.values():
        count = fill_topic(node, _TOPIC, stage.scaled(RECORDS))
        settle(node)
    for number in stage.rounds():
        for name, node in stage.in_turn(number):
            meters = Meters(EndedCommands() if name == ESP else session.processes, node)
            with meters.running():
                found = ask_command(node) if name == ESP else ask_spark(session, name, node)
            if found != (count, count * VALUE_BYTES):
                raise RuntimeError(f"{name}: the answer is {found}, and there are {count} records")
            stage.take(name, meters.values(SQL), number)
    for node in stage.nodes.values():
        delete_topic(node.port, _TOPIC)
