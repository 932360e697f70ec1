"""Spark reads, as a batch and as a stream, a topic of which 30 % of the transactions were aborted and whose last records are markers."""

import logging
import random
from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import DataFrame

from pyspark_jobs.session import build_session
from tests.ecosystem.clients import TransactionalWriter, create_topic
from tests.ecosystem.oracles.committed import judge_committed
from tests.ecosystem.stage import Outcome, Stage

_LOGGER: Final = logging.getLogger(__name__)

TOPIC: Final = "payments"
PARTITIONS: Final = 3
TRANSACTIONS: Final = 200
RECORDS_EACH: Final = 30
ABORTED: Final = 60
RECORDS_A_TRIGGER: Final = 700
STREAM_TIMEOUT_S: Final = 240
QUICK_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def run(stage: Stage) -> Iterator[Outcome]:
    """Write the transactions, and read them by batches, for as long as nodes are to be killed, and by a stream."""
    create_topic(stage.cluster.bootstrap, TOPIC, PARTITIONS, stage.replication_factor)
    session = build_session("ecosystem", master="local[2]", java_options=[QUICK_START])
    session.sparkContext.setLogLevel("ERROR")
    try:
        with stage.node_kills() as nodes:
            committed, aborted = _write(stage.cluster.bootstrap)
            _LOGGER.info("%d records are committed, %d aborted", len(committed), len(aborted))
            violations: list[str] = []
            records = 0
            is_first = True
            while is_first or not nodes.has_killed(stage.node_kills_wanted):
                is_first = False
                values = _values(_options(session.read, stage).load())
                violations += judge_committed(committed, aborted, values)
                records += len(values)
            kills = nodes.kills
            yield Outcome("Spark: batches, read_committed", kills, records, violations)
            stream = _options(session.readStream, stage).option("maxOffsetsPerTrigger", RECORDS_A_TRIGGER).load()
            streamed, ended = _drain(stream, stage)
            violations = [] if ended else [f"the stream did not end within {STREAM_TIMEOUT_S} s"]
            violations += judge_committed(committed, aborted, streamed)
            yield Outcome("Spark: stream, read_committed", nodes.kills - kills, len(streamed), violations)
    finally:
        session.stop()


def _write(bootstrap: str) -> tuple[list[str], list[str]]:
    """Write all transactions over all partitions, the last one aborted; return committed and aborted values."""
    writer = TransactionalWriter(bootstrap, "payments-writer")
    aborted_ones = {*random.Random(1).sample(range(TRANSACTIONS - 1), ABORTED - 1), TRANSACTIONS - 1}
    committed: list[str] = []
    aborted: list[str] = []
    for transaction in range(TRANSACTIONS):
        values = [f"{transaction}-{number}" for number in range(RECORDS_EACH)]
        commit = transaction not in aborted_ones
        writer.write(TOPIC, [(n % PARTITIONS, value) for n, value in enumerate(values)], commit=commit)
        (committed if commit else aborted).extend(values)
    return committed, aborted


def _options(reader: Any, stage: Stage) -> Any:
    options = {
        "kafka.bootstrap.servers": stage.cluster.bootstrap,
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
    }
    return reader.format("kafka").options(**options)


def _values(frame: DataFrame) -> list[str]:
    return [row["value"] for row in frame.selectExpr("CAST(value AS STRING) AS value").collect()]


def _drain(stream: DataFrame, stage: Stage) -> tuple[list[str], bool]:
    """Return the values of a stream that reads all that is there, and whether it ended in time."""
    batches: dict[int, list[str]] = {}

    def take(frame: DataFrame, number: int) -> None:
        batches[number] = _values(frame)

    query = (
        stream.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(stage.directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    ended = bool(query.awaitTermination(STREAM_TIMEOUT_S))
    if not ended:
        query.stop()
    return [value for values in batches.values() for value in values], ended
