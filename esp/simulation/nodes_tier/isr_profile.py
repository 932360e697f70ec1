"""The lag time after which a replica leaves the in-sync sets of a run, and changes of the minimum of in-sync replicas."""

from dataclasses import dataclass
from random import Random
from typing import Final

HASTY_SHARE: Final = 0.4
"""The share of the clusters of several brokers that have a short ``replica.lag.time.max.ms``."""

LAG_TIMES_MS: Final = (500, 1_000, 3_000)

CHANGING_SHARE: Final = 0.4
"""The share of the clusters of several brokers in which a client raises and lowers ``min.insync.replicas`` of topics, and mostly of all."""


@dataclass(frozen=True, slots=True)
class IsrProfile:
    """See the fields."""

    lag_time_max_ms: int | None = None
    """``replica.lag.time.max.ms``, if it is not the usual one."""
    changes_minimums: bool = False
    """True if ``min.insync.replicas`` is changed."""
    by_default: bool = False
    """True if topics whose minimum is that of all brokers have none of their own, and that of all is changed."""
    default_minimum: int | None = None
    """``min.insync.replicas`` of all brokers at the beginning, if it is not as elsewhere."""

    @classmethod
    def draw(cls, rng: Random, brokers: int) -> "IsrProfile":
        """Return the profile of a cluster of so many brokers."""
        lag_time_max_ms = rng.choice(LAG_TIMES_MS) if rng.random() < HASTY_SHARE else None
        changes = rng.random() < CHANGING_SHARE
        by_default = rng.random() < 0.6
        return cls(lag_time_max_ms, changes, changes and by_default) if brokers > 1 else USUAL_ISR


USUAL_ISR: Final = IsrProfile()
"""The profile of a single broker, and of most clusters."""
