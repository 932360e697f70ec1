"""The nodes that are away for minutes in a run, the manner, and the time (:mod:`esp.simulation.nodes_tier.outage`)."""

from dataclasses import dataclass
from random import Random
from typing import Final

SHARE: Final = 0.04
"""The share of the runs with an outage, which costs as much as several runs."""

_LEAST_S: Final = 40.0

_MOST_OF_SOME_S: Final = 150.0
"""Where others are at work meanwhile, which costs most."""

_MOST_OF_ALL_S: Final = 700.0
"""Longer than the ten minutes of ``connections.max.idle.ms``."""

DEAD: Final = "are dead"
CUT_OFF: Final = "are cut off"
STANDING: Final = "stand still"


@dataclass(frozen=True, slots=True)
class OutageProfile:
    """The nodes that are away, the manner, and the number of seconds."""

    nodes: tuple[int, ...]
    manner: str
    seconds: float

    @classmethod
    def draw(cls, rng: Random, nodes: tuple[int, ...]) -> "OutageProfile | None":
        """An outage of some of the nodes, or None."""
        if rng.random() >= SHARE:
            return None
        count = rng.choice((1, len(nodes) // 2 + 1, len(nodes)))
        most_s = _MOST_OF_ALL_S if count == len(nodes) else _MOST_OF_SOME_S
        return cls(
            nodes=tuple(sorted(rng.sample(nodes, count))),
            manner=rng.choice((DEAD, DEAD, CUT_OFF, STANDING)),
            seconds=float(_LEAST_S * (most_s / _LEAST_S) ** rng.random()),
        )
