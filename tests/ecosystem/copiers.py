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
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from esp.simulation.checkers.client_history import Read, check
from esp.testing.cluster import Cluster
from tests.ecosystem.clients import MESSAGE_TIMEOUT_MS, QUICK_RECONNECT, CommittedReader, create_topic
from tests.ecosystem.copier import FAMILIES
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

PARTITIONS: Final = len(ALL_FAMILIES)
PAUSE_S: Final = 0.05
"""Between ten records of the load."""

KILL_EVERY_S: Final = 12.0
"""Longer than the session of a member that was killed, for which its group waits."""

STARTS_EVERY_S: Final = 6.0
"""Kafka's own copier ends when it has copied all that was there when it started, and is not started again at once."""

FIRST_COPIES_TIMEOUT_S: Final = 120
CATCH_UP_TIMEOUT_S: Final = 300
_TITLES: Final = {"owned": "a partition each", "shared": "one group"}


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
        self._program = program
        self._every_s = every_s
        self._lock = threading.Lock()
        self._started_s = 0.0

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
            if self._program.exit_status not in (None, 0):
                self.failures += 1
                _LOGGER.info("%s ended with status %s", self.name, self._program.exit_status)
            self._start()

    def _start(self) -> None:
        self._started_s = time.monotonic()
        self._program.start()

    def stop(self) -> None:
        """End it."""
        with self._lock:
            self._program.kill()


def run(stage: Stage) -> Iterator[Outcome]:
    """Copy a topic in each of the two ways, and judge the copies."""
    yield from _round(stage, "owned", {family: partition for partition, family in enumerate(ALL_FAMILIES)})
    yield from _round(stage, "shared", dict.fromkeys(MEMBERS))


def _round(stage: Stage, name: str, families: Mapping[str, int | None]) -> Iterator[Outcome]:
    """Let families copy a topic, each a partition of its own, or in one group."""
    source, target = name, f"{name}-copies"
    for topic in (source, target):
        create_topic(stage.cluster.bootstrap, topic, PARTITIONS, stage.replication_factor)
    groups = {f"{name}-{family}": [partition] for family, partition in families.items() if partition is not None}
    groups = groups or {name: list(range(PARTITIONS))}
    copiers = [
        _copier(stage, family, f"{name}-{family}", name if partition is None else f"{name}-{family}", source, partition)
        for family, partition in families.items()
    ]
    load = Load(stage.cluster, source, pause_s=PAUSE_S, message_timeout_ms=MESSAGE_TIMEOUT_MS, socket_timeout_ms=10_000)
    with CommittedReader(stage.cluster.bootstrap, target) as reader:

        def has_copied(count: int) -> bool:
            for copier in copiers:
                copier.keep()
            return reader.has(lambda records: len(records) >= count)

        with load:
            wait_for(lambda: has_copied(100), FIRST_COPIES_TIMEOUT_S, "the first copies")
            with stage.node_kills() as nodes, Killer(copiers, KILL_EVERY_S) as killer:
                wait_for(
                    lambda: (
                        has_copied(0)
                        and nodes.has_killed(stage.node_kills_wanted)
                        and killer.has_killed(max(stage.kills, len(copiers)))
                    ),
                    KILL_EVERY_S * max(stage.kills, len(copiers)) * 4 + KILLS_GRACE_S,
                    "all kills",
                )
            load.finish()
        _LOGGER.info("%d records are sent, %d copied so far", len(load.sent), len(reader.records))
        with contextlib.suppress(TooLateError):
            wait_for(lambda: has_copied(load.acked), CATCH_UP_TIMEOUT_S, "all copies")
            ends = _end_offsets(stage.cluster, source)
            wait_for(
                lambda: has_copied(0) and _committed(stage.cluster, source, groups) == ends,
                CATCH_UP_TIMEOUT_S,
                f"commits up to {ends}",
            )
        for copier in copiers:
            copier.stop()
        copies = [Read(r.partition, r.offset, (r.key or b"").decode(), int(r.value)) for r in reader.records]
    violations = check(load.sent, read_everything(stage.cluster, source))
    violations += check([one._replace(partition=None, offset=None) for one in load.sent], copies)
    ends, commits = _end_offsets(stage.cluster, source), _committed(stage.cluster, source, groups)
    if commits != ends:
        violations.append(f"the groups committed {commits}, the partitions end at {ends}")
    if not stage.kill_nodes:
        violations += [f"{copier.name} failed {copier.failures} times" for copier in copiers if copier.failures]
    yield Outcome(f"copiers: {_TITLES[name]}", killer.kills + nodes.kills, len(copies), violations)


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
        "--transaction-timeout": "120000",
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
