"""The parts of plans: moves, the steps that hold them, and figures of their cost. Values only."""

from dataclasses import dataclass

from esp.model.ids import NodeId, TopicPartition
from esp.placement.estimate import Duration
from esp.placement.links import LinkBytes


@dataclass(frozen=True, slots=True)
class Move:
    """A change of a partition's replicas; the same ones in another order copy nothing, and name another preferred leader."""

    topic: str
    partition: int
    before: tuple[NodeId, ...]
    after: tuple[NodeId, ...]
    source: NodeId
    """The leader, which is copied from."""
    replica_bytes: int
    """The size of one replica."""

    @property
    def name(self) -> TopicPartition:
        """Topic and number."""
        return TopicPartition(self.topic, self.partition)

    @property
    def adding(self) -> tuple[NodeId, ...]:
        """The brokers that get a copy."""
        return tuple(node for node in self.after if node not in self.before)

    @property
    def removing(self) -> tuple[NodeId, ...]:
        """The brokers whose copy is deleted at the end."""
        return tuple(node for node in self.before if node not in self.after)

    @property
    def copied_bytes(self) -> int:
        """The bytes copied by the move."""
        return self.replica_bytes * len(self.adding)

    def inverse(self) -> "Move":
        """The move that takes this one back, copied from the broker that leads then if it is the preferred one."""
        return Move(self.topic, self.partition, self.after, self.before, self.after[0], self.replica_bytes)


@dataclass(frozen=True, slots=True)
class DiskBytes:
    """The effect of a step on a broker's disk."""

    broker_id: NodeId
    written_bytes: int
    freed_bytes: int
    """Bytes that are free again when the step has ended."""
    peak_bytes: int
    """The most that the disk may hold while the step runs, together with the steps before it that may still run."""


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """The load of a broker from the partitions that a plan concerns."""

    broker_id: NodeId
    size_bytes: int
    replicas: int
    leaders: int
    """Partitions of which it is the preferred leader."""


@dataclass(frozen=True, slots=True)
class Imbalance:
    """The most that a broker has, as a multiple of the mean; 1 is perfectly even. Of the brokers that may get replicas."""

    size_bytes: float
    replicas: float
    leaders: float


@dataclass(frozen=True, slots=True)
class Step:
    """Moves that begin together."""

    moves: tuple[Move, ...]
    waits_for: tuple[int, ...]
    """Positions of the earlier steps that must have ended, because this one needs the room on disk that they free."""
    links: tuple[LinkBytes, ...]
    disks: tuple[DiskBytes, ...]
    duration: Duration
    imbalance_after: Imbalance

    @property
    def copied_bytes(self) -> int:
        """The bytes copied by the step."""
        return sum(link.size_bytes for link in self.links)
