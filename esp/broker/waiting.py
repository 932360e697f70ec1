"""Waiting on the node's own clock: with a limit, and until a callback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from esp.ports.clock import Clock


@asynccontextmanager
async def time_limit(clock: Clock, limit_ms: int) -> AsyncIterator[None]:
    """Cancel what is awaited within the block when the time is up.

    Raises:
        TimeoutError: it was.
    """
    async with asyncio.timeout(None) as timeout:
        timer = clock.call_later_us(
            max(0, limit_ms) * 1000, lambda: timeout.reschedule(asyncio.get_running_loop().time())
        )
        try:
            yield
        finally:
            timer.cancel()


class Waiters:
    """Coroutines that wait for a call or a moment, whichever comes first; they go on in the order in which they came."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[asyncio.Future[None], None] = {}

    async def wait(self, limit_us: int) -> None:
        """Return at the next :meth:`wake`, or after ``limit_us``."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = None
        timer = self._clock.call_later_us(limit_us, lambda: _settle(future))
        try:
            await future
        finally:
            timer.cancel()
            self._waiting.pop(future, None)

    def wake(self) -> None:
        """Let all waiting coroutines go on."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            _settle(future)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
