"""Every verb of ``kafka-transactions``: list, describe, describe-producers, find-hanging, abort and forceTerminateTransaction.

Two transactions are left open: one of a living producer, which is terminated by its transactional id, and one that no coordinator knows,
because its record was written after the commit while the brokers did not verify. Both records are old, so that ``find-hanging`` has to ask
the coordinator for each.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kio.schema.produce.v9 import request as produce_v9

from esp.records.builder import NewRecord, build_batch
from tests.ecosystem.clients import Committed, CommittedReader, TransactionalWriter, create_topic, idempotent_producer
from tests.ecosystem.oracles.committed import judge_committed
from tests.ecosystem.oracles.tables import parse_table
from tests.ecosystem.stage import Outcome, Stage
from tests.ecosystem.waiting import TooLateError, wait_for
from tests.integration.wire import Wire

_LOGGER: Final = logging.getLogger(__name__)

TOPIC: Final = "invoices"
HELD: Final = "held"
HUNG: Final = "hung"
COMMITTED: Final = "committed"
LAST: Final = ("last of 0", "last of 1")
"""The values that are read in the end, by partition."""

AGE_MS: Final = 20 * 60 * 1000
"""More than the 15 minutes after which ``find-hanging`` looks into a transaction."""

TIMEOUT_S: Final = 90
"""A verb is repeated for so long: a leader may have been killed."""

_START_OFFSET: Final = "CurrentTransactionStartOffset"
_VERIFICATION: Final = "transaction.partition.verification.enable"

Rows = list[dict[str, str]]


class Verbs:
    """Runs the tool and compares its tables with what is expected.

    Attributes:
        calls: the number of expectations.
        violations: the expectations that were not met in time, with the tool's last words.
    """

    def __init__(self, stage: Stage) -> None:
        self.calls = 0
        self.violations: list[str] = []
        self._stage = stage

    def run(self, *arguments: str) -> str:
        """Run a verb and return all that it said."""
        server = ("--bootstrap-server", self._stage.cluster.bootstrap)
        done = self._stage.broker_tools.run("transactions", *server, *arguments)
        return done.stdout + done.stderr

    def expect(self, claim: str, condition: Callable[[Rows], bool], first_column: str, *arguments: str) -> Rows:
        """Repeat a verb until its table meets a condition, and return the table."""
        self.calls += 1
        said = ""
        rows: Rows = []

        def is_met() -> bool:
            nonlocal said, rows
            said = self.run(*arguments)
            try:
                rows = parse_table(said, first_column)
            except ValueError:
                return False
            return condition(rows)

        try:
            wait_for(is_met, TIMEOUT_S, claim)
        except TooLateError:
            self.violations.append(f"{arguments[0]}: {claim}: not so, but\n{said}")
        _LOGGER.info("%s: %s", arguments[0], claim)
        return rows


def run(stage: Stage) -> Iterator[Outcome]:
    """Leave transactions open, look at them and end them, with the tool."""
    bootstrap = stage.cluster.bootstrap
    create_topic(bootstrap, TOPIC, 2, stage.replication_factor)
    verbs = Verbs(stage)
    with stage.node_kills() as nodes:
        _end_held_transaction(verbs, bootstrap)
        TransactionalWriter(bootstrap, HUNG).write(TOPIC, [(0, COMMITTED)], commit=True)
        _write_hanging_record(verbs, stage)
        _abort_hanging_transaction(verbs)
        values = _read(bootstrap)
    violations = verbs.violations + judge_committed([COMMITTED, *LAST], [HELD, HUNG], values)
    yield Outcome("transactions: every verb", nodes.kills, verbs.calls, violations)


def _end_held_transaction(verbs: Verbs, bootstrap: str) -> None:
    producer = idempotent_producer(bootstrap, transactional_id=HELD)
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(TOPIC, HELD, partition=0, timestamp=int(time.time() * 1000) - AGE_MS)
    assert producer.flush(60) == 0, "the record of the held transaction is not acknowledged"

    listed = verbs.expect(
        "the held transaction is ongoing",
        lambda rows: [row["TransactionState"] for row in rows if row["TransactionalId"] == HELD] == ["Ongoing"],
        "TransactionalId",
        "list",
    )
    producer_id = next((row["ProducerId"] for row in listed), "")
    verbs.expect(
        "it holds one partition",
        lambda rows: [(row["TransactionState"], row["TopicPartitions"]) for row in rows] == [("Ongoing", f"{TOPIC}-0")],
        "CoordinatorId",
        *("describe", "--transactional-id", HELD),
    )
    verbs.expect(
        "it began at offset 0",
        lambda rows: [(row["ProducerId"], row[_START_OFFSET]) for row in rows] == [(producer_id, "0")],
        "ProducerId",
        *_producers_of(0),
    )
    verbs.expect("it does not hang", lambda rows: not rows, "Topic", "find-hanging", "--topic", TOPIC)
    verbs.run("forceTerminateTransaction", "--transactionalId", HELD)
    verbs.expect(
        "the terminated transaction is gone",
        lambda rows: [row["TransactionState"] for row in rows if row["TransactionalId"] == HELD] == ["Empty"],
        "TransactionalId",
        "list",
    )
    verbs.expect(
        "no transaction is open on its partition",
        lambda rows: [row[_START_OFFSET] for row in rows] == ["None"],
        "ProducerId",
        *_producers_of(0),
    )
    try:
        producer.commit_transaction(60)
        verbs.violations.append("the producer committed a transaction that was terminated")
    except KafkaException as error:
        _LOGGER.info("its producer: %s", error)


def _write_hanging_record(verbs: Verbs, stage: Stage) -> None:
    """Write a record of the finished transaction's producer, which opens a transaction on the partition alone."""
    described = verbs.expect(
        "the second transaction is complete",
        lambda rows: [row["TransactionState"] for row in rows] == ["CompleteCommit"],
        "CoordinatorId",
        *("describe", "--transactional-id", HUNG),
    )
    if not described:
        return
    [hung] = described
    _verify(stage, "false")
    timestamp_ms = int(time.time() * 1000) - AGE_MS
    batch = build_batch(
        [NewRecord(HUNG.encode(), timestamp=timestamp_ms)],
        timestamp_ms=timestamp_ms,
        producer_id=int(hung["ProducerId"]),
        producer_epoch=int(hung["ProducerEpoch"]),
        base_sequence=0,
        transactional=True,
    )
    data: Any = produce_v9.PartitionProduceData(index=1, records=batch)
    request: Any = produce_v9.ProduceRequest(
        transactional_id=HUNG,
        acks=-1,
        timeout=timedelta(seconds=10),
        topic_data=(produce_v9.TopicProduceData(name=TOPIC, partition_data=(data,)),),
    )
    errors: list[Any] = []

    def is_written() -> bool:
        try:
            with Wire(stage.cluster.nodes[_leader(stage.cluster.bootstrap)]) as wire:
                [topic] = wire.call(request).responses
        except (OSError, EOFError, KafkaException):
            return False
        [answer] = topic.partition_responses
        errors.append(answer.error_code)
        return answer.error_code == 0

    try:
        wait_for(is_written, TIMEOUT_S, "the hanging record")
    except TooLateError:
        verbs.violations.append(f"the hanging record was refused although {_VERIFICATION} is false: {errors[-1:]}")
    _verify(stage, "true")


