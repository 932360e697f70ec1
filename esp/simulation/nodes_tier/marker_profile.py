"""Runs in which nodes do not believe the running marker (``running.marker.enable=false``).

There an old copy of the life that has just ended may come back in the very same files, and must be told from what the process left. The end
of a process counts as an unclean stop, as in Kafka; so it counts for what else may be lost, too.
"""

from collections.abc import Mapping
from random import Random
from typing import Final

from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.layout import Layout

SHARE: Final = 0.15
"""The share of all runs in which nodes do not believe markers."""

MEAN_S: Final = (6.0, 30.0)
"""Least and most seconds between two old copies there, on the average."""

RARITY: Final = 3.0
"""The factor by which the other faults are rarer, but for absences of brokers from clusters that repair themselves, which are about them.

A process that ended keeps others from losing anything until the cluster is whole.
"""


def believes_markers(rng: Random) -> bool:
    """False if the nodes of a run do not."""
    return rng.random() >= SHARE


def with_copies_of_last_lives(
    rng: Random, layout: Layout, means_s: Mapping[FaultKind, float]
) -> dict[FaultKind, float]:
    """The faults of a run whose nodes do not believe markers, with the mean seconds between two of a kind."""
    if len(layout.brokers) == 1:
        return {**means_s}
    low, high = MEAN_S
    rarer = {kind: mean_s if kind is FaultKind.ABSENCE else mean_s * RARITY for kind, mean_s in means_s.items()}
    return {**rarer, FaultKind.OLD_DISK: low * (high / low) ** rng.random()}
