"""The nodes of a simulated cluster, the role of each, and the first voters.

Nodes are numbered from 1. A layout is drawn from a stream of its own, so that the rest of a profile does not hang on it.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

SPLIT_SHARE: Final = 0.4
"""The share of the clusters of several nodes whose nodes have one role only."""

STATIC_SHARE: Final = 0.15
"""The share of the clusters of several nodes whose voters stand in the settings of every node (kraft.version 0)."""

CHANGING_SHARE: Final = 0.5
"""The share of the clusters with several controllers, whose voters stand in the log, in which voters come and go."""

SPLITS: Final = ((3, 3), (3, 3), (3, 1), (1, 3))
"""Brokers and controllers of clusters whose nodes have one role only."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The nodes by their roles; their numbers are ascending."""

    brokers: tuple[int, ...]
    controllers: tuple[int, ...]
    first_voters: tuple[int, ...]
    """Some of the controllers, or all: the others observe until a client adds them."""
    has_static_voters: bool = False
    changes_voters: bool = False
    """True if voters are added and removed during the run (KIP-853)."""

    @property
    def nodes(self) -> tuple[int, ...]:
        """All nodes."""
        return tuple(sorted({*self.brokers, *self.controllers}))

    @classmethod
    def combined(cls, count: int) -> "Layout":
        """``count`` nodes, each broker, controller and voter for ever."""
        everybody = tuple(range(1, count + 1))
        return cls(everybody, everybody, everybody)

    @classmethod
    def draw(cls, rng: Random, count: int) -> "Layout":
        """Any layout in place of that of ``count`` combined nodes; a single node stays alone."""
        if count == 1:
            return cls.combined(1)
        brokers = controllers = cls.combined(count).nodes
        if rng.random() < SPLIT_SHARE:
            broker_count, controller_count = rng.choice(SPLITS)
            brokers = tuple(range(1, broker_count + 1))
            controllers = tuple(range(broker_count + 1, broker_count + controller_count + 1))
        if rng.random() < STATIC_SHARE:
            return cls(brokers, controllers, controllers, has_static_voters=True)
        changes = len(controllers) > 1 and rng.random() < CHANGING_SHARE
        voters = controllers
        if changes and rng.random() < 0.5:
            voters = tuple(sorted(rng.sample(controllers, rng.randint(1, len(controllers)))))
        return cls(brokers, controllers, voters, changes_voters=changes)

    def __str__(self) -> str:
        voters = "static" if self.has_static_voters else "changing" if self.changes_voters else "lasting"
        return f"brokers {self.brokers}, controllers {self.controllers}, {voters} voters {self.first_voters} first"
