"""A cluster's repair of itself, if it has one: the time after which a broker that is away is given up, and the rate of copies."""

from dataclasses import dataclass
from random import Random
from typing import Final

REPAIRING_SHARE: Final = 0.15
"""The share of the clusters of three brokers, whose topics have two copies then, that repair themselves."""

REPAIRING_SHARE_OF_LARGER: Final = 0.6
"""The share of the clusters of more brokers that repair themselves."""

ABSENCE_MEAN_S: Final = 25.0
"""Between two long absences of a broker."""

ABSENCE_S: Final = (8.0, 45.0)
"""Their length: for some it is worth giving the broker up, and some end when its replicas are being copied."""

HELD_BACK_SHARE: Final = 0.4
"""The share of the clusters that repair themselves in which copies are held back: see :attr:`RepairProfile.held_back_bytes_per_s`."""

HELD_BACK_RATES: Final = (0, 500, 2_000)
"""Bytes per second: of a copy that has some tens of thousands of them, nothing or a part."""

HELD_BACK_ABSENCE_MEAN_S: Final = 15.0
"""Between two long absences then: the more of the copies are being made when brokers are back."""

HELD_BACK_RARITY: Final = 4
"""The factor by which other faults are rarer then: what a controller has begun is withdrawn in its own term only."""

PATIENT_SHARE: Final = 0.6
"""The share of the clusters that repair themselves whose movers of partitions wait: see :attr:`RepairProfile.movers_wait`."""


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
    """True if brokers are drained, one at a time."""
    held_back_bytes_per_s: int | None = None
    """The rate of copies as long as faults come, if so low that a broker which is back finds copies of it incomplete (REPAIR-3)."""
    movers_wait: bool = False
    """True if administrators that move partitions leave alone those that wait for a broker that is away or drains (REPAIR-5)."""

    @property
    def absence_mean_s(self) -> float:
        """Between two long absences of a broker."""
        return ABSENCE_MEAN_S if self.held_back_bytes_per_s is None else HELD_BACK_ABSENCE_MEAN_S

    @property
    def other_faults_rarity(self) -> int:
        """The factor by which all other faults are rarer than elsewhere."""
        return 1 if self.held_back_bytes_per_s is None else HELD_BACK_RARITY

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
            held_back_bytes_per_s=rng.choice(HELD_BACK_RATES) if rng.random() < HELD_BACK_SHARE else None,
            movers_wait=rng.random() < PATIENT_SHARE,
        )
