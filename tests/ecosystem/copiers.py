"""Clients of four families that copy a topic in transactions, side by side, killed in turn: consume, transform, produce.

First each has a partition and a group of its own, the pattern of before KIP-447; then those that tell coordinators which member of their
group they are share one. A history checker compares the copies with what was sent.
"""

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from esp.simulation.checkers.client_history import Read, check
from esp.testing.cluster import Cluster
from tests.ecosystem.clients import MESSAGE_TIMEOUT_MS, QUICK_RECONNECT, CommittedReader, create_topic
from tests.ecosystem.copier import FAMILIES, STALLED_STATUS
from tests.ecosystem.killer import Killer
from tests.ecosystem.program import Program
from tests.ecosystem.stage import KILLS_GRACE_S, Outcome, Stage
from tests.ecosystem.waiting import TooLateError, wait_for
from tests.integration.load import Load, read_everything

_LOGGER: Final = logging.getLogger(__name__)

JAVA: Final = "java"
JAVA_CLASS: Final = "org.apache.kafka.tools.TransactionalMessageCopier"
ALL_FAMILIES: Final = (JAVA, *FAMILIES)
MEMBERS: Final = (JAVA, "librdkafka", "kafka-python")
"""The families whose offsets carry the member and its generation."""

STALLING: Final = "kafka-python"
"""The family that may stall: its call that sends offsets waits for ever if the coordinator dies before it answers (3.0.12)."""

PARTITIONS: Final = len(ALL_FAMILIES)
PAUSE_S: Final = 0.05
"""Between ten records of the load."""

KILL_EVERY_S: Final = 12.0
"""Longer than the session of a member that was killed, for which its group waits."""

STARTS_EVERY_S: Final = 6.0
"""Kafka's own copier ends when it has copied all that was there when it started, and is not started again at once."""

JAVA_TRANSACTION_TIMEOUT_MS: Final = 20_000
"""It asks for its offset, and gives up after a minute, before it ends the transaction of its last process, which hides the offset."""

FIRST_COPIES_TIMEOUT_S: Final = 120
CATCH_UP_TIMEOUT_S: Final = 300


class Copier:
    """A copier that is started again whenever it has ended; a victim of the killer.

    Args:
        program: not started yet.
        every_s: the least time between two starts that no kill explains.
    """

    def __init__(self, program: Program, every_s: float = STARTS_EVERY_S) -> None:
        self.name = program.name
        self.failures = 0
        """The number of times that it ended with an error."""
        self.stalls = 0
        """The number of those after which its client had stalled."""
        self._program = program
        self._every_s = every_s
        self._lock = threading.Lock()
        self._started_s = 0.0
        self._is_stopped = False

    def kill_and_start(self, stopping: threading.Event) -> None:
        with self._lock:
            if self._program.is_running:
                self._program.kill()
            self._start()

    def keep(self) -> None:
        """Start the copier if it does not run."""
        with self._lock:
            if self._program.is_running or time.monotonic() - self._started_s < self._every_s:
                return
            if not self._is_stopped and self._program.exit_status not in (None, 0):
                self.failures += 1
                _LOGGER.info("%s ended with status %s", self.name, self._program.exit_status)
                self.stalls += self._program.exit_status == STALLED_STATUS
            self._start()

    def _start(self) -> None:
        self._started_s = time.monotonic()
        self._is_stopped = False
        self._program.start()

    def stop(self) -> None:
        """End the copier; :meth:`keep` starts it again."""
        with self._lock:
            self._is_stopped = True
            self._program.kill()


def run(stage: Stage) -> Iterator[Outcome]:
    """Copy a topic in each of the two ways, and judge the copies."""
    for name, title, shared in (("owned", "a partition each", False), ("shared", "one group", True)):
        with CopiedTopic(stage, name, shared=shared) as copied:
            kills_wanted = max(stage.kills, len(copied.copiers))
            with stage.node_kills() as nodes, Killer(copied.copiers, KILL_EVERY_S) as killer:
                wait_for(
                    lambda nodes=nodes, killer=killer, copied=copied, kills_wanted=kills_wanted: (  # type: ignore[misc]
                        copied.has_copied(0)
                        and nodes.has_killed(stage.node_kills_wanted)
                        and killer.has_killed(kills_wanted)
                    ),
                    KILL_EVERY_S * kills_wanted * 4 + KILLS_GRACE_S,
                    "all kills",
                )
            copied.finish()
        violations = copied.judge()
        violations += [
            f"{one.name} stalled {one.stalls} times"
            for one in copied.copiers
            if one.stalls and not one.name.endswith(STALLING)
        ]
        if not stage.kill_nodes:
            violations += [f"{one.name} failed {one.failures} times" for one in copied.copiers if one.failures]
        yield Outcome(f"copiers: {title}", killer.kills + nodes.kills, len(copied.copies), violations)


