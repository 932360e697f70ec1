"""Who goes on next of those with long work to do on the loop.

Work that grows with what a peer sends is divided into slices of a fraction of a millisecond. Before each one whoever does it waits for a
turn: in each round of the loop one of them goes on, the one that has waited longest. However many there are, everybody else waits for one
slice at most.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import TypeVar

Result = TypeVar("Result")


class Turns:
    """First come, first served; runs on the loop in which :meth:`call` is called."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_due = False

    def call(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` when it is its turn, in one of the next rounds of the loop."""
        self._waiting.append(go_on)
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._give_turn)

    async def wait(self) -> None:
        """Return when it is the caller's turn, for one slice."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.call(lambda: None if turn.done() else turn.set_result(None))
        await turn

    async def run(self, work: Generator[None, None, Result]) -> Result:
        """Drive a generator that yields after each slice; return, or raise, what it does."""
        while True:
            await self.wait()
            try:
                next(work)
            except StopIteration as end:
                result: Result = end.value
                return result

    def _give_turn(self) -> None:
        self._waiting.popleft()()
        self._is_due = bool(self._waiting)
        if self._is_due:
            asyncio.get_running_loop().call_soon(self._give_turn)
