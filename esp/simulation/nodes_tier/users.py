"""The users of a run: an administrator that changes their credentials, clients that try passwords, and the checker of both."""

import dataclasses
from typing import Final

from esp.ports.network import Address
from esp.simulation.checkers.credential_checker import CredentialChecker
from esp.simulation.nodes_tier.cluster import USERS_PORT, bootstrap_addresses, node_host
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.world import World
from esp.simulation.outcome import Outcome
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.history import History
from esp.simulation.workload.user_prober import UserProber
from esp.simulation.workload.user_setter import UserSetter

_NAME: Final = "user setter"
_PROBERS: Final = 2


class Users:
    """Administrator and clients begin only in a run with users.

    Args:
        world: the cluster in which they live.
        history: counts what they met with.
    """

    def __init__(self, world: World, history: History) -> None:
        self.checker = CredentialChecker()
        self._world = world
        self._history = history
        self._setter: UserSetter | None = None
        self._probers: list[UserProber] = []

    def begin(self) -> None:
        """Set administrator and clients to work, if there are users in this run."""
        world = self._world
        if not world.profile.has_users:
            return
        client = ClusterClient(
            world.client_network(), bootstrap_addresses(world.profile.layout), _NAME, world.random(f"client {_NAME}")
        )
        self._setter = UserSetter(
            client,
            world.random(_NAME),
            self._history,
            self.checker,
            self._node_at,
            lambda: tuple(world.nodes.values()),
        )
        self._probers = [
            UserProber(
                name,
                world.client_network(),
                [Address(node_host(number), USERS_PORT) for number in world.profile.layout.brokers],
                world.random(name),
                self._history,
                self.checker,
                self._node_at,
            )
            for name in (f"user prober {number}" for number in range(_PROBERS))
        ]
        world.spawn(self._setter.run())
        for prober in self._probers:
            world.spawn(prober.run())

    def added_to(self, outcome: Outcome) -> Outcome:
        """The outcome of a run with what was held against its changes of users."""
        return dataclasses.replace(
            outcome,
            judged_credentials=self.checker.judged,
            judged_log_ins=self.checker.judged_log_ins,
        )

    def calm(self) -> None:
        """Change no more users, and try no more passwords."""
        if self._setter is not None:
            self._setter.is_stopping = True
        for prober in self._probers:
            prober.is_stopping = True

    def _node_at(self, host: str) -> SimulatedNode:
        return next(node for number, node in self._world.nodes.items() if node_host(number) == host)
