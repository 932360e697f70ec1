"""Whether a run's cluster repairs itself, and after how long it gives up a broker that is away."""

from dataclasses import dataclass
from random import Random
from typing import Final

REPAIRING_SHARE: Final = 0.15
"""Of the clusters of three brokers, whose topics have two copies then."""

REPAIRING_SHARE_OF_LARGER: Final = 0.6
"""Of the clusters of more brokers."""

ABSENCE_MEAN_S: Final = 25.0
"""Between two long absences of a broker."""

ABSENCE_S: Final = (8.0, 45.0)
"""How long they are: for some it is worth giving the broker up, and some end when its replicas are being copied."""


@dataclass(frozen=True, slots=True)
class RepairProfile:
    """``rebalance.mode=apply``."""

    dead_after_ms: int
    """``rebalance.broker.dead.after.ms``."""
    in_flight_max: int
    """``rebalance.partitions.in.flight.max``."""
    bytes_per_s: int
    """``rebalance.bytes.per.second.max``."""
    drains: bool
    """Whether brokers are drained, one at a time."""

    @classmethod
    def draw(cls, rng: Random, brokers: int) -> "RepairProfile | None":
        """A cluster that repairs itself, or None; copies need a broker more than there are of them to go to."""
        share = REPAIRING_SHARE if brokers == 3 else REPAIRING_SHARE_OF_LARGER
        if brokers < 3 or rng.random() >= share:
            return None
        return cls(
            dead_after_ms=rng.randint(10_000, 15_000),
            in_flight_max=rng.choice((2, 3, 5)),
            bytes_per_s=rng.choice((20_000, 50_000, 100_000)),
            drains=rng.random() < 0.6,
        )
