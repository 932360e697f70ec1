"""Batch reads of a topic, with all columns and with two of them."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame

from benchmarks.client import delete_topic
from benchmarks.spark.metrics import READ_ALL, READ_TWO
from benchmarks.spark.records import fill_topic
from benchmarks.spark.session import Meters, Session, format_of
from benchmarks.stage import Stage, settle
from esp.testing.node_process import NodeProcess

RECORDS: Final = 10_000_000
TWO: Final = ("value", "offset")
_TOPIC: Final = "batch-read"


def read_batch(
    session: Session,
    product: str,
    node: NodeProcess,
    topic: str,
    columns: tuple[str, ...],
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The records of a topic, by the source that is measured on a broker.

    Args:
        session: of Spark.
        product: the broker's.
        node: the broker.
        topic: the topic.
        columns: the columns; all if none is named. A value that has a format is in the columns of its fields.
        options: more of them.
    """
    reader = session.spark.read.format(format_of(product))
    reader = reader.option("kafka.bootstrap.servers", node.bootstrap).option("subscribe", topic)
    reader = reader.options(**(options or {}))
    if columns and format_of(product) == "esp":
        return reader.option("columns", ",".join(columns)).load()
    return reader.load().select(*columns) if columns else reader.load()


def measure_reading(stage: Stage, session: Session) -> None:
    """Measure both reads in each round.

    Raises:
        RuntimeError: a source read another number of records than there are.
    """
    count = 0
    for name, node in stage.nodes.items():
        count = fill_topic(node, _TOPIC, stage.scaled(RECORDS))
        settle(node)
        found = read_batch(session, name, node, _TOPIC, ("offset",)).count()
        if found != count:
            raise RuntimeError(f"{name}: {found} records were read of {count}")
    stage.say(f"{count:,} records")
    for number in stage.rounds():
        for name, node in stage.in_turn(number):
            for work, columns in ((READ_ALL, ()), (READ_TWO, TWO)):
                meters = Meters(session.processes, node)
                with meters.running():
                    frame = read_batch(session, name, node, _TOPIC, columns)
                    frame.write.format("noop").mode("overwrite").save()
                stage.take(name, meters.values(work), number)
    for node in stage.nodes.values():
        delete_topic(node.port, _TOPIC)
