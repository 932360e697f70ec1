"""The delegation tokens of a run: the users that change and use them, and the checker of the answers."""

import dataclasses
from math import inf

from esp.ports.network import Address
from esp.simulation.checkers.token_checker import TokenChecker
from esp.simulation.nodes_tier.cluster import USERS_PORT, node_host
from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.world import World
from esp.simulation.outcome import Outcome
from esp.simulation.workload.history import History
from esp.simulation.workload.token_setter import TokenSetter

_SETTERS = 2


class Tokens:
    """The users begin only in a run with tokens.

    Args:
        world: the cluster in which they live.
        history: counts what they met with.
    """

    def __init__(self, world: World, history: History) -> None:
        self.checker = TokenChecker(self._latest_ms)
        self._world = world
        self._history = history
        self._setters: list[TokenSetter] = []

    def begin(self) -> None:
        """Set the users to work, if there are tokens in this run."""
        world = self._world
        if not world.profile.has_tokens:
            return
        self._setters = [
            TokenSetter(
                name,
                world.client_network(),
                [Address(node_host(number), USERS_PORT) for number in world.profile.layout.brokers],
                world.random(name),
                self._history,
                self.checker,
                self._node_at,
                lambda: tuple(world.nodes.values()),
            )
            for name in (f"token setter {number}" for number in range(_SETTERS))
        ]
        for setter in self._setters:
            world.spawn(setter.run())

    def added_to(self, outcome: Outcome) -> Outcome:
        """The outcome of a run with the tokens that were held against its changes."""
        return dataclasses.replace(
            outcome,
            judged_tokens=self.checker.judged,
        )

    def calm(self) -> None:
        """Change no more tokens."""
        for setter in self._setters:
            setter.is_stopping = True

    def _node_at(self, host: str) -> SimulatedNode:
        return next(node for number, node in self._world.nodes.items() if node_host(number) == host)

    def _latest_ms(self) -> float:
        """The latest time that a clock on the wall has shown so far; any, where clocks jump."""
        if not self._world.profile.fault_means_s.keys().isdisjoint((FaultKind.CLOCK_JUMP, FaultKind.LAPSE)):
            return inf
        return max(node.clock.wall_ms() for node in self._world.nodes.values())
