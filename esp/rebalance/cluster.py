"""The admin API, as the tools for moving partitions use it, independent of the client that implements it.

The executor and the commands depend on this protocol alone, so that they work against any cluster that has KIP-455, and against the fake
clusters of tests. No answer is trusted for longer than it takes to act on it: each look at the cluster asks anew.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from esp.model.ids import TopicPartition

LEADER_THROTTLED_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_THROTTLED_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRS_THROTTLED_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_THROTTLED_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED_REPLICAS: Final = "follower.replication.throttled.replicas"

ANY_LOG_DIR: Final = "any"
"""The name in reassignment JSON that lets the broker pick the directory."""


class Broker(NamedTuple):
    """A registered broker. A fenced one is down, or is just starting."""

    node_id: int
    rack: str | None
    fenced: bool
    address: str = ""
    """The broker's address for clients, HOST:PORT."""


class Partition(NamedTuple):
    """A partition as the metadata tells it: its preferred leader first in ``replicas``; ``leader`` is -1 while there is none."""

    replicas: tuple[int, ...]
    isr: frozenset[int]
    leader: int
    offline: frozenset[int] = frozenset()
    """Replicas whose broker is down, or whose log directory has failed."""


class Reassignment(NamedTuple):
    """A partition that is moving. ``replicas`` are all that have it now: its target, then those that will leave (REASSIGN-1)."""

    replicas: tuple[int, ...]
    adding: frozenset[int]
    removing: frozenset[int]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas when the reassignment has ended."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def original(self) -> frozenset[int]:
        """The brokers that had the partition before."""
        return frozenset(self.replicas) - self.adding


class Replica(NamedTuple):
    """A replica: a partition's copy on one broker."""

    partition: TopicPartition
    broker: int

    def __str__(self) -> str:
        return f"{self.partition.topic}-{self.partition.partition}-{self.broker}"


class LogDir(NamedTuple):
    """A log directory of a broker; bytes are -1 where the broker does not tell.

    ``sizes`` are those of the replicas in it; ``future`` those of the copies that will replace one in another directory (KIP-113).
    """

    path: str
    total_bytes: int
    usable_bytes: int
    sizes: Mapping[TopicPartition, int]
    future: Mapping[TopicPartition, int]


class ConfigTarget(NamedTuple):
    """The owner of settings: a topic by its name, a broker by its id, or with ``broker=""`` the default of all brokers."""

    topic: str | None = None
    broker: str | None = None

    def __str__(self) -> str:
        if self.topic is not None:
            return f"topic {self.topic}"
        return f"broker {self.broker}" if self.broker else "all brokers"


ALL_BROKERS: Final = ConfigTarget(broker="")
"""Any broker takes a change of these settings, so they can be set and taken away while some broker is down (KAFKA-10190)."""


class ReassignmentAdmin(Protocol):
    """The admin API. Every method raises :class:`~esp.model.errors.OperatorError` if no broker answers, or the whole request is refused."""

    def cluster_id(self) -> str:
        """The cluster's id."""

    def brokers(self) -> dict[int, Broker]:
        """The registered brokers, by id."""

    def topics(self, names: Iterable[str] | None = None) -> dict[str, dict[int, Partition]]:
        """The partitions of those topics that exist, by topic and number; of all topics without names."""

    def reassignments(self) -> dict[TopicPartition, Reassignment]:
        """The partitions that are moving now, with the change of each."""

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, may_change_replication_factor: bool = True
    ) -> dict[TopicPartition, str]:
        """Move partitions to other replicas, the preferred leader first; None cancels. Returns the refusals, with their reasons."""

    def log_dirs(self, brokers: Iterable[int]) -> dict[int, list[LogDir]]:
        """The log directories that work, of those brokers that answer."""

    def move_replicas(self, directories: Mapping[Replica, str]) -> dict[Replica, str]:
        """Move replicas to other directories of their brokers. Returns the refusals, with their reasons."""

    def min_in_sync_replicas(self, topics: Iterable[str]) -> dict[str, int]:
        """``min.insync.replicas`` as it holds for each of the topics, all of which exist."""

    def settings(self, targets: Iterable[ConfigTarget], names: Collection[str]) -> dict[ConfigTarget, dict[str, str]]:
        """The named settings that the targets have of their own, not by a default or by a file."""

    def change_settings(self, changes: Mapping[ConfigTarget, Mapping[str, str | None]]) -> dict[ConfigTarget, str]:
        """Change settings; None takes one away. Returns the refusals, with their reasons."""

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> None:
        """Let preferred leaders lead where they can; where they do already, or cannot, nothing happens."""

    def metrics_addresses(self, brokers: Iterable[int]) -> dict[int, str]:
        """The metrics addresses, ``host:port``, of the brokers that serve metrics."""
