"""The rate of faults that take more than is promised to survive, if any (see :mod:`esp.simulation.nodes_tier.beyond_promise`)."""

from random import Random
from typing import Final

from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.layout import Layout

SHARE: Final = 0.15
"""The share of the runs with several brokers whose faults go beyond the promise."""

BLACKOUT_S: Final = (10.0, 40.0)
"""Mean seconds between two blackouts, in such a run."""

LOSE_COPIES_S: Final = (15.0, 60.0)
"""Mean seconds between two losses of all complete copies of a partition, where brokers have disks of their own."""


def draw_losses(rng: Random, layout: Layout) -> dict[FaultKind, float]:
    """The faults of a run that go beyond the promise, with the mean seconds between two of a kind; none if it keeps within the promise."""
    if rng.random() >= SHARE or len(layout.brokers) == 1:
        return {}
    means_s = {FaultKind.BLACKOUT: rng.uniform(*BLACKOUT_S)}
    if not set(layout.brokers) & set(layout.controllers):
        means_s[FaultKind.LOSE_COPIES] = rng.uniform(*LOSE_COPIES_S)
    return means_s
