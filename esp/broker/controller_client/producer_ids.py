"""Ids for idempotent producers, from blocks that the controller gives out through the metadata log (PROD-10)."""

import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse
from kio.schema.types import BrokerId
from kio.static.primitive import i64

from esp.broker.controller_client.channel import ControllerChannel
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import BrokerEpoch, NodeId, ProducerId
from esp.protocol.registry import ApiKey

log = logging.getLogger(__name__)

BLOCK_TIMEOUT_MS: Final = 1_000
"""The time for which a producer waits for a controller before it has to ask again: elections are shorter. To kafka-python an InitProducerId
that its own time-out ends is a fatal error, where COORDINATOR_LOAD_IN_PROGRESS is not."""


class ProducerIds:
    """Hands out each id of a block once and asks for the next block when one is used up.

    Args:
        allocate_block: asks the controller; returns a range of ids that no other broker has.
    """

    def __init__(self, allocate_block: Callable[[], Awaitable[range]]) -> None:
        self._allocate_block = allocate_block
        self._left = range(0)

    def next_now(self) -> ProducerId | None:
        """An id, or None if a new block is needed first (:meth:`next`)."""
        if not self._left:
            return None
        producer_id = ProducerId(self._left[0])
        self._left = self._left[1:]
        return producer_id

    async def try_to_have_one(self) -> None:
        """Let :meth:`next_now` give an id; without a controller there is none, which is no error here."""
        if not self._left:
            with contextlib.suppress(ApiError):
                block = await self._allocate_block()
                if not self._left:
                    self._left = block

    async def next(self) -> ProducerId:
        """An id, from a new block if need be.

        Raises:
            ApiError: there is no block to be had now.
        """
        producer_id = self.next_now()
        while producer_id is None:
            block = await self._allocate_block()
            if not self._left:
                self._left = block
            producer_id = self.next_now()
        return producer_id


class ProducerIdBlocks:
    """Asks the active controller for blocks.

    Args:
        controller: the channel to it.
        node_id: this broker.
        broker_epoch: tells its present epoch.
    """

    def __init__(self, controller: ControllerChannel, node_id: NodeId, broker_epoch: Callable[[], BrokerEpoch]) -> None:
        self._controller = controller
        self._node_id = node_id
        self._broker_epoch = broker_epoch

    async def allocate(self) -> range:
        """A block that no other broker has.

        Raises:
            ApiError: COORDINATOR_LOAD_IN_PROGRESS, as Kafka says it: no controller answers, or this broker's registration is being renewed.
        """
        request = AllocateProducerIdsRequest(broker_id=BrokerId(self._node_id), broker_epoch=i64(self._broker_epoch()))
        try:
            answer: AllocateProducerIdsResponse = await self._controller.call(
                ApiKey.ALLOCATE_PRODUCER_IDS, request, timeout_ms=BLOCK_TIMEOUT_MS
            )
            if answer.error_code is not ErrorCode.none:
                raise ApiError(answer.error_code)
        except ApiError as error:
            log.warning("the controller gives no producer ids: %s", error)
            raise ApiError(ErrorCode.coordinator_load_in_progress, "There are no producer ids yet.") from error
        return range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)
