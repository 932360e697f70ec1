"""The checks of passwords that take milliseconds: done in threads, a few at a time, the addresses of clients in turn."""

import asyncio
from collections import deque
from collections.abc import Callable

from esp.ports.cpu import Cpu


class PasswordChecks:
    """Gives checks their turns: an address that has many waits longer with each, and no other address waits for more than one of them.

    Args:
        cpu: the threads.
        at_a_time: the number of checks that run there at once.
    """

    def __init__(self, cpu: Cpu, at_a_time: int) -> None:
        self._cpu = cpu
        self._free = at_a_time
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """The checks that wait, by address; the address whose turn is next comes first."""

    async def run(self, host: str, is_right: Callable[[], bool], is_wanted: Callable[[], bool]) -> bool:
        """Return what ``is_right`` returns off the loop.

        Args:
            host: the address of the client.
            is_right: the check.
            is_wanted: asked when it is the check's turn: one that is not wanted any more is not made, and its result is False.
        """
        if self._free:
            self._free -= 1
        else:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(host, deque()).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    self._give_turn()
                raise
        try:
            return is_wanted() and await self._cpu.run(is_right)
        finally:
            self._give_turn()

    def _give_turn(self) -> None:
        """Let the next check be made in the place of one that has ended."""
        while self._waiting:
            host = next(iter(self._waiting))
            turns = self._waiting.pop(host)
            turn = turns.popleft()
            if turns:
                self._waiting[host] = turns
            if not turn.cancelled():
                turn.set_result(None)
                return
        self._free += 1
