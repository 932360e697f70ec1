"""Whether a run's faults take more than is promised to survive, and how often (see :mod:`esp.simulation.beyond_promise`)."""

from random import Random
from typing import Final

SHARE: Final = 0.15
"""Of the runs with several brokers."""

MEAN_S: Final = (10.0, 40.0)
"""Between two blackouts, in such a run."""


def draw_blackouts(rng: Random, brokers: int) -> float | None:
    """The mean seconds between two blackouts of a run, or None if it keeps within the promise."""
    return rng.uniform(*MEAN_S) if rng.random() < SHARE and brokers > 1 else None
