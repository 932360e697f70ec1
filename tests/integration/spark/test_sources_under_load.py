"""Streams by Spark's own Kafka source and by ours on three nodes whose leaders die all the time, while a producer writes transactions."""

import json
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaException, Producer

from esp.consumer.cluster import Cluster
from esp.consumer.connection import Terms
from esp.consumer.messages import LATEST, Partition
from esp.consumer.partition_reader import FetchTerms, PartitionReader
from esp.testing.pytest_plugin import AGAINST_KAFKA, ClusterFactory
from tests.integration.cluster.observer import Observer
from tests.integration.conftest import eventually
from tests.integration.sink_runs import address_of
from tests.integration.source_rows import Read
from tests.integration.spark.load_program import CHANGED
from tests.integration.spark.programs import run_program_with_log
from tests.integration.spark.session import HAS_CONNECTOR
from tests.integration.transactions import TIMEOUT_S, serve_transactions, transactional_producer

KILLS = 5
EVERY_S = 5.0
PARTITIONS = 4
VALUES = 40
"""The number of values of a transaction."""
ABORTED_EVERY = 4
FENCED_AFTER_S = 9.0 if AGAINST_KAFKA else 0.0
"""Kafka takes a broker for dead that has sent no heartbeat for so long (``broker.session.timeout.ms``), and nobody leads its partitions
until then. ESP sees that its listeners refuse connections."""
TRIGGER_MOST_S = 20.0 + FENCED_AFTER_S
"""A trigger that takes longer hangs. Most of it is Spark's own work: on two cores with much other work the longest took 15 s, and no
broker of ESP kept a reader waiting for more than 1.5 s."""
LATEST_MOST_S = 5.0 + FENCED_AFTER_S
"""For the part of a trigger that asks for latest offsets, and waits for leaders: 1.3 s at most there."""
WAIT_MOST_S = 5.0 + FENCED_AFTER_S
"""For ends, or for records that are there, without Spark: 1.5 s at most there."""
_PROGRAM_TIMEOUT_S = 240.0
SOURCES = ("kafka", "esp") if HAS_CONNECTOR else ("esp",)
"""Both read at the same time, by one session, so that the leaders are killed once for both."""


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


class Prober:
    """A reader without Spark, which shows how long brokers keep readers waiting.

    Attributes:
        longest_s: the longest wait for the ends of all partitions, or for the records of one.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._servers = [address_of(each) for each in bootstrap.split(",")]
        self._partitions = [Partition(topic, number) for number in range(PARTITIONS)]
        self._is_stopped = threading.Event()
        self.longest_s = 0.0

    def run(self) -> None:
        reached = dict.fromkeys(self._partitions, 0)
        terms = FetchTerms(is_read_committed=True)
        with Cluster(self._servers, Terms()) as cluster:
            while not self._is_stopped.wait(0.1):
                with self._waiting():
                    ends = cluster.find_offsets(dict.fromkeys(self._partitions, LATEST), is_read_committed=True)
                for partition, end in ends.items():
                    reader = PartitionReader(partition, self._servers, None, Terms(), terms, print)
                    with self._waiting(), closing(reader):
                        for _ in reader.read(reached[partition], end.offset):
                            pass
                    reached[partition] = end.offset

    def stop(self) -> None:
        """Read no more."""
        self._is_stopped.set()

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        begun_s = time.monotonic()
        yield
        self.longest_s = max(self.longest_s, time.monotonic() - begun_s)


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


@pytest.mark.timeout(500)
def test_sources_read_on_while_leaders_die(make_cluster: ClusterFactory, topic: str, tmp_path: Path) -> None:
    cluster = make_cluster(settings={"transaction.state.log.num.partitions": "3"})
    if not AGAINST_KAFKA:
        serve_transactions(cluster.bootstrap, cluster.nodes.values())
    observer = Observer(cluster)
    observer.create(topic, PARTITIONS, min_insync_replicas=2)
    writer = Writer(cluster.bootstrap, topic)
    until = tmp_path / "until"
    given = {
        "bootstrap": cluster.bootstrap,
        "topic": topic,
        "directory": tmp_path,
        "until": until,
        "sources": ",".join(SOURCES),
    }
    arguments = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    prober = Prober(cluster.bootstrap, topic)
    with ThreadPoolExecutor(3) as threads:
        writing = threads.submit(writer.run)
        program = threads.submit(
            run_program_with_log, "tests.integration.spark.load_program", arguments, tmp_path, _PROGRAM_TIMEOUT_S
        )
        try:
            second = [tmp_path / source / "checkpoint" / "commits" / "1" for source in SOURCES]
            eventually(lambda: all(path.exists() for path in second) or program.done(), 120)
            probing = threads.submit(prober.run)
            kill_leaders(observer, cluster, topic)
            prober.stop()
            probing.result(120)
        finally:
            prober.stop()
            writer.stop()
            try:
                writing.result(120)
            finally:
                until.touch()
        printed, log = program.result(_PROGRAM_TIMEOUT_S)

    assert [line for line in log.splitlines() if any(words in line for words in CHANGED)] == []
    committed = Read(cluster.bootstrap, subscribe=topic, kafka__isolation__level="read_committed").rows()
    expected = sorted((row.partition, row.offset, (row.value or b"").decode()) for row in committed)
    values = {value for _, _, value in expected}
    assert len(values) == len(expected)
    assert set(writer.committed) <= values
    assert values.isdisjoint(writer.aborted)
    for source, batches in json.loads(printed.splitlines()[-1]).items():
        check_ends(source, [batch["end"][topic] for batch in batches])
        table = pq.read_table(tmp_path / source / "rows", columns=["partition", "offset", "value"])
        found = sorted(zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True))
        assert found == expected, source
        times = [batch["ms"] for batch in batches[1:]]  # the first one loads Spark's classes
        longest = sorted(times, key=lambda ms: ms.get("triggerExecution", 0), reverse=True)[:3]
        sys.stdout.write(
            f"{source}: {len(found):,} rows of {writer.transactions} transactions in {len(batches)} batches, {KILLS} leaders killed; the "
            f"longest triggers took, in milliseconds: {'; '.join(map(str, longest))}\n"
        )
        assert longest[0]["triggerExecution"] < TRIGGER_MOST_S * 1000, source
        assert max(ms.get("latestOffset", 0) for ms in times) < LATEST_MOST_S * 1000, source
    sys.stdout.write(f"without Spark a reader waited for {prober.longest_s:.1f} s at most\n")
    assert prober.longest_s < WAIT_MOST_S


def check_ends(source: str, ends: list[dict[str, int]]) -> None:
    """The latest offsets of batches never go back."""
    reached: dict[str, int] = {}
    for end in ends:
        for partition, offset in end.items():
            assert offset >= reached.get(partition, 0), f"{source}: partition {partition} went back: {end}"
            reached[partition] = offset
