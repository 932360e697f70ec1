"""Turns for connections that have large frames under way, in either direction.

Receiving into fresh memory costs about half a millisecond a mebibyte, mostly the kernel's zeroing of pages. A connection with an unfinished
large frame stops after each read, of :data:`~esp.runtime.receive_buffer.RECEIVED_PER_TURN_MAX` at most, and queues up here; in each turn of
the loop the next one goes on. So do connections that have much to encrypt or to decrypt, piece by piece. So a turn is short for all other
connections, however many large frames there are.
"""

import asyncio
from collections import deque
from collections.abc import Callable


class TransferTurns:
    """First come, first served; runs on the loop in which :meth:`wait` is called."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` in one of the next turns of the loop."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._waiting.append(go_on)

    def _begin_turn(self) -> None:
        go_on = self._waiting[
            0
        ]  # it stays there until it has gone on: if it waits again, the next turn is asked for once
        go_on()
        self._waiting.popleft()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._begin_turn)
