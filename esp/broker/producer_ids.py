"""Ids for idempotent producers, from blocks that the controller gives out through the metadata log (PROD-10)."""

from collections.abc import Awaitable, Callable

from esp.model.ids import ProducerId


class ProducerIds:
    """Hands out each id of a block once and asks for the next block when one is used up.

    Args:
        allocate_block: asks the controller; returns a range of ids nobody else has.
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

    async def next(self) -> ProducerId:
        """An id, from a new block if need be.."""
        producer_id = self.next_now()
        while producer_id is None:
            block = await self._allocate_block()
            if not self._left:
                self._left = block
            producer_id = self.next_now()
        return producer_id
