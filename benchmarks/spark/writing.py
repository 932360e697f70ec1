"""Writes of a file's rows to a topic: each row once by this package, at least once by Spark's own sink."""

from typing import Final

from benchmarks.batches import PARTITIONS
from benchmarks.brokers import wait_until_deleted
from benchmarks.client import create_topic, delete_topic
from benchmarks.spark.metrics import WRITE
from benchmarks.spark.records import count_offsets, write_parquet
from benchmarks.spark.session import Meters, Session, format_of
from benchmarks.stage import Stage
from esp.spark import write_once
from esp.testing.node_process import NodeProcess

ROWS: Final = 10_000_000


def write_rows(session: Session, product: str, node: NodeProcess, path: str, topic: str) -> None:
    """Write the rows of files to a topic that exists."""
    rows = session.spark.read.parquet(path)
    options = {"kafka.bootstrap.servers": node.bootstrap}
    if format_of(product) == "esp":
        write_once(rows, topic=topic, transaction=topic, options=options)
    else:
        rows.write.format("kafka").options(**options).option("topic", topic).save()


def measure_writing(stage: Stage, session: Session) -> None:
    """Measure a write to a new topic of each broker in each round.

    Raises:
        RuntimeError: rows are missing in a topic.
    """
    count, path = stage.scaled(ROWS, 1000), stage.directory / "rows"
    write_parquet(path, count)
    for number in stage.rounds():
        for name, node in stage.in_turn(number):
            topic = f"write-{number + stage.extent.warm_up_rounds}"
            create_topic(node.port, topic, PARTITIONS)
            meters = Meters(session.processes, node)
            with meters.running():
                write_rows(session, name, node, str(path), topic)
            found = count_offsets(node, topic)
            if found < count:
                raise RuntimeError(f"{name}: {found} offsets were given to {count} rows")
            stage.take(name, meters.values(WRITE), number)
            delete_topic(node.port, topic)
            wait_until_deleted(node, topic)
