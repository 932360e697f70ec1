"""Turns of long work on the loop: the order in which it continues.

Work that grows with what a peer sends is divided into slices of some tens of microseconds. Before each slice its task waits for its
turn: in each round of the loop one task goes on, the one that has waited longest, for about :data:`TURN_US`. However many there are,
all other work waits for one turn at most. A turn is as long as the slices that fit into it: the time of a slice depends on the request
and on the machine. It has a number of slices at most, which alone counts where time stands still, in the simulator.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import Final, TypeVar

from esp.ports.clock import Clock

TURN_US: Final = 100
"""After that time no slice begins before the next turn."""

SLICES_MAX: Final = 8
"""The most slices of one turn."""

ROUND_US: Final = 5_000
"""After that time in one round of the loop short work is put off to the next rounds: thousands of clients may ask something at the
same time."""

Result = TypeVar("Result")


class Turns:
    """First come, first served; runs on the loop in which :meth:`call` is called.

    Args:
        clock: the node's.
    """

    def __init__(self, clock: Clock) -> None:
        self._now_us = clock.monotonic_us
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_due = False
        self._slices_left = 0
        self._ends_us = 0
        self._is_in_round = False
        self._round_ends_us = 0
        self._put_off: deque[Callable[[], None]] = deque()
        self._is_put_off_due = False

    def has_time(self) -> bool:
        """True if short work may be done at once: the present round of the loop has not lasted long since this was asked first in it."""
        if self._is_in_round:
            return self._now_us() < self._round_ends_us
        self._is_in_round = True
        self._round_ends_us = self._now_us() + ROUND_US
        asyncio.get_running_loop().call_soon(self._end_round)
        return True

    def put_off(self, work: Callable[[], None]) -> None:
        """Do short work in one of the next rounds of the loop, in the order of these calls: as much in each as fits into ROUND_US."""
        self._put_off.append(work)
        if not self._is_put_off_due:
            self._is_put_off_due = True
            asyncio.get_running_loop().call_soon(self._do_put_off)

    def call(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` when it is its turn, in one of the next rounds of the loop."""
        self._waiting.append(go_on)
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._give_turn)

    async def wait(self) -> None:
        """Return when there is time for the caller's next slice: at once while the last turn that was given has some left."""
        self._slices_left -= 1
        if self._slices_left >= 0 and self._now_us() < self._ends_us:
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.call(lambda: None if turn.done() else turn.set_result(None))
        await turn
        self._slices_left = SLICES_MAX - 1
        self._ends_us = self._now_us() + TURN_US

    async def run(self, work: Generator[None, None, Result]) -> Result:
        """Drive a generator that yields after each slice; return, or raise, what it does."""
        while True:
            await self.wait()
            try:
                next(work)
            except StopIteration as end:
                result: Result = end.value
                return result

    def _end_round(self) -> None:
        self._is_in_round = False

    def _do_put_off(self) -> None:
        ends_us = self._now_us() + ROUND_US
        while self._put_off and self._now_us() < ends_us:
            self._put_off.popleft()()
        self._is_put_off_due = bool(self._put_off)
        if self._is_put_off_due:
            asyncio.get_running_loop().call_soon(self._do_put_off)

    def _give_turn(self) -> None:
        self._waiting.popleft()()
        self._is_due = bool(self._waiting)
        if self._is_due:
            asyncio.get_running_loop().call_soon(self._give_turn)
