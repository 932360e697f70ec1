"""Moves replicas between the log directories of their nodes while everything else goes on (KIP-113)."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Final

from kio.schema.alter_replica_log_dirs.v2.request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kio.schema.types import TopicName
from kio.static.primitive import i32

from esp.controller.image import ClusterImage
from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.simulation.nodes_tier.cluster import DATA, MORE
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import History

VERSION: Final = 2
TIMEOUT_S: Final = 10.0
PAUSE_S: Final = (0.2, 3.0)
MOST_AT_ONCE: Final = 3
BACK_SHARE: Final = 0.3
"""The share of the moves that have begun after which the replica is asked back at once, which ends the move where it has not finished."""

_OTHER: Final[Mapping[str, str]] = {DATA: MORE, MORE: DATA}


class DirectoryMover:
    """Asks brokers, one after the other, to move some of their replicas; where they are is of no concern.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was done.
        image: the newest committed metadata.
        brokers: where each broker listens.
    """

    def __init__(
        self,
        client: ClusterClient,
        rng: Random,
        history: History,
        image: Callable[[], ClusterImage],
        brokers: Mapping[int, Address],
    ) -> None:
        self.is_stopping = False
        self._client = client
        self._rng = rng
        self._history = history
        self._image = image
        self._brokers = brokers
        self._to_take_back: tuple[int, str, int, str] | None = None
        """Node, topic, partition, and the directory to which it goes back."""

    async def run(self) -> None:
        """Move replicas until told to stop."""
        while not self.is_stopping:
            try:
                if self._to_take_back is not None:
                    node_id, topic, number, path = self._to_take_back
                    self._to_take_back = None
                    await self._ask(node_id, [(topic, number)], path)
                else:
                    await asyncio.sleep(self._rng.uniform(*PAUSE_S))
                    await self._move()
            except NoAnswerError as error:
                self._history.on_no_answer(self._client.name, str(error))

    async def _move(self) -> None:
        """Ask one broker for some moves. Raises NoAnswerError."""
        node_id = self._rng.choice(list(self._brokers))
        held = [
            (topic.name, state.partition) for topic, state in self._image().partitions() if node_id in state.replicas
        ]
        if not held:
            return
        chosen = self._rng.sample(held, min(len(held), self._rng.randint(1, MOST_AT_ONCE)))
        path = self._rng.choice((DATA, MORE))
        begun = await self._ask(node_id, chosen, path)
        if begun and self._rng.random() < BACK_SHARE:
            topic, number = self._rng.choice(begun)
            self._to_take_back = node_id, topic, number, _OTHER[path]

    async def _ask(self, node_id: int, chosen: Iterable[tuple[str, int]], path: str) -> list[tuple[str, int]]:
        """Ask for moves to a directory; return those that are begun. Raises NoAnswerError."""
        topics = tuple(
            AlterReplicaLogDirTopic(name=TopicName(name), partitions=(i32(number),)) for name, number in chosen
        )
        directory = AlterReplicaLogDir(path=path, topics=topics)
        connection = await self._client.connect(self._brokers[node_id])
        request = AlterReplicaLogDirsRequest(dirs=(directory,))
        answer = await connection.call(ApiKey.ALTER_REPLICA_LOG_DIRS, VERSION, request, TIMEOUT_S)
        begun = []
        for result in answer.results:
            for partition in result.partitions:
                if partition.error_code is ErrorCode.none:
                    begun.append((str(result.topic_name), int(partition.partition_index)))
                    what = f"{result.topic_name}-{partition.partition_index} on {node_id} to {directory.path}"
                    self._history.on_done(self._client.name, "move between log directories begun", what)
                else:
                    self._history.on_refusal(self._client.name, partition.error_code.name)
        return begun
