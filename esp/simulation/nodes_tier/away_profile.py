"""In which runs log directories go away and come back (see :mod:`esp.simulation.nodes_tier.away_directories`)."""

from random import Random
from typing import Final

from esp.simulation.nodes_tier.faults import FaultKind

SHARE: Final = 0.6
"""The share of the runs with several brokers that have a second log directory in which one goes away at times."""

MEAN_S: Final = (3.0, 30.0)
"""Least and most seconds between two of these faults, on the average: most of them are left out, as the node has lost something lately."""


def draw_absent_directories(rng: Random) -> dict[FaultKind, float]:
    """The fault with the mean seconds between two of it, in a run that has it."""
    low, high = MEAN_S
    return {FaultKind.LOG_DIR_AWAY: low * (high / low) ** rng.random()} if rng.random() < SHARE else {}
