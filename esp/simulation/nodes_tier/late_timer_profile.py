"""In which runs the timer of the brokers' sessions is late, again and again (see :mod:`esp.simulation.nodes_tier.late_timers`)."""

from random import Random
from typing import Final

from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.layout import Layout

SHARE: Final = 0.08
"""The share of the runs with late timers, among those in which a broker can be silent while a controller on another node goes on."""

MEAN_S: Final = 6.0
"""Mean seconds between two of these faults, of which one lasts longer than most runs have left."""

RARITY: Final = 8.0
"""The factor by which the other faults are rarer in such a run: the same controller has to stay active, and the broker silent."""

CHAOS_S: Final = 55.0
"""Least seconds for which faults come in such a run."""


def has_late_timers(rng: Random, layout: Layout) -> bool:
    """True if a run has them."""
    return rng.random() < SHARE and len(layout.nodes) > 1


def with_late_timers(means_s: dict[FaultKind, float]) -> dict[FaultKind, float]:
    """The faults of such a run, with the mean seconds between two of a kind."""
    return {**{kind: mean_s * RARITY for kind, mean_s in means_s.items()}, FaultKind.LATE_TIMER: MEAN_S}
