"""Moves partitions between brokers while everything else goes on: begins, changes and cancels reassignments (KIP-455)."""

import asyncio
from collections.abc import Callable, Collection
from random import Random
from typing import Final, NamedTuple

from esp.controller.draining import is_draining
from esp.controller.image import ClusterImage
from esp.model.errors import ErrorCode
from esp.model.ids import OFFSETS_TOPIC, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.protocol.registry import ApiKey
from esp.simulation.workload import admin_requests
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError, RefusedError
from esp.simulation.workload.history import History

TIMEOUT_S: Final = 10.0
IN_DOUBT_S: Final = 45.0
"""For how long a request that got no answer may still take effect: a broker looks for a controller on its behalf."""


class Move(NamedTuple):
    """A request, and what it would leave of a partition; ``sent_s`` is when."""

    key: tuple[TopicId, int]
    replicas: tuple[NodeId, ...]
    sent_s: float


class PartitionMover:
    """Asks any broker; each call is tried once.

    Every topic keeps as many replicas as its minimum of in-sync ones, or the faults that are allowed would take more than is promised.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was done.
        brokers: that may hold replicas; some may be dead.
        image: the newest committed metadata.
        is_patient: whether it leaves alone what waits for a broker that is away, or that drains.
    """

    def __init__(
        self,
        client: ClusterClient,
        rng: Random,
        history: History,
        brokers: Collection[NodeId],
        image: Callable[[], ClusterImage],
        *,
        is_patient: bool = False,
    ) -> None:
        self.is_stopping = False
        self._client = client
        self._rng = rng
        self._history = history
        self._brokers = tuple(brokers)
        self._image = image
        self._is_patient = is_patient
        self._in_doubt: list[Move] = []
        self._asked: set[tuple[str, int, tuple[NodeId, ...]]] = set()

    def doubtful(self, now_s: float) -> list[Move]:
        """The moves that were asked for and may still be done."""
        return [move for move in self._in_doubt if now_s < move.sent_s + IN_DOUBT_S]

    def has_asked_for(self, key: tuple[TopicId, int], replicas: tuple[NodeId, ...]) -> bool:
        """True if these replicas of a partition were ever asked for, of its topic or of an earlier one of the name."""
        topic = self._image().topics_by_id.get(key[0])
        return topic is not None and (topic.name, key[1], replicas) in self._asked

    async def run(self) -> None:
        """Do what comes to mind until told to stop."""
        while not self.is_stopping:
            try:
                await self._act()
            except NoAnswerError as error:
                self._history.on_no_answer(self._client.name, str(error))
            except RefusedError as error:
                self._history.on_refusal(self._client.name, error.code.name)
            await asyncio.sleep(self._rng.uniform(0.2, 5))

    async def _act(self) -> None:
        image, rng = self._image(), self._rng
        found = [
            (topic, state)
            for topic, state in image.partitions()
            if topic.name != OFFSETS_TOPIC and not (self._is_patient and _waits(image, state))
        ]
        moving = [(topic, state) for topic, state in found if state.is_reassigning]
        if not found:
            return
        topic, state = rng.choice(moving if moving and rng.random() < 0.5 else found)
        if state.is_reassigning and rng.random() < 0.4:
            await self._ask(topic.name, state, None, "reassignment cancelled")
            return
        most = min(3, len(self._brokers))
        least = min(most, image.min_insync_replicas(topic))
        count = most if rng.random() < 0.6 else rng.randint(least, most)
        target = tuple(rng.sample(self._brokers, count))
        what = "reassignment changed" if state.is_reassigning else "reassignment begun"
        await self._ask(topic.name, state, target, what)

    async def _ask(self, topic: str, state: PartitionState, target: tuple[NodeId, ...] | None, what: str) -> None:
        move = Move(
            (state.topic_id, state.partition), target or state.original_replicas, asyncio.get_running_loop().time()
        )
        self._in_doubt = [*self.doubtful(move.sent_s), move]
        self._asked.add((topic, state.partition, move.replicas))
        connection = await self._client.any_broker()
        request = admin_requests.reassign(topic, state.partition, target, TIMEOUT_S)
        version = admin_requests.ALTER_PARTITION_REASSIGNMENTS_VERSION
        answer = await connection.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, request, TIMEOUT_S)
        self._in_doubt.remove(move)
        code = answer.error_code
        if code is ErrorCode.none:
            code = answer.responses[0].partitions[0].error_code
        if code is not ErrorCode.none:
            raise RefusedError(code)
        self._history.on_done(self._client.name, what, f"{topic}-{state.partition}: {target}")


def _waits(image: ClusterImage, state: PartitionState) -> bool:
    """True if a partition is on its way to a broker that is away, or shall be emptied."""
    return state.is_reassigning and any(
        node not in image.brokers or not image.brokers[node].is_active or is_draining(image, node)
        for node in state.target_replicas
    )
