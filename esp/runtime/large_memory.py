"""Memory for large objects: the kernel zeroes it page by page as it is written to, and no caller waits for its release.

While a thread gives memory back no other thread can map any, so pieces of a common size are kept for a while, with their old content.

To give back tens of mebibytes takes the kernel milliseconds. Python's own ``mmap`` keeps the interpreter meanwhile, from all threads; here
a thread of its own does it, without the interpreter and in pieces, between which the process may map other things. The C library's calls
are used directly, because Python's ``mmap`` does not offer some of them, or not without keeping the interpreter.
"""

import ctypes
import mmap
import os
import threading
import time
from collections import deque
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

_libc = ctypes.CDLL(None, use_errno=True)

mmap_memory = _libc.mmap
mmap_memory.restype = ctypes.c_void_p
mmap_memory.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_longlong)

munmap = _libc.munmap
munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)

madvise = _libc.madvise
madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

mincore = _libc.mincore
mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)

FAILED: Final = ctypes.c_void_p(-1).value
"""The result of a failed ``mmap``; ``ctypes.get_errno()`` is the reason."""


PIECE_BYTES: Final = 1024 * 1024
"""The bytes given back at a time: a fraction of a millisecond."""

SPARE_BYTES: Final = 1024 * 1024
"""The size of the pieces that are kept."""

SPARES_MAX: Final = 16
SPARE_S: Final = 10.0
"""Kept pieces are given back after this time at the latest."""

_ANONYMOUS: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_READ_WRITE: Final = mmap.PROT_READ | mmap.PROT_WRITE


_returned: Final[SimpleQueue[tuple[int, int]]] = SimpleQueue()
_spares: Final[deque[int]] = deque()
_starting: Final = threading.Lock()
_giver: threading.Thread | None = None


class _Mapping(ctypes.Array[ctypes.c_char]):
    """Mapped memory; its views keep it. The length is a bound for any mapping: views are cut to the mapped size."""

    _type_ = ctypes.c_char
    _length_ = 2**40

    address: int
    size: int

    def __del__(
        self,
        returned: SimpleQueue[tuple[int, int]] = _returned,
        spares: deque[int] = _spares,
        spare: tuple[int, int] = (SPARE_BYTES, SPARES_MAX),
    ) -> None:  # the arguments are there when the module has gone already
        size, count = spare
        if self.size == size and len(spares) < count:
            spares.append(self.address)
            returned.put((0, 0))
        else:
            returned.put((self.address, self.size))


def memory_as_it_was(size: int) -> memoryview:
    """Return ``size`` bytes to write to, at most :data:`SPARE_BYTES`, with anything in them that this process has had there before.

    Raises:
        OSError: there is no more memory, or no more mappings.
    """
    assert size <= SPARE_BYTES
    try:
        address = _spares.pop()
    except IndexError:
        return large_memory(SPARE_BYTES, in_small_pages=True)[:size]
    return _view_of(address, SPARE_BYTES)[:size]


def large_memory(size: int, *, in_small_pages: bool = False) -> memoryview:
    """Return ``size`` bytes to write to, all zero.

    Args:
        size: at least one byte.
        in_small_pages: whether one byte that is written must not take a huge page.

    Raises:
        OSError: there is no more memory, or no more mappings.
    """
    _ensure_giver()
    address = mmap_memory(None, size, _READ_WRITE, _ANONYMOUS, -1, 0)
    if address == FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    if in_small_pages and hasattr(mmap, "MADV_NOHUGEPAGE"):
        madvise(address, size, mmap.MADV_NOHUGEPAGE)
    return _view_of(address, size)


def _view_of(address: int, size: int) -> memoryview:
    mapping = _Mapping.from_address(address)
    mapping.address, mapping.size = address, size
    return memoryview(mapping).cast("B")[:size]


def _ensure_giver() -> None:
    global _giver  # noqa: PLW0603 - one for the process, as its memory is
    with _starting:
        if _giver is None:
            _giver = threading.Thread(target=_give_back, name="give memory back", daemon=True)
            _giver.start()


def _give_back() -> None:
    given_s = time.monotonic()
    while True:
        try:
            address, size = _returned.get(timeout=SPARE_S if _spares else None)
        except Empty:
            size = 0
        for start in range(0, size, PIECE_BYTES):
            munmap(address + start, min(PIECE_BYTES, size - start))
        if time.monotonic() - given_s >= SPARE_S:
            given_s = time.monotonic()
            _give_spares_back()


def _give_spares_back() -> None:
    with suppress(IndexError):  # another thread has taken the last one
        while _spares:
            munmap(_spares.pop(), SPARE_BYTES)
