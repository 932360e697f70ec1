"""Micro-batches of 1,000 records, one right behind the other."""

from statistics import median
from typing import Final

from benchmarks.client import delete_topic
from benchmarks.spark.metrics import MICRO_BATCH
from benchmarks.spark.records import fill_topic
from benchmarks.spark.session import Meters, Session, format_of
from benchmarks.stage import Stage, settle
from esp.testing.node_process import NodeProcess

BATCHES: Final = 60
"""Fewer than the progress reports that Spark keeps of a query."""

BATCH_RECORDS: Final = 1_000
_TOPIC: Final = "micro-batches"


def run_query(session: Session, product: str, node: NodeProcess, checkpoint: str) -> list[tuple[int, float]]:
    """Read a topic as a stream up to its end, and return the records and the seconds of each batch."""
    reader = session.spark.readStream.format(format_of(product)).option("kafka.bootstrap.servers", node.bootstrap)
    reader = reader.option("subscribe", _TOPIC).option("startingOffsets", "earliest")
    stream = reader.option("maxOffsetsPerTrigger", BATCH_RECORDS).load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    done = [progress for progress in query.recentProgress if progress.numInputRows]
    return [(progress.numInputRows, progress.durationMs["triggerExecution"] / 1000) for progress in done]


def measure_micro_batches(stage: Stage, session: Session) -> None:
    """Measure a query on each broker in each round. The first batch does not count for the time; the CPU is that of the whole query.

    Raises:
        RuntimeError: a source read another number of records than there are.
    """
    count = 0
    for node in stage.nodes.values():
        count = fill_topic(node, _TOPIC, stage.scaled(BATCHES, 3) * BATCH_RECORDS)
        settle(node)
    for number in stage.rounds():
        for name, node in stage.in_turn(number):
            meters = Meters(session.processes, node)
            with meters.running():
                batches = run_query(session, name, node, str(stage.directory / f"checkpoint-{name}-{number}"))
            found = sum(records for records, _ in batches)
            if found != count:
                raise RuntimeError(f"{name}: {found} records were read of {count}")
            wall_s = median(seconds for _, seconds in batches[1:])
            stage.take(name, meters.values(MICRO_BATCH, len(batches), wall_s), number)
    for node in stage.nodes.values():
        delete_topic(node.port, _TOPIC)
