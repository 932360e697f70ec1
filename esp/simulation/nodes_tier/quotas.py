"""The quotas of a run: an administrator that changes them, clients that use them up, and the checker of both."""

import dataclasses
import itertools
from collections.abc import Callable, Collection
from typing import Final

from esp.controller.image import ClusterImage
from esp.ports.network import Address
from esp.simulation.checkers import probe
from esp.simulation.checkers.mutation_quota_checker import MutationQuotaChecker
from esp.simulation.checkers.quota_checker import QuotaChecker
from esp.simulation.nodes_tier.cluster import addresses_of, bootstrap_addresses, node_host
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.world import World
from esp.simulation.outcome import Outcome
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.history import History
from esp.simulation.workload.partition_asker import CLIENT_ID, RATE, PartitionAsker
from esp.simulation.workload.quota_setter import QuotaSetter
from esp.simulation.workload.quota_user import QuotaUser

USERS: Final = 2
"""Clients that send side by side: what one of them uses, the other has not."""


class Quotas:
    """The clients of the quotas; they begin only in a run with quotas.

    Args:
        world: the cluster in which they live.
        history: counts what clients met with.
        last_led_epoch: returns the last epoch of the quorum that any node has led, whether or not that node lives.
    """

    def __init__(self, world: World, history: History, last_led_epoch: Callable[[], int]) -> None:
        now_s = world.loop.time
        self.checker = QuotaChecker(now_s, max(world.profile.clock_rates))
        self.changes = MutationQuotaChecker(RATE, max(world.profile.clock_rates))
        self._world = world
        self._avoided: frozenset[Address] = frozenset()
        self._made: list[ClusterClient] = []
        self._setter = QuotaSetter(
            self._client("quota setter"), world.random("quota setter"), history, self.checker, self._node_at
        )
        self._users = [
            QuotaUser(
                self._client,
                world.random(f"quota user {number}"),
                history,
                self.checker,
                self._node_at,
                lambda: self._setter.client_ids,
                now_s,
                itertools.count(number, USERS),
            )
            for number in range(USERS)
        ]
        self._asker = PartitionAsker(
            self._client(CLIENT_ID),
            world.random(CLIENT_ID),
            history,
            self.changes,
            self._image_at,
            last_led_epoch,
            now_s,
        )

    def begin(self) -> None:
        """Set the clients to work, if there are quotas in this run."""
        if self._world.profile.has_quotas:
            self._world.spawn(self._setter.run())
            for user in self._users:
                self._world.spawn(user.run())
            self._world.spawn(self._asker.run())

    def added_to(self, outcome: Outcome) -> Outcome:
        """The outcome of a run with the requests that were held against its quotas."""
        return dataclasses.replace(
            outcome,
            judged_quotas=self.checker.judged,
            throttled_requests=self.checker.throttled,
            told_held=self.checker.told_held,
            judged_changes=self.changes.judged,
            refused_changes=self.changes.refused,
        )

    def calm(self) -> None:
        """Change no more quotas; send on."""
        self._setter.is_stopping = True

    def avoid(self, brokers: Collection[int]) -> None:
        """Ask these no more where any broker will do, which stay away for good: chance alone would take long to find another."""
        self._avoided = frozenset(addresses_of(brokers))
        for client in self._made:
            client.avoided = self._avoided

    def find_silent(self, since_s: float) -> list[str]:
        """The clients without an answer to what they have sent since then: a client that is throttled goes on after its time."""
        if not self._world.profile.has_quotas:
            return []
        clients = {f"metered client {number}": user.answered_s for number, user in enumerate(self._users)}
        clients[CLIENT_ID] = self._asker.answered_s
        return [f"{name} is not answered" for name, answered_s in clients.items() if answered_s < since_s]

    def stop(self) -> None:
        """Send no more."""
        for user in self._users:
            user.is_stopping = True
        self._asker.is_stopping = True

    def _client(self, name: str) -> ClusterClient:
        world = self._world
        client = ClusterClient(
            world.client_network(), bootstrap_addresses(world.profile.layout), name, world.random(f"client {name}")
        )
        client.avoided = self._avoided
        self._made.append(client)
        return client

    def _image_at(self, host: str) -> ClusterImage:
        return probe.image(self._node_at(host))

    def _node_at(self, host: str) -> SimulatedNode:
        return next(node for number, node in self._world.nodes.items() if node_host(number) == host)