class CopiedTopic:
    """A topic under load and the copiers that copy it; as a context manager both run from the first copies on.

    Args:
        stage: with the cluster.
        name: of the topic, and the beginning of the names of groups and transactional ids.
        shared: True if the copiers are members of one group, False if each has a partition and a group of its own.
    """

    def __init__(self, stage: Stage, name: str, *, shared: bool = False) -> None:
        families: dict[str, int | None] = {family: partition for partition, family in enumerate(ALL_FAMILIES)}
        if shared:
            families = dict.fromkeys(MEMBERS)
        self.copies: list[Read] = []
        """All copies, once the load has ended and is copied."""
        self._cluster = stage.cluster
        self._source = name
        bootstrap = stage.cluster.bootstrap
        for topic in (name, f"{name}-copies"):
            create_topic(bootstrap, topic, PARTITIONS, stage.replication_factor)
        self._groups: dict[str, list[int]] = {name: list(range(PARTITIONS))} if shared else {}
        self.copiers: list[Copier] = []
        for family, partition in families.items():
            group = name if partition is None else f"{name}-{family}"
            if partition is not None:
                self._groups[group] = [partition]
            self.copiers.append(_copier(stage, family, f"{name}-{family}", group, name, partition))
        self._load = Load(
            stage.cluster, name, pause_s=PAUSE_S, message_timeout_ms=MESSAGE_TIMEOUT_MS, socket_timeout_ms=10_000
        )
        self._reader = CommittedReader(bootstrap, f"{name}-copies")
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._reader)
            stack.callback(self.stop_copiers)
            stack.enter_context(self._load)
            wait_for(lambda: self.has_copied(100), FIRST_COPIES_TIMEOUT_S, "the first copies")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def has_copied(self, count: int) -> bool:
        """Start the copiers that have ended; True if there are so many copies."""
        for copier in self.copiers:
            copier.keep()
        return self._reader.has(lambda records: len(records) >= count)

    def wait_for_more(self, count: int, timeout_s: float) -> None:
        """Wait until there are so many more copies."""
        wanted = len(self._reader.records) + count
        wait_for(lambda: self.has_copied(wanted), timeout_s, f"{count} more copies")

    def stop_copiers(self) -> None:
        """Kill the copiers; the next call of :meth:`has_copied` starts them again."""
        for copier in self.copiers:
            copier.stop()

    def finish(self) -> None:
        """End the load, and wait until all of it is copied and committed; what is missing then, the judgement says."""
        self._load.finish()
        _LOGGER.info("%d records are sent, %d copied so far", len(self._load.sent), len(self._reader.records))
        with contextlib.suppress(TooLateError):
            wait_for(lambda: self.has_copied(self._load.acked), CATCH_UP_TIMEOUT_S, "all copies")
            ends = _end_offsets(self._cluster, self._source)
            wait_for(lambda: self.has_copied(0) and self._commits() == ends, CATCH_UP_TIMEOUT_S, f"commits of {ends}")
        self.stop_copiers()
        self.copies = [
            Read(record.partition, record.offset, (record.key or b"").decode(), int(record.value))
            for record in self._reader.records
        ]

    def judge(self) -> list[str]:
        """Return the anomalies of the topic and of its copies, and the groups' offsets if they are not the partitions' ends.

        The copies are judged as a reader saw them meanwhile, and as they are read now from start to end.
        """
        sent = self._load.sent
        violations = check(sent, read_everything(self._cluster, self._source))
        copied = [one._replace(partition=None, offset=None) for one in sent]
        for copies in (self.copies, read_everything(self._cluster, f"{self._source}-copies")):
            violations += check(copied, copies)
        ends, commits = _end_offsets(self._cluster, self._source), self._commits()
        if commits != ends:
            violations.append(f"the groups committed {commits}, the partitions end at {ends}")
        return violations

    def _commits(self) -> dict[int, int]:
        return _committed(self._cluster, self._source, self._groups)


def _copier(stage: Stage, family: str, transactional_id: str, group: str, source: str, partition: int | None) -> Copier:
    target = f"{source}-copies"
    if family != JAVA:
        arguments = [family, stage.cluster.bootstrap, transactional_id, group, source, target]
        if partition is not None:
            arguments.append(str(partition))
        return Copier(stage.module("tests.ecosystem.copier", arguments, transactional_id))
    options = {
        "--broker-list": stage.cluster.bootstrap,
        "--transactional-id": transactional_id,
        "--consumer-group": group,
        "--input-topic": source,
        "--input-partition": str(partition or 0),
        "--output-topic": target,
        "--transaction-size": "50",
        "--transaction-timeout": str(JAVA_TRANSACTION_TIMEOUT_MS),
    }
    flags = ["--enable-random-aborts", "--use-group-metadata", *(["--group-mode"] if partition is None else [])]
    return Copier(stage.tool(JAVA_CLASS, [*itertools.chain(*options.items()), *flags], transactional_id))


def _end_offsets(cluster: Cluster, topic: str) -> dict[int, int]:
    with _consumer(cluster, "unused") as consumer:
        return {
            partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), 30)[1]
            for partition in range(PARTITIONS)
        }


def _committed(cluster: Cluster, topic: str, groups: Mapping[str, Sequence[int]]) -> dict[int, int]:
    """Return the offsets that the groups have committed for the partitions; -1 where the coordinator does not answer."""
    found = {}
    for group, partitions in groups.items():
        asked = [TopicPartition(topic, partition) for partition in partitions]
        with _consumer(cluster, group) as consumer:
            try:
                found |= {answer.partition: answer.offset for answer in consumer.committed(asked, 10)}
            except KafkaException:
                found |= dict.fromkeys(partitions, -1)
    return found


@contextlib.contextmanager
def _consumer(cluster: Cluster, group: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            **QUICK_RECONNECT,
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()
