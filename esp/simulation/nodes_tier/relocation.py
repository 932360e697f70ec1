"""A voter that listens elsewhere after a restart, and says so itself (UpdateRaftVoter, KIP-853).

The operator changes the port of a controller's listener. The other nodes' settings keep the old one, so that one voter of a run moves at
most, and only where all controllers are voters for good: a majority is found at the addresses of the settings then.
"""

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Final

from esp.settings.broker import BrokerSettings
from esp.simulation.nodes_tier.cluster import CONTROLLER_PORT
from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.layout import Layout
from esp.simulation.nodes_tier.node import SimulatedNode

SHARE: Final = 0.2
"""The share of the runs in which a voter moves, among those in which one may."""

MEAN_S: Final = (5.0, 20.0)
"""Least and most seconds between two moves, on the average, where they come."""


def may_relocate(layout: Layout) -> bool:
    """True if a voter may move without the settings of the others."""
    return len(layout.controllers) > 2 and not layout.has_static_voters and not layout.changes_voters


def draw_relocations(rng: Random, layout: Layout) -> dict[FaultKind, float]:
    """The fault with the mean seconds between two of it, in a run that has it."""
    if rng.random() >= SHARE or not may_relocate(layout):
        return {}
    low, high = MEAN_S
    return {FaultKind.RELOCATE: low * (high / low) ** rng.random()}


class Relocation:
    """Moves a voter's listener, again and again.

    Args:
        layout: the nodes by their roles.
        may_move: whether the quorum can spare a voter, by its number, that others find by the metadata log alone; it is moved then.
        restart: restarts a node, with the settings that it has by then.
    """

    def __init__(
        self, layout: Layout, may_move: Callable[[int], bool], restart: Callable[[SimulatedNode], object]
    ) -> None:
        self._layout = layout
        self._may_move = may_move
        self._restart = restart
        self._moved: SimulatedNode | None = None
        self._count = 0

    def bring(self, node: SimulatedNode) -> bool:
        """Let the node listen at another port for the other controllers, after a restart."""
        moved = self._moved or node
        if moved.node_id not in self._layout.controllers or not moved.is_serving:
            return False
        if not self._may_move(moved.node_id):
            return False
        self._moved = moved
        self._count += 1
        moved.settings = with_controller_port(moved.settings, CONTROLLER_PORT + self._count)
        self._restart(moved)
        return True


def with_controller_port(settings: BrokerSettings, port: int) -> BrokerSettings:
    """The same with another port of the controller listener, bound and told."""
    controllers = settings.controller_listeners
    return dataclasses.replace(
        settings,
        listeners=tuple(
            listener._replace(port=port) if listener in controllers else listener for listener in settings.listeners
        ),
        advertised_controller_listeners=tuple(
            listener._replace(port=port) for listener in settings.advertised_controller_listeners
        ),
    )
