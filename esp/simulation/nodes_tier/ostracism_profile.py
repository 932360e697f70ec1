"""Runs in which a leader is cut off from all other nodes for long, but not from clients, and is asked all the while (BRK-9)."""

from random import Random
from typing import Final

from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.layout import Layout

SHARE: Final = 0.15
"""The share of the runs with long ostracisms, of those with three nodes or more in which a client asks brokers for offsets."""

SECONDS: Final = (28.0, 45.0)
"""Least and most seconds of a cut: a session, then the time for which the leader may not know of its replacement, and more."""

MEAN_S: Final = 4.0
"""Mean seconds until the next cut when one is over."""

RARITY: Final = 4.0
"""The factor by which the other faults are rarer: they would end the leader's process, or leave no other replica that could lead."""

CHAOS_S: Final = 60.0
"""Least seconds for which faults come in such a run."""


def has_long_ostracisms(rng: Random, layout: Layout) -> bool:
    """True if a run in which offsets are asked for has them."""
    return rng.random() < SHARE and len(layout.nodes) > 2


def with_long_ostracisms(means_s: dict[FaultKind, float]) -> dict[FaultKind, float]:
    """The faults of such a run, with the mean seconds between two of a kind."""
    return {**{kind: mean_s * RARITY for kind, mean_s in means_s.items()}, FaultKind.LONG_OSTRACISM: MEAN_S}
