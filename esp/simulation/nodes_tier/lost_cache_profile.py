"""In which runs devices lose with the power what they had said to hold, or a part of it.

See :mod:`esp.simulation.nodes_tier.lost_caches` and :mod:`esp.simulation.nodes_tier.lost_parts`.
"""

from random import Random
from typing import Final

from esp.simulation.nodes_tier.faults import FaultKind

SHARE: Final = 0.2
"""The share of all runs that have such devices."""

PARTS_SHARE: Final = 0.15
"""The share of all runs that have devices that lose a part."""

MEAN_S: Final = (8.0, 60.0)
"""Least and most seconds between two of these losses, on the average."""


PARTS_MEAN_S: Final = (4.0, 30.0)
"""The same of losses of parts."""


def draw_lost_caches(rng: Random) -> dict[FaultKind, float]:
    """The fault with the mean seconds between two of it, in a run that has it."""
    low, high = MEAN_S
    return {FaultKind.LOST_CACHE: low * (high / low) ** rng.random()} if rng.random() < SHARE else {}


def draw_lost_parts(rng: Random) -> dict[FaultKind, float]:
    """As :func:`draw_lost_caches`, of devices that lose a part."""
    low, high = PARTS_MEAN_S
    return {FaultKind.LOST_PART: low * (high / low) ** rng.random()} if rng.random() < PARTS_SHARE else {}
