"""In which runs a node's id is claimed by a second process, and how often (see :mod:`esp.simulation.nodes_tier.twins`)."""

from random import Random
from typing import Final

from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.layout import Layout

SHARE: Final = 0.25
"""The share of the runs with twins, among those with nodes that are brokers only."""

MEAN_S: Final = (6.0, 20.0)
"""Least and most seconds between two second processes, on the average, where they come."""


def draw_twins(rng: Random, layout: Layout) -> dict[FaultKind, float]:
    """The fault with the mean seconds between two of it, in a run that has it."""
    if rng.random() >= SHARE or not set(layout.brokers) - set(layout.controllers):
        return {}
    low, high = MEAN_S
    return {FaultKind.TWIN: low * (high / low) ** rng.random()}
