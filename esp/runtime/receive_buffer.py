"""Where a connection's bytes arrive, so that a whole frame lies in one piece without having been copied together.

One bytearray, filled at its end and taken from its front. It grows only while bytes really arrive: a frame that merely claims to be large
gets at most four times what it has sent. :mod:`esp.runtime.buffer_sweeper` shrinks what has not been needed for a while.
"""

from collections.abc import Callable

INITIAL_BYTES = 16 * 1024
"""Enough for all requests but large produce; larger ones make small requests no cheaper."""

_GROWTH = 4  # a frame of 1 MiB is then copied for one third while the buffer grows, the first time


class ReceiveBuffer:
    """Received bytes that nobody took yet: ``[start, end)`` of the storage.

    Invariant: ``0 <= start <= end <= capacity``, and ``start`` is 0 whenever nothing is left.

    Args:
        on_grown: called when the buffer has outgrown its initial size.
    """

    __slots__ = ("_end", "_on_grown", "_peak", "_start", "_view", "_wanted", "capacity")

    def __init__(self, on_grown: Callable[["ReceiveBuffer"], None]) -> None:
        self.capacity = INITIAL_BYTES
        self._on_grown = on_grown
        self._view = memoryview(bytearray(INITIAL_BYTES))
        self._start = 0
        self._end = 0
        self._wanted = 0
        self._peak = 0

    def __len__(self) -> int:
        return self._end - self._start

    def expect(self, length: int) -> None:
        """The next bytes to be taken are ``length`` in one piece."""
        self._wanted = length

    def room(self) -> memoryview:
        """Return where to receive: never empty.

        Raises:
            AssertionError: the buffer is full, and its owner neither took bytes nor expects more.
        """
        if self._end == self.capacity or self._start + self._wanted > self.capacity:
            self._make_room()
        return self._view[self._end :]

    def received(self, count: int) -> None:
        """``count`` bytes stand at the front of the last :meth:`room`."""
        self._end += count

    def offer(self) -> memoryview:
        """All that was not taken yet."""
        start, end = self._start, self._end
        if end > self._peak:
            self._peak = end
        if end - start >= self._wanted:
            self._wanted = 0
        return self._view[start:end]

    def take(self, count: int) -> None:
        """Give up the first ``count`` bytes."""
        start = self._start + count
        assert self._start <= start <= self._end
        if start == self._end:
            self._start = self._end = 0
        else:
            self._start = start

    def shrink(self) -> bool:
        """Return to the initial size unless more was needed since the last call; whether the buffer has that size now."""
        needed = max(self._peak, self._wanted, len(self))
        self._peak = 0
        if needed <= INITIAL_BYTES < self.capacity:
            self._move(INITIAL_BYTES)
        return self.capacity == INITIAL_BYTES

    def _make_room(self) -> None:
        left = len(self)
        if left == self.capacity:
            assert self._wanted > left, "the owner of a full receive buffer took nothing and expects no more"
            self._move(min(self._wanted, left * _GROWTH))
            self._on_grown(self)
        elif self._start:
            self._view[:left] = self._view[self._start : self._end]
            self._start, self._end = 0, left

    def _move(self, capacity: int) -> None:
        left = len(self)
        view = memoryview(bytearray(capacity))
        view[:left] = self._view[self._start : self._end]
        self._view, self.capacity = view, capacity
        self._start, self._end = 0, left
