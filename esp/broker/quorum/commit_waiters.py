"""Coroutines of the active controller that wait until what they rest on is committed."""

import asyncio
from collections import deque

from esp.model.errors import ApiError, ErrorCode


class CommitWaiters:
    """Waiters by offset, which rises from one to the next."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def wait(self, offset: int) -> None:
        """Return when everything below ``offset`` is committed.

        Raises:
            ApiError: NOT_CONTROLLER: leadership was lost first.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((offset, future))
        await future

    def on_commit(self, offset: int) -> None:
        """Everything below ``offset`` is committed."""
        while self._waiting and self._waiting[0][0] <= offset:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    def on_leadership_lost(self) -> None:
        """What was proposed may be committed by another leader or not: nobody here will know (PROMISE-7)."""
        waiting, self._waiting = self._waiting, deque()
        for _, future in waiting:
            if not future.done():
                future.set_exception(ApiError(ErrorCode.not_controller))
