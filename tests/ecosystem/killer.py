"""Kills the members of a group in turn, each of which starts again, for as long as the programs have work."""

import logging
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Final, Protocol, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata, PartitionMetadata

from esp.testing.cluster import Cluster
from tests.ecosystem.program import Program
from tests.ecosystem.waiting import wait_for

_LOGGER: Final = logging.getLogger(__name__)

DOWN_S: Final = 4.0
"""A killed node stays down for longer than its session, so that its partitions get other leaders."""

WHOLE_TIMEOUT_S: Final = 180


class Victim(Protocol):
    """A process that is killed and comes back."""

    @property
    def name(self) -> str:
        """The name in messages."""

    def kill_and_start(self, stopping: threading.Event) -> None:
        """Kill the process and start it again; a pause between ends early if ``stopping`` is set."""


class ProgramVictim:
    """A program, started again at once."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.name = program.name

    def kill_and_start(self, stopping: threading.Event) -> None:
        self._program.kill()
        self._program.start()


class NodeVictim:
    """A node of a cluster of several, down for a while; the kill is over when all replicas are in sync again."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self._cluster = cluster
        self._number = number
        self.name = f"node {number}"

    def kill_and_start(self, stopping: threading.Event) -> None:
        node = self._cluster.nodes[self._number]
        if (known := _metadata(self._cluster)) is not None:
            _LOGGER.info("%s leads %s", self.name, _led(known, self._number))
        node.kill()
        stopping.wait(DOWN_S)
        node.start()
        wait_for(lambda: _is_whole(self._cluster), WHOLE_TIMEOUT_S, f"all replicas in sync after {self.name}")


def _is_whole(cluster: Cluster) -> bool:
    known = _metadata(cluster)
    return (
        known is not None
        and len(known.brokers) == len(cluster.nodes)
        and all(len(partition.isrs) == len(partition.replicas) for _, partition in _partitions(known))
    )


def _metadata(cluster: Cluster) -> ClusterMetadata | None:
    """Return what a broker knows of the cluster; None if none answers."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "socket.timeout.ms": 5000, "log_level": 0})
    try:
        return admin.list_topics(timeout=5)
    except KafkaException:
        return None


def _partitions(known: ClusterMetadata) -> Iterator[tuple[str, PartitionMetadata]]:
    for name, topic in known.topics.items():
        for partition in topic.partitions.values():
            yield name, partition


def _led(known: ClusterMetadata, number: int) -> dict[str, int]:
    """Return the number of partitions that a node leads: of each internal topic, and of the programs' topics together."""
    led = (name for name, partition in _partitions(known) if partition.leader == number)
    return dict(Counter(name if name.startswith("__") else "partitions of programs" for name in led))


class Killer:
    """Kills in a thread of its own; as a context manager it begins on entry, and on exit all victims have been started again.

    Args:
        victims: in the order of their turns.
        every_s: the pause before each kill.
    """

    def __init__(self, victims: Sequence[Victim], every_s: float) -> None:
        self._victims = victims
        self._every_s = every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failure: Exception | None = None
        self.kills = 0

    def __enter__(self) -> Self:
        if self._victims:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopping.set()
        if self._victims:
            self._thread.join()
        if error is None:
            self.check()

    def has_killed(self, count: int) -> bool:
        """True if there were so many kills, or there is nothing to kill.

        Raises:
            Exception: a victim could not be started again.
        """
        self.check()
        return self.kills >= count or not self._victims

    def check(self) -> None:
        """Raise what ended the killer, if anything did."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._every_s):
                victim = self._victims[self.kills % len(self._victims)]
                self.kills += 1
                _LOGGER.info("kill %d: %s", self.kills, victim.name)
                victim.kill_and_start(self._stopping)
        except Exception as error:
            self._failure = error
