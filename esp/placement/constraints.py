"""The constraints that every state of a cluster on the way of a plan must satisfy, by name, and the form of a violation."""

from dataclasses import dataclass
from enum import Enum


class Constraint(Enum):
    """The constraints that a plan never breaks. The value is the name that people read."""

    KNOWN = "known"
    """Everything named exists (topics, partitions, brokers, a sensible number of replicas), and nothing is named twice."""
    DISTINCT_BROKERS = "distinct-brokers"
    """No two replicas of a partition on one broker, and one replica at least."""
    RACKS_APART = "racks-apart"
    """Replicas of a partition are in as many racks as there are, or as before if that was fewer."""
    BROKER_COUNT = "broker-count"
    """There are as many brokers that may get replicas as a partition shall have."""
    TARGET_ALIVE = "target-alive"
    """Every replica that a partition shall have is on a broker that is alive, and every new one on a broker that is not draining: else the
    move would never end (REASSIGN-2)."""
    SOURCE_ALIVE = "source-alive"
    """A partition that moves has a leader that is alive: otherwise there is no replica to copy from."""
    NOT_MOVING = "not-moving"
    """A partition that moves is not moving already, and moves once."""
    STARTS_FROM_VIEW = "starts-from-view"
    """A move begins with the replicas that the partition has."""
    DISK_LIMIT = "disk-limit"
    """No broker that receives copies holds more than the limit of its disk, at any moment of any step, with both copies of a move."""
    MIN_ISR = "min-isr"
    """Nothing that a plan does takes an in-sync set below the minimum, or makes one smaller that is below it."""
    FIGURES = "figures"
    """The figures of a step are those of its moves."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A constraint that does not hold, and the broker, partition or topic for which it does not."""

    constraint: Constraint
    entry: str
    """The broker, partition or topic in question, as people write it: ``broker 3``, ``orders-7``."""
    reason: str
    """A sentence with the figures."""
    step: int | None = None
    """Position of the step, if it is one's."""

    def __str__(self) -> str:
        where = "" if self.step is None else f" in step {self.step}"
        return f"{self.constraint.value}: {self.entry}{where}: {self.reason}"


def required_racks(before: tuple[str | None, ...], replicas: int, racks: int) -> int:
    """The number of racks that the replicas of a partition must be in after it has moved.

    Args:
        before: the rack of each replica that it has had.
        replicas: the number of replicas that it gets.
        racks: racks that have a broker which may get replicas.
    """
    kept = len(set(before))
    if kept >= min(len(before), racks):
        return min(replicas, racks)
    return min(kept, replicas, racks)
