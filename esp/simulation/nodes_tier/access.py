"""The rules of access of a run: an administrator that changes them, a client that asks for what they are about, and the checker of both."""

import dataclasses
from collections.abc import Callable
from typing import Final

from esp.controller.image import ClusterImage
from esp.simulation.checkers.access_checker import AccessChecker
from esp.simulation.nodes_tier.cluster import CLIENT_HOST, bootstrap_addresses, node_host
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.world import World
from esp.simulation.outcome import Outcome
from esp.simulation.workload.access_prober import AccessProber
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.envelope_prober import EnvelopeProber
from esp.simulation.workload.guarded_clients import GuardedReader, GuardedTopics, GuardedWriter
from esp.simulation.workload.history import History
from esp.simulation.workload.rule_setter import RuleSetter, TopicRuleSetter

_NO_HOST: Final = "10.9.9.9"
"""An address that no machine has."""
_NETWORKS: Final = ("10.0.1.0/24", "10.0.0.0/8", "10.9.0.0/16")
"""Networks: two with the clients' address, and one without it."""


class Access:
    """The clients of the rules; they begin only in a cluster with an authorizer.

    Args:
        world: the cluster in which they live.
        history: counts what clients met with.
        image: returns the newest committed metadata.
    """

    def __init__(self, world: World, history: History, image: Callable[[], ClusterImage]) -> None:
        self.checker = AccessChecker()
        self._world = world
        self._image = image
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

        addresses = bootstrap_addresses(world.profile.layout)
        self.topics = GuardedTopics(self.checker, self._node_at, image, addresses, CLIENT_HOST)
        self._topic_setter = TopicRuleSetter(
            self._client("topic rule setter"),
            world.random("topic rule setter"),
            history,
            self.checker,
            self._node_at,
            (CLIENT_HOST, _NO_HOST, *_NETWORKS),
        )
        self._writer = GuardedWriter(
            self._client("guarded writer"), world.random("guarded writer"), history, self.topics
        )
        self._reader = GuardedReader(
            self._client("guarded reader"),
            world.random("guarded reader"),
            history,
            self.topics,
            is_spoilt=lambda batch: world.network.flips.excuses(CLIENT_HOST, batch),
        )

    def begin(self) -> None:
        """Set the clients to work, if there are rules in this run."""
        if self._world.profile.is_guarded:
            self._world.spawn(self._setter.run())
            self._world.spawn(self._prober.run())
            self._world.spawn(self.enclosed.run())
        if self._world.profile.guards_topics:
            self._world.spawn(self._use_topics())

    async def _use_topics(self) -> None:
        topic = self._world.profile.topics[0]
        await self._writer.make_topics(topic.replication_factor, dict(topic.configs))
        self._world.spawn(self._topic_setter.run())
        self._world.spawn(self._writer.run())
        self._world.spawn(self._reader.run())

    def added_to(self, outcome: Outcome) -> Outcome:
        """The outcome of a run with the requests that were held against its rules."""
        return dataclasses.replace(
            outcome,
            judged_accesses=self.checker.judged,
            unjudged_accesses=self.checker.unjudged,
            judged_envelopes=self.enclosed.judged,
            allowed_transfers=self.topics.allowed,
            denied_transfers=self.topics.denied,
        )

    def calm(self) -> None:
        """Change no more rules; ask on."""
        self._setter.is_stopping = self._topic_setter.is_stopping = True

    def stop(self) -> None:
        """Ask no more."""
        self._prober.is_stopping = self.enclosed.is_stopping = True
        self._writer.is_stopping = self._reader.is_stopping = True

    async def open_topics(self) -> None:
        """Take the rules of topics away, so that other clients can read all of them in the end."""
        if self._world.profile.guards_topics:
            await self._topic_setter.remove_all(self._image)

    def _client(self, name: str) -> ClusterClient:
        world = self._world
        return ClusterClient(
            world.client_network(), bootstrap_addresses(world.profile.layout), name, world.random(f"client {name}")
        )

    def _node_at(self, host: str) -> SimulatedNode:
        return next(node for number, node in self._world.nodes.items() if node_host(number) == host)
