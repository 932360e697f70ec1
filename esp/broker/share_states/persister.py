"""The share coordinators of the cluster, as leaders of partitions and coordinators of groups ask them (:mod:`esp.share.persister`).

A coordinator of this node is asked without a message. Until one answers for good, the question is asked again: another node may coordinate
by then. That is harmless, as a change that is made twice leads to the same state (SHARE-21).
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.share_states.coordinators import ShareCoordinators, coordinator_key
from esp.groups.partitioning import partition_for
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import SHARE_STATES_TOPIC, NodeId
from esp.ports.clock import Clock
from esp.schemas.share_state_records import ShareStateKey
from esp.share.coordinator.requests import Delete, Initialize, Read, ReadSummary, Refused, Request, Result, Write
from esp.share.persister import PersistedRead, PersistedSummary

if TYPE_CHECKING:
    from esp.share.partition import StateWrite

GIVE_UP_US: Final = 30_000_000
"""The time for which a node asks a question again."""

PAUSE_US: Final = 100_000
"""The pause before that, at first; it doubles each time."""

PAUSE_US_MAX: Final = 1_000_000

AGAIN: Final = frozenset(
    (
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.network_exception,
        ErrorCode.unsupported_version,  # of a node that does not know yet that the cluster has share groups
    )
)
"""The answers that say nothing of the state."""

Answer = TypeVar("Answer", PersistedRead, PersistedSummary)


class Elsewhere(Protocol):
    """The way to the coordinators of other nodes."""

    async def ask(self, node_id: NodeId, request: Request) -> Result:
        """Return the answer; NETWORK_EXCEPTION if there is none."""


class ClusterPersister:
    """Implements :class:`esp.share.persister.Persister` and :class:`esp.share.persister.StateKeeping`.

    Args:
        clock: the node's.
        node_id: this node.
        metadata: as clients are told.
        here: the coordinators of this node.
        elsewhere: asks those of other nodes.
        create_topic: has ``__share_group_state`` created, and waits for that.
        patience_us: the time for which a question is asked again.
    """

    def __init__(
        self,
        clock: Clock,
        node_id: NodeId,
        metadata: MetadataCache,
        here: ShareCoordinators,
        elsewhere: Elsewhere,
        create_topic: Callable[[], Awaitable[None]],
        *,
        patience_us: int = GIVE_UP_US,
    ) -> None:
        self._clock = clock
        self._node_id = node_id
        self._metadata = metadata
        self._here = here
        self._elsewhere = elsewhere
        self._create_topic = create_topic
        self._patience_us = patience_us

    async def read(self, key: ShareStateKey, leader_epoch: int) -> PersistedRead:
        """See :meth:`esp.share.persister.Persister.read`."""
        return _expect(await self._ask(Read(key, leader_epoch)), PersistedRead)

    async def write(self, key: ShareStateKey, state_epoch: int, leader_epoch: int, write: "StateWrite") -> None:
        """See :meth:`esp.share.persister.Persister.write`."""
        await self._ask(Write(key, state_epoch, leader_epoch, write.start_offset, write.complete_count, write.batches))

    async def initialize(self, key: ShareStateKey, state_epoch: int, start_offset: int) -> None:
        """See :meth:`esp.share.persister.StateKeeping.initialize`."""
        await self._ask(Initialize(key, state_epoch, start_offset))

    async def delete(self, key: ShareStateKey) -> None:
        """See :meth:`esp.share.persister.StateKeeping.delete`."""
        await self._ask(Delete(key))

    async def read_summary(self, key: ShareStateKey) -> PersistedSummary:
        """See :meth:`esp.share.persister.StateKeeping.read_summary`."""
        return _expect(await self._ask(ReadSummary(key)), PersistedSummary)

    async def _ask(self, request: Request) -> Result:
        """Ask until there is an answer.

        Raises:
            ApiError: the coordinator refuses, or there was no answer in time.
        """
        give_up_us = self._clock.monotonic_us() + self._patience_us
        pause_us = PAUSE_US
        while True:
            result = await self._ask_once(request)
            if not isinstance(result, Refused):
                return result
            if result.error not in AGAIN or self._clock.monotonic_us() + pause_us > give_up_us:
                raise ApiError(result.error, result.message)
            await self._clock.sleep_us(pause_us)
            pause_us = min(2 * pause_us, PAUSE_US_MAX)

    async def _ask_once(self, request: Request) -> Result:
        topic = self._metadata.image.topics_by_name.get(SHARE_STATES_TOPIC)
        if topic is None:
            await self._create_topic()
            return Refused(ErrorCode.coordinator_not_available)
        leader = topic.partitions[partition_for(coordinator_key(request.key), len(topic.partitions))].leader
        if leader == self._node_id:
            return await self._here.ask(request)
        if leader not in self._metadata.alive:
            return Refused(ErrorCode.coordinator_not_available)
        return await self._elsewhere.ask(leader, request)


def _expect(result: Result, kind: type[Answer]) -> Answer:
    assert isinstance(result, kind), "a question has its own kind of answer"
    return result
