"""What the tools for moving partitions ask of a cluster and tell it: the admin API as they use it, whatever speaks it.

The executor and the commands know nothing but this protocol, so that they work against any cluster that has KIP-455, and against the fake
ones of tests. No answer is believed for longer than it takes to act on it: each look at the cluster is a new one.
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
"""In reassignment JSON: the broker picks the directory."""


class Broker(NamedTuple):
    """A registered broker. A fenced one is down, or is just starting."""

    node_id: int
    rack: str | None
    fenced: bool
    address: str = ""
    """Where its clients find it, HOST:PORT."""


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
        """What ``replicas`` will be."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def original(self) -> frozenset[int]:
        """Who had it before."""
        return frozenset(self.replicas) - self.adding


class Replica(NamedTuple):
    """One copy of a partition."""

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
    """Whose settings: of a topic by its name, of a broker by its id, or with ``broker=""`` the default of all brokers."""

    topic: str | None = None
    broker: str | None = None

    def __str__(self) -> str:
        if self.topic is not None:
            return f"topic {self.topic}"
        return f"broker {self.broker}" if self.broker else "all brokers"


ALL_BROKERS: Final = ConfigTarget(broker="")
"""Whoever is asked may change it, so it can be set and taken away while any broker is down (KAFKA-10190)."""


class ReassignmentAdmin(Protocol):
    """The admin API. Everything raises :class:`~esp.model.errors.OperatorError` if nobody answers, or refuses as a whole."""

    def cluster_id(self) -> str:
        """The cluster's id."""

    def brokers(self) -> dict[int, Broker]:
        """All registered brokers by id."""

    def topics(self, names: Iterable[str] | None = None) -> dict[str, dict[int, Partition]]:
        """The partitions of those topics that exist, by topic and number; of all topics without names."""

    def reassignments(self) -> dict[TopicPartition, Reassignment]:
        """All partitions that are moving now."""

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, may_change_replication_factor: bool = True
    ) -> dict[TopicPartition, str]:
        """Move partitions to other replicas, the preferred leader first; None cancels. Returns why those were refused that were."""

    def log_dirs(self, brokers: Iterable[int]) -> dict[int, list[LogDir]]:
        """The log directories that work, of those brokers that answer."""

    def move_replicas(self, directories: Mapping[Replica, str]) -> dict[Replica, str]:
        """Move replicas to other directories of their brokers. Returns why those were refused that were."""

    def min_in_sync_replicas(self, topics: Iterable[str]) -> dict[str, int]:
        """``min.insync.replicas`` as it holds for each of the topics, all of which exist."""

    def settings(self, targets: Iterable[ConfigTarget], names: Collection[str]) -> dict[ConfigTarget, dict[str, str]]:
        """Those of the named settings that the targets have of their own, not by a default or by a file."""

    def change_settings(self, changes: Mapping[ConfigTarget, Mapping[str, str | None]]) -> dict[ConfigTarget, str]:
        """Make settings; None takes one away. Returns why those were refused that were."""

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> None:
        """Let preferred leaders lead where they can; where they do already, or cannot, nothing happens."""

    def metrics_addresses(self, brokers: Iterable[int]) -> dict[int, str]:
        """Where those brokers serve metrics that do: ``host:port``."""
