"""The memory in which a connection's bytes arrive, so that a whole frame lies in one piece without having been copied together.

One piece of memory, filled at its end and taken from its front. It grows only while bytes really arrive: a frame that merely claims to be
large gets at most four times the bytes it has sent. For one beyond :data:`ZEROED_BYTES_MAX` it is a mapping of the frame's whole size, of
which the kernel hands out a page when the first byte comes there: memory again in proportion to the bytes sent, without a moment in which
megabytes are zeroed or copied. :mod:`esp.runtime.buffer_sweeper` shrinks buffers whose size has not been needed for a while.

Buffers whose bytes are nearly always taken at once and as a whole, and of which no view is kept, may receive into memory that they have in
common: idle connections have none of their own then.
"""

from collections.abc import Callable
from typing import Final

from esp.runtime.large_memory import SPARE_BYTES, large_memory, memory_as_it_was

INITIAL_BYTES = 16 * 1024
"""Enough for all requests but large produce; larger ones make small requests no cheaper."""

ZEROED_BYTES_MAX = 256 * 1024
"""The largest buffer that is zeroed as a whole when it is made, which holds up the loop; ordinary batches need no larger one."""

RECEIVED_AT_ONCE_MAX = 1024 * 1024
"""The most that is received in one go: a socket may hold tens of megabytes, whose copying holds up the loop. Requests of producers have at
most this size unless they are configured otherwise, and are not to be interrupted."""

RECEIVED_PER_TURN_MAX = 64 * 1024
"""As much of a larger frame, which others have their turns between: a tenth of a millisecond when its memory is new."""

RECEIVED_UNNOTICED_MAX = 32 * 1024
"""Up to this much of such a frame arrives without a turn having been taken for it: a sender of so little at a time sends little in all."""

_NONE_YET: Final = memoryview(b"")

_GROWTH = 4  # a frame of 256 KiB is then copied for one third while the buffer grows, the first time


class ReceiveBuffer:
    """Received bytes that the owner has not taken yet: ``[start, end)`` of the storage.

    Invariant: ``0 <= start <= end <= capacity``, and ``start`` is 0 whenever nothing is left. ``end`` and ``wanted`` are
    set from outside: with every read, and by the owner. The memory is there from the first read on.

    Args:
        on_grown: called when the buffer has outgrown its initial size, or left the memory that it has in common.
        initial_bytes: its size until a larger frame arrives.
    """

    __slots__ = ("_initial_bytes", "_on_grown", "capacity", "common", "end", "peak", "start", "view", "wanted")

    def __init__(self, on_grown: Callable[["ReceiveBuffer"], None], initial_bytes: int = INITIAL_BYTES) -> None:
        self._initial_bytes = self.capacity = initial_bytes
        self._on_grown = on_grown
        self.view = _NONE_YET
        self.common: memoryview | None = None
        """See :meth:`share`."""
        self.start = 0
        self.end = 0
        self.wanted = 0
        """Length of the piece that the owner waits for; 0 if it waits for none."""
        self.peak = 0
        """The most that lay here since the last :meth:`shrink`."""

    def __len__(self) -> int:
        return self.end - self.start

    def room(self) -> memoryview:
        """Return the memory to receive into: never empty. The caller moves ``end``.

        Raises:
            AssertionError: the buffer is full, and its owner neither took bytes nor expects more.
        """
        end = self.end
        if not end and self.wanted <= self.capacity <= RECEIVED_AT_ONCE_MAX:  # almost always
            return self.view or self._first()
        if not self.view:
            self._first()
        if end == self.capacity or self.start + self.wanted > self.capacity:
            self._make_room()
            end = self.end
        return self.view[end : end + (RECEIVED_PER_TURN_MAX if self.is_large else RECEIVED_AT_ONCE_MAX)]

    def _first(self) -> memoryview:
        self.view = _storage(self._initial_bytes)
        return self.view

    def share(self, common: memoryview) -> None:
        """Receive into memory that other buffers have too. After a read that leaves bytes here :meth:`keep` is called."""
        if self.view is self.common or not self.view:
            assert not self.end, "what was not taken has been kept"
            self.view, self.capacity = common, len(common)
        self.common = common

    def keep(self) -> None:
        """Let the bytes that were not taken stay, also where they lie in memory that others receive into next."""
        if self.end and self.view is self.common:
            self._move(min(self.capacity, max(self._initial_bytes, len(self) * _GROWTH)))
            self._on_grown(self)

    @property
    def is_large(self) -> bool:
        """True if the wanted bytes are received in turns."""
        return self.wanted > RECEIVED_AT_ONCE_MAX

    def offer(self) -> memoryview:
        """All bytes that were not taken yet; the owner wants no particular number until it calls ``expect`` again."""
        self.wanted = 0
        if self.end > self.peak:
            self.peak = self.end
        return self.view[self.start : self.end]

    def take(self, count: int) -> None:
        """Give up the first ``count`` bytes."""
        start = self.start + count
        assert self.start <= start <= self.end
        if start == self.end:
            self.start = self.end = 0
        else:
            self.start = start

    def shrink(self) -> bool:
        """Return to the initial size unless more was needed since the last call; True if the buffer has that size now, or none.

        It stays as it is if the bytes that were not taken would fill that size: the owner may take them later, and the transport may go on
        receiving until then.
        """
        needed, initial = max(self.peak, self.wanted, len(self) + 1), self._initial_bytes
        self.peak = 0
        if self.common is not None:
            if needed <= len(self.common) and not self.end:
                self.view, self.capacity = self.common, len(self.common)
            return self.view is self.common
        if needed <= initial < self.capacity:
            self._move(initial)
        return self.capacity == initial

    def _make_room(self) -> None:
        left = len(self)
        if left == self.capacity:
            assert self.wanted > left, "the owner of a full receive buffer took nothing and expects no more"
            self._move(self.wanted if self.wanted > ZEROED_BYTES_MAX else min(self.wanted, left * _GROWTH))
            self._on_grown(self)
        elif self.start:
            self.view[:left] = self.view[self.start : self.end]
            self.start, self.end = 0, left

    def _move(self, capacity: int) -> None:
        left = len(self)
        view = _storage(capacity)
        view[:left] = self.view[self.start : self.end]
        self.view, self.capacity = view, capacity
        self.start, self.end = 0, left


def _storage(capacity: int) -> memoryview:
    if capacity <= ZEROED_BYTES_MAX:
        return memoryview(bytearray(capacity))
    if capacity <= SPARE_BYTES:
        return memory_as_it_was(capacity)
    return large_memory(capacity, in_small_pages=True)  # one byte in a huge page would take 2 MiB
