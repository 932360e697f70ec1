"""Requests that arrive after their client has given them up: they were held up on a connection that it has left."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final

from esp.simulation.workload.connection import NoAnswerError

LATE_SHARE: Final = 0.04
"""The share of the requests belonging to a transaction that come late."""

LATE_S: Final = (0.0005, 1.0)
"""Least and most seconds by which they are late: at first the end of the transaction is still being decided, then it is long over."""

WAITS_S: Final = (0.0, 0.003, 0.05)
"""The time that the client waits before it goes on, as if it had hoped for an answer."""


class LateRequests:
    """The late requests of one client.

    Args:
        rng: its own stream of randomness.
    """

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self._tasks: dict[asyncio.Task[None], None] = {}

    def takes(self) -> bool:
        """True if the next request is one of them."""
        return self.rng.random() < LATE_SHARE

    async def send(self, call: Callable[[], Awaitable[Any]]) -> None:
        """Make the call some time later, when the client has gone on for long, or just does; the answer is of no interest."""
        low, high = LATE_S
        task = asyncio.ensure_future(self._send(call, low * (high / low) ** self.rng.random()))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        await asyncio.sleep(self.rng.choice(WAITS_S))

    async def _send(self, call: Callable[[], Awaitable[Any]], delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        try:
            await call()
        except NoAnswerError:
            return

    def close(self) -> None:
        """The client ends, and with it all that is on its way."""
        for task in tuple(self._tasks):
            task.cancel()
