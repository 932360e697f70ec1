"""The instances of an application that has one transactional id: they take over from one another, die, or live on as zombies."""

import asyncio
import dataclasses
from collections.abc import Callable
from random import Random
from typing import Final

from esp.model.ids import TopicPartition
from esp.simulation.checkers.transaction_history import TransactionHistory
from esp.simulation.nodes_tier.transaction_profile import TransactionalIdProfile
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.group_client import GroupClient
from esp.simulation.workload.history import History
from esp.simulation.workload.late_requests import LateRequests
from esp.simulation.workload.producer import KeyDraws
from esp.simulation.workload.transaction_client import TransactionClient
from esp.simulation.workload.transactional_offsets import TransactionalOffsets
from esp.simulation.workload.transactional_producer import TransactionalProducer

LOOK_S: Final = 0.2
DEAD_SHARE: Final = 0.5
"""The share of the instances alive when the run ends that die with whatever is open."""

NewClient = Callable[[str], ClusterClient]
NewGroupClient = Callable[[str, str], GroupClient]
"""Makes a client by the group's and its own name."""


class TransactionCrew:
    """Keeps one instance at work, and replaces it now and then.

    Args:
        profile: of the transactional id.
        partitions: the partitions to write to.
        rng: its own stream of randomness.
        transactions: takes every transaction.
        history: counts what the instances met with.
        new_client: makes the connections of an instance.
        new_group_client: makes those to the coordinator of its group.
        late_rng: a stream of randomness of its own for requests that come late, or together.
        keys: those of the records; None if these have none.
        has_newest_level: tells whether the cluster allows the newest protocol; an instance that starts before uses version 1.
    """

    def __init__(
        self,
        profile: TransactionalIdProfile,
        partitions: list[TopicPartition],
        rng: Random,
        transactions: TransactionHistory,
        history: History,
        new_client: NewClient,
        new_group_client: NewGroupClient,
        late_rng: Random,
        keys: KeyDraws | None,
        has_newest_level: Callable[[], bool],
    ) -> None:
        self.profile = profile
        self.is_calm = False
        """True when faults are over: nothing befalls the instance any more, and zombies end."""
        self._is_stopping = False
        self._dead_share = DEAD_SHARE
        self._partitions = partitions
        self._rng = rng
        self._transactions = transactions
        self._history = history
        self._new_client = new_client
        self._new_group_client = new_group_client
        self._late_rng = late_rng
        self._keys = keys
        self._has_newest_level = has_newest_level
        self._numbers = TransactionalOffsets.new_numbers()
        self._count = 0
        self._living: dict[asyncio.Task[None], TransactionalProducer] = {}

    async def run(self) -> None:
        """Keep an instance at work until told to stop, and until all have ended."""
        while not self._is_stopping:
            newest = self._start()
            end_s = asyncio.get_running_loop().time() + self._rng.expovariate(1 / self.profile.life_s)
            while not newest.done() and not self._is_stopping:
                if not self.is_calm and asyncio.get_running_loop().time() > end_s:
                    break
                await asyncio.sleep(LOOK_S)
            if not newest.done() and not self._is_stopping:
                self._replace(newest)
            await asyncio.sleep(self._rng.uniform(0, 1))
        for task, instance in self._living.items():
            instance.is_stopping = True
            if self._rng.random() < self._dead_share:
                task.cancel()
        await asyncio.gather(*self._living, return_exceptions=True)

    def calm(self) -> None:
        """The faults are over."""
        self.is_calm = True
        for instance in tuple(self._living.values())[:-1]:
            instance.is_stopping = True

    def stop(self, *, waits: bool) -> None:
        """Begin no transaction any more; without ``waits`` all instances die at once, as what they need does not come back."""
        self._is_stopping = True
        self._dead_share = DEAD_SHARE if waits else 1.0

    def _start(self) -> "asyncio.Task[None]":
        self._count += 1
        name = f"{self.profile.name} instance {self._count}"
        client = self._new_client(name)
        client.keeps_epochs = self.is_calm
        instance = TransactionalProducer(
            TransactionClient(client, self.profile.name),
            name,
            self.profile if self._has_newest_level() else dataclasses.replace(self.profile, version=1),
            self._partitions,
            self._rng,
            self._transactions,
            self._history,
            LateRequests(self._late_rng),
            self.new_offsets(name) if self.profile.commits_offsets else None,
            self._keys,
        )
        task = asyncio.ensure_future(instance.run())
        self._living[task] = instance
        task.add_done_callback(self._on_end)
        return task

    def new_offsets(self, name: str) -> TransactionalOffsets:
        """A client of the group of the application, under a name of its own."""
        group_id = f"group of {self.profile.name}"
        client = self._new_group_client(group_id, f"{name} at its group")
        client.client.keeps_epochs = self.is_calm
        return TransactionalOffsets(client, self.profile.name, self._transactions, self._numbers)

    def _replace(self, task: "asyncio.Task[None]") -> None:
        """The instance dies, or lives on without knowing that another one takes its place."""
        is_zombie = self._rng.random() < self.profile.zombie_share
        self._history.say(self.profile.name, f"instance {self._count} {'lives on' if is_zombie else 'dies'}")
        if not is_zombie:
            task.cancel()

    def _on_end(self, task: "asyncio.Task[None]") -> None:
        self._living.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
