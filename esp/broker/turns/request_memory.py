"""The memory that requests take while they arrive: ``queued.max.request.bytes`` (KIP-72).

A connection that is about to receive a large request asks first, and is read no further until there is room. Small requests fit into the
buffer that every connection has, and never wait. Invariant: at most the limit is given out, but for one request that is larger
than that by itself: it gets all, alone. The connection that has waited longest is next.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

FREE_BYTES: Final = 16 * 1024
"""Up to this size a request needs nothing: the buffer of a connection begins with as much."""

NO_LIMIT: Final = -1


class RequestMemory:
    """The memory that is given out, and the connections that wait for it.

    Args:
        limit_bytes: of all requests that arrive at one time; -1: no limit.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.taken_bytes = 0
        self._limit_bytes = limit_bytes
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def take(self, size: int, on_room: Callable[[], None]) -> bool:
        """Take ``size`` bytes if there is room, and no connection has waited for longer.

        Else ``on_room`` is called once when they have been taken, unless :meth:`leave` comes first.
        """
        if self._limit_bytes == NO_LIMIT or (not self._waiting and self._has_room(size)):
            self.taken_bytes += size
            return True
        self._waiting.append((size, on_room))
        return False

    def give_back(self, size: int) -> None:
        """Give back ``size`` bytes that are not needed any more."""
        self.taken_bytes -= size
        assert self.taken_bytes >= 0, "nothing is given back twice"
        self._go_on()

    def leave(self, on_room: Callable[[], None]) -> None:
        """Wait no more."""
        self._waiting = deque(entry for entry in self._waiting if entry[1] != on_room)
        self._go_on()

    def _has_room(self, size: int) -> bool:
        return self.taken_bytes + size <= self._limit_bytes or not self.taken_bytes

    def _go_on(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            size, on_room = self._waiting.popleft()
            self.taken_bytes += size
            on_room()
