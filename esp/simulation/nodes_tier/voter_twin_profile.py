"""In which runs a voter's id is told by a second process, and how often (see :mod:`esp.simulation.nodes_tier.voter_twins`)."""

from random import Random
from typing import Final

from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.layout import Layout

SHARE: Final = 0.15
"""The share of the runs with twins of voters, among those with several controllers whose voters stand in the metadata log: static voters
have no disk by which to tell them apart."""

MEAN_S: Final = (6.0, 20.0)
"""Least and most seconds between two second processes, on the average, where they come."""


def draw_voter_twins(rng: Random, layout: Layout) -> dict[FaultKind, float]:
    """The fault with the mean seconds between two of it, in a run that has it."""
    if rng.random() >= SHARE or layout.has_static_voters or len(layout.controllers) == 1:
        return {}
    low, high = MEAN_S
    return {FaultKind.VOTER_TWIN: low * (high / low) ** rng.random()}
