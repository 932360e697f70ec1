"""A query that copies a topic exactly once on a Spark cluster, while everything that it depends on is killed, by a seed."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import NewPartitions

from esp.groups.partitioning import partition_for
from esp.sink.share import group_of, transactional_id_of
from esp.testing.cluster import Cluster
from esp.testing.ports import free_port
from pyspark_jobs.session import KAFKA_CONNECTOR
from tests.integration.cluster.observer import Observer
from tests.integration.conftest import eventually
from tests.integration.spark.programs import ROOT
from tests.integration.spark.session import QUICK_START
from tests.integration.spark.sink_deaths import AFTER_COMMIT, AFTER_SINK, BEFORE_COMMIT, HELD, IN_COMMIT, Orders
from tests.integration.spark.sink_program import ESP, KAFKA, SINK
from tests.integration.spark.standalone import HOST, StandaloneCluster

OFFSETS_PARTITIONS: Final = 3
SETTINGS: Final = {
    "transaction.state.log.num.partitions": str(OFFSETS_PARTITIONS),
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
}
SOURCE_PARTITIONS: Final = 2
TARGET_PARTITIONS: Final = 3
GROWN_PARTITIONS: Final = 5

_ORDERED: Final = (BEFORE_COMMIT, IN_COMMIT, AFTER_COMMIT, AFTER_SINK)
_EXECUTOR: Final = "executor"
_DRIVER: Final = "driver"
_LEADER: Final = "leader"
_COORDINATOR: Final = "coordinator"
KINDS: Final = (*_ORDERED, _EXECUTOR, _DRIVER, _LEADER, _COORDINATOR)

_HELD_EACH: Final = 5
"""In one of so many batches a task is held until its speculative copy runs."""

_FAULT_TIMEOUT_S: Final = 240.0
"""From the last start of the driver on: at a batch with several faults there may be several, of a minute each on a busy machine."""


class Fault(NamedTuple):
    """A fault, and the batch at which it comes."""

    batch: int
    kind: str


def choose_faults(choices: random.Random, kills: int, batches: int) -> list[Fault]:
    """Return faults of all kinds, spread over the batches."""
    kinds: list[str] = []
    while len(kinds) < kills:
        kinds += choices.sample(KINDS, len(KINDS))
    return [Fault(number * batches // kills, kind) for number, kind in enumerate(kinds[:kills])]


class SinkKills:
    """A run.

    Args:
        cluster: three nodes, with topics.
        observer: of the cluster.
        spark: two workers.
        source: the topic to copy.
        target: the topic to write.
        directory: for the checkpoint, the orders and the logs.
        choices: by the seed.
        sink: by which the rows are written, ``esp`` or ``kafka``.
    """

    def __init__(
        self,
        cluster: Cluster,
        observer: Observer,
        spark: StandaloneCluster,
        source: str,
        target: str,
        directory: Path,
        choices: random.Random,
        sink: str = ESP,
    ) -> None:
        self._sink = sink
        self._cluster = cluster
        self._observer = observer
        self._spark = spark
        self._source = source
        self._target = target
        self._directory = directory
        self._choices = choices
        self._driver: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.failures = 0
        """Ends of the query by an error, after each of which it is started again."""
        (directory / "orders").mkdir()
        self._orders = Orders(str(directory / "orders"))

    @property
    def copies(self) -> int:
        """The number of speculative copies that ran beside their task."""
        return self._orders.copies()

    def run(self, rows_of_a_batch: int, batches: int, faults: Sequence[Fault]) -> Counter[str]:
        """Run the query to its end; return the kills by their kinds."""
        done: Counter[str] = Counter()
        starts_most = 3 * len(faults) + 3
        try:
            for batch in range(batches):
                now = [fault.kind for fault in faults if fault.batch == batch]
                ordered = [kind for kind in now if kind in _ORDERED]
                if self._sink == ESP and batch % _HELD_EACH == 1:
                    self._orders.place(HELD)
                for kind in ordered:
                    self._orders.place(kind)
                self._orders.allow(batch)
                self._keep(lambda batch=batch: self._orders.begun() >= batch, rows_of_a_batch, starts_most)
                self._keep(lambda: not self._orders.is_held, rows_of_a_batch, starts_most)
                for kind in now:
                    if kind == _EXECUTOR:
                        self._pause()
                        # without a driver, which another fault of this batch may have killed, there is no executor
                        self._keep(self._kill_executor, rows_of_a_batch, starts_most)
                    elif kind not in _ORDERED:
                        self._strike(kind)
                self._keep(
                    lambda ordered=ordered: not any(map(self._orders.is_there, ordered)), rows_of_a_batch, starts_most
                )
                if batch == batches // 2:
                    self._grow()
                done.update(now)
            self._orders.allow(sys.maxsize)
            self._keep(lambda: self._driver is not None and self._driver.poll() == 0, rows_of_a_batch, starts_most)
        finally:
            self._kill_driver()
        return done

    def _keep(self, is_over: Callable[[], bool], rows_of_a_batch: int, starts_most: int) -> None:
        """Start the query whenever it has ended, until something is over."""
        deadline = time.monotonic() + _FAULT_TIMEOUT_S
        while True:
            ended = None if self._driver is None else self._driver.poll()
            if self._driver is None or ended not in (None, 0):
                assert self.starts < starts_most, self._log()
                self.failures += ended not in (None, -signal.SIGKILL)
                self._start_driver(rows_of_a_batch)
                deadline = time.monotonic() + _FAULT_TIMEOUT_S
            if is_over():
                return
            assert time.monotonic() < deadline, self._log()
            assert self._driver is None or self._driver.poll() != 0, "the query has ended before all faults came"
            time.sleep(0.05)

    def _strike(self, kind: str) -> None:
        self._pause()
        if kind == _DRIVER:
            self._kill_driver()
        else:
            self._kill_node(self._leader() if kind == _LEADER else self._coordinator())

    def _leader(self) -> int:
        return self._observer.leader(self._target, self._choices.randrange(TARGET_PARTITIONS))

    def _coordinator(self) -> int:
        """The coordinator of the sink's group, or of one of its transactional ids."""
        if self._choices.random() < 0.5:
            return self._observer.leader("__consumer_offsets", partition_for(group_of(SINK), OFFSETS_PARTITIONS))
        name = transactional_id_of(SINK, self._target, self._choices.randrange(TARGET_PARTITIONS))
        return self._observer.leader("__transaction_state", partition_for(name, OFFSETS_PARTITIONS))

    def _pause(self) -> None:
        """Wait until somewhere within the batch."""
        time.sleep(self._choices.random() * 1.5)

    def _kill_executor(self) -> bool:
        """Kill an executor; return whether there was one. All of them end with their driver, at any moment."""
        executors = self._spark.executors()
        try:
            os.kill(self._choices.choice(executors), signal.SIGKILL)
        except (IndexError, ProcessLookupError):
            return False
        return True

    def _kill_node(self, number: int) -> None:
        topics = (self._source, self._target, "__consumer_offsets", "__transaction_state")
        self._cluster.nodes[number].kill()
        for topic in topics:
            for partition in self._observer.partitions(topic):
                self._observer.wait_for_leader_other_than(number, topic, partition)
        self._cluster.nodes[number].start()
        for topic in topics:
            self._observer.wait_until_whole(topic, 60)

    def _grow(self) -> None:
        [grown] = self._observer.admin.create_partitions([NewPartitions(self._target, GROWN_PARTITIONS)]).values()
        grown.result()
        eventually(lambda: len(self._observer.partitions(self._target)) == GROWN_PARTITIONS, 60)
        self._observer.wait_until_whole(self._target, 60)

    def _start_driver(self, rows_of_a_batch: int) -> None:
        self.starts += 1
        settings = {
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.driver.port": str(free_port()),
            "spark.blockManager.port": str(free_port()),
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": f"{QUICK_START} -Djava.io.tmpdir={self._directory}",
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            "spark.local.dir": str(self._directory / "scratch"),
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.multiplier": "1.2",
            "spark.sql.shuffle.partitions": "2",
            "spark.task.maxFailures": "20",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            **({"spark.jars.packages": KAFKA_CONNECTOR} if self._sink == KAFKA else {}),
        }
        command = [
            *(sys.executable, "-m", "tests.integration.spark.sink_program", "--master", self._spark.master),
            *("--bootstrap", self._cluster.bootstrap, "--source", self._source, "--target", self._target),
            *("--checkpoint", str(self._directory / "checkpoint"), "--orders", self._orders.directory),
            *("--rows-of-a-batch", str(rows_of_a_batch), "--sink", self._sink),
            *(f"--conf={name}={value}" for name, value in settings.items()),
        ]
        environment = {
            **os.environ,
            "TMPDIR": str(self._directory),
            "JAVA_TOOL_OPTIONS": QUICK_START,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        with open(self._directory / "driver.log", "ab") as log:
            self._driver = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=environment,
                start_new_session=True,
            )

    def _kill_driver(self) -> None:
        """Kill the driver's Python and its JVM."""
        if self._driver is not None and self._driver.poll() is None:
            os.killpg(self._driver.pid, signal.SIGKILL)
            self._driver.wait()

    def _log(self) -> str:
        return (self._directory / "driver.log").read_text(errors="replace")[-10_000:]