def _abort_hanging_transaction(verbs: Verbs) -> None:
    find = ("find-hanging", "--topic", TOPIC)
    verbs.expect(
        "the transaction that no coordinator knows hangs",
        lambda rows: [(row["Partition"], row["StartOffset"]) for row in rows] == [("1", "0")],
        "Topic",
        *find,
    )
    verbs.run("abort", "--topic", TOPIC, "--partition", "1", "--start-offset", "0")
    verbs.expect("no transaction hangs any more", lambda rows: not rows, "Topic", *find)
    verbs.expect(
        "no transaction is open on the second partition",
        lambda rows: [row[_START_OFFSET] for row in rows] == ["None"],
        "ProducerId",
        *_producers_of(1),
    )


def _producers_of(partition: int) -> tuple[str, ...]:
    return ("describe-producers", "--topic", TOPIC, "--partition", str(partition))


def _verify(stage: Stage, value: str) -> None:
    """Let the brokers verify that partitions belong to transactions, or not."""
    server = ("--bootstrap-server", stage.cluster.bootstrap)
    change = ("--alter", "--entity-type", "brokers", "--entity-default", "--add-config", f"{_VERIFICATION}={value}")
    wait_for(
        lambda: stage.broker_tools.run("configs", *server, *change).returncode == 0,
        TIMEOUT_S,
        f"{_VERIFICATION}={value}",
    )


def _leader(bootstrap: str) -> int:
    known = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(TOPIC, 10)
    return int(known.topics[TOPIC].partitions[1].leader)


def _read(bootstrap: str) -> list[str]:
    """Commit a last record in each partition, and return the values that a read_committed reader gets up to these two."""
    TransactionalWriter(bootstrap, "last").write(TOPIC, list(enumerate(LAST)), commit=True)
    with CommittedReader(bootstrap, TOPIC) as reader:
        with contextlib.suppress(TooLateError):
            wait_for(lambda: reader.has(_has_last), TIMEOUT_S, "the last records")
        return [record.value.decode() for record in reader.records]


def _has_last(records: Sequence[Committed]) -> bool:
    return {record.value.decode() for record in records}.issuperset(LAST)
