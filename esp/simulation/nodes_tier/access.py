"""The rules of access of a run: an administrator that changes them, a client that asks for what they are about, and the checker of both."""

import dataclasses
from typing import Final

from esp.simulation.checkers.access_checker import AccessChecker
from esp.simulation.nodes_tier.cluster import CLIENT_HOST, bootstrap_addresses, node_host
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.world import World
from esp.simulation.outcome import Outcome
from esp.simulation.workload.access_prober import AccessProber
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.envelope_prober import EnvelopeProber
from esp.simulation.workload.history import History
from esp.simulation.workload.rule_setter import RuleSetter

_NO_HOST: Final = "10.9.9.9"
"""An address that no machine has."""


class Access:
    """The clients of the rules; they begin only in a cluster with an authorizer.

    Args:
        world: the cluster in which they live.
        history: counts what clients met with.
    """

    def __init__(self, world: World, history: History) -> None:
        self.checker = AccessChecker()
        self._world = world
        self._setter = RuleSetter(
            self._client("rule setter"),
            world.random("rule setter"),
            history,
            self.checker,
            self._node_at,
            (CLIENT_HOST, _NO_HOST),
        )
        self._prober = AccessProber(
            self._client("access prober"),
            world.random("access prober"),
            history,
            self.checker,
            self._node_at,
            CLIENT_HOST,
            lambda: self._setter.groups,
        )
        self.enclosed = EnvelopeProber(
            self._client("envelope prober"), world.random("envelope prober"), history, CLIENT_HOST
        )

    def begin(self) -> None:
        """Set the clients to work, if there are rules in this run."""
        if self._world.profile.is_guarded:
            self._world.spawn(self._setter.run())
            self._world.spawn(self._prober.run())
            self._world.spawn(self.enclosed.run())

    def added_to(self, outcome: Outcome) -> Outcome:
        """The outcome of a run with the requests that were held against its rules."""
        return dataclasses.replace(
            outcome,
            judged_accesses=self.checker.judged,
            unjudged_accesses=self.checker.unjudged,
            judged_envelopes=self.enclosed.judged,
        )

    def calm(self) -> None:
        """Change no more rules; ask on."""
        self._setter.is_stopping = True

    def stop(self) -> None:
        """Ask no more."""
        self._prober.is_stopping = self.enclosed.is_stopping = True

    def _client(self, name: str) -> ClusterClient:
        world = self._world
        return ClusterClient(
            world.client_network(), bootstrap_addresses(world.profile.layout), name, world.random(f"client {name}")
        )

    def _node_at(self, host: str) -> SimulatedNode:
        return next(node for number, node in self._world.nodes.items() if node_host(number) == host)
