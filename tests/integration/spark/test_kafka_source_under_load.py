"""Spark's own Kafka source on three nodes whose leaders are killed all the time, while a producer writes transactions."""

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaException, Producer

from esp.testing.pytest_plugin import AGAINST_KAFKA, ClusterFactory
from tests.integration.cluster.observer import Observer
from tests.integration.conftest import eventually
from tests.integration.source_rows import Read
from tests.integration.spark.load_program import CHANGED
from tests.integration.spark.programs import run_program_with_log
from tests.integration.spark.session import HAS_CONNECTOR
from tests.integration.transactions import TIMEOUT_S, serve_transactions, transactional_producer

KILLS = 5
EVERY_S = 5.0
PARTITIONS = 4
VALUES = 40
"""Of a transaction."""
ABORTED_EVERY = 4
TRIGGER_MOST_S = 30.0
"""A trigger that waits for longer hangs; on a machine that is not busy the longest takes some two seconds."""
_PROGRAM_TIMEOUT_S = 240.0


class Writer:
    """Writes transactions until it is stopped, every fourth of which it aborts.

    Attributes:
        committed: the values whose commit was acknowledged.
        aborted: those that were aborted.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._is_stopped = threading.Event()
        self.committed: list[str] = []
        self.aborted: list[str] = []
        self.transactions = 0

    def run(self) -> None:
        producer = self._begin()
        while not self._is_stopped.is_set():
            self.transactions += 1
            values = [f"{self.transactions}/{number}" for number in range(VALUES)]
            try:
                producer.begin_transaction()
                for number, value in enumerate(values):
                    producer.produce(self._topic, value, partition=number % PARTITIONS)
                producer.flush(TIMEOUT_S)
                is_commit = self.transactions % ABORTED_EVERY != 0
                self._end(producer, is_commit=is_commit)
                (self.committed if is_commit else self.aborted).extend(values)
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    try:
                        self._end(producer, is_commit=False)
                        self.aborted.extend(values)
                        continue
                    except KafkaException:
                        pass
                producer = self._begin()  # the outcome of the transaction is not known here
            self._is_stopped.wait(0.02)

    def stop(self) -> None:
        """Write no more."""
        self._is_stopped.set()

    def _begin(self) -> Producer:
        while True:
            try:
                return transactional_producer(self._bootstrap, "load")
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    @staticmethod
    def _end(producer: Producer, *, is_commit: bool) -> None:
        while True:
            try:
                if is_commit:
                    producer.commit_transaction(TIMEOUT_S)
                else:
                    producer.abort_transaction(TIMEOUT_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return


def kill_leaders(observer: Observer, cluster, topic: str) -> None:
    """Kill the leader of a partition after the other, one every five seconds; it starts again when another node leads."""
    for number in range(KILLS):
        begun = time.monotonic()
        victim = observer.leader(topic, number % PARTITIONS)
        cluster.nodes[victim].kill()
        for partition in range(PARTITIONS):
            observer.wait_for_leader_other_than(victim, topic, partition)
        cluster.nodes[victim].start()
        observer.wait_until_whole(topic, 60)
        time.sleep(max(0.0, begun + EVERY_S - time.monotonic()))


@pytest.mark.skipif(not HAS_CONNECTOR, reason="no Kafka connector for this PySpark")
@pytest.mark.timeout(500)
def test_the_kafka_source_reads_on_while_leaders_die(make_cluster: ClusterFactory, topic: str, tmp_path: Path) -> None:
    cluster = make_cluster(settings={"transaction.state.log.num.partitions": "3"})
    if not AGAINST_KAFKA:
        serve_transactions(cluster.bootstrap, cluster.nodes.values())
    observer = Observer(cluster)
    observer.create(topic, PARTITIONS, min_insync_replicas=2)
    writer = Writer(cluster.bootstrap, topic)
    until = tmp_path / "until"
    with ThreadPoolExecutor(2) as threads:
        writing = threads.submit(writer.run)
        arguments = (
            "--bootstrap",
            cluster.bootstrap,
            "--topic",
            topic,
            "--directory",
            str(tmp_path),
            "--until",
            str(until),
        )
        program = threads.submit(
            run_program_with_log, "tests.integration.spark.load_program", arguments, tmp_path, _PROGRAM_TIMEOUT_S
        )
        try:
            eventually(lambda: (tmp_path / "checkpoint" / "commits" / "1").exists() or program.done(), 120)
            kill_leaders(observer, cluster, topic)
        finally:
            writer.stop()
            try:
                writing.result(120)
            finally:
                until.touch()
        printed, log = program.result(_PROGRAM_TIMEOUT_S)

    batches = json.loads(printed.splitlines()[-1])
    assert [line for line in log.splitlines() if any(words in line for words in CHANGED)] == []
    reached: dict[str, int] = {}
    for batch in batches:
        for partition, offset in batch["end"][topic].items():
            assert offset >= reached.get(partition, 0), f"partition {partition} went back: {batch}"
            reached[partition] = offset
    table = pq.read_table(tmp_path / "rows", columns=["partition", "offset", "value"])
    found = sorted(zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True))
    committed = Read(cluster.bootstrap, subscribe=topic, kafka__isolation__level="read_committed").rows()
    assert found == sorted((row.partition, row.offset, (row.value or b"").decode()) for row in committed)
    values = {value for _, _, value in found}
    assert len(values) == len(found)
    assert set(writer.committed) <= values
    assert values.isdisjoint(writer.aborted)
    longest = sorted((batch["ms"] for batch in batches[1:]), reverse=True)[:3]  # the first one loads Spark's classes
    sys.stdout.write(
        f"{len(found):,} rows of {writer.transactions} transactions in {len(batches)} batches, {KILLS} leaders killed; the longest "
        f"triggers took {', '.join(f'{ms / 1000:.1f}' for ms in longest)} s\n"
    )
    assert longest[0] < TRIGGER_MOST_S * 1000
