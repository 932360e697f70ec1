"""In which runs devices lose with the power what they had said to hold (see :mod:`esp.simulation.nodes_tier.lost_caches`)."""

from random import Random
from typing import Final

from esp.simulation.nodes_tier.faults import FaultKind

SHARE: Final = 0.2
"""Of all runs: such devices are there."""

MEAN_S: Final = (8.0, 60.0)
"""Least and most seconds between two of these losses, on the average."""


def draw_lost_caches(rng: Random) -> dict[FaultKind, float]:
    """The fault with the mean seconds between two of it, in a run that has it."""
    low, high = MEAN_S
    return {FaultKind.LOST_CACHE: low * (high / low) ** rng.random()} if rng.random() < SHARE else {}
