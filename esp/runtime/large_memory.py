"""Memory for what is large: the kernel zeroes it page by page as it is written to, and nobody waits for its being given back.

To give back tens of mebibytes takes the kernel milliseconds. Python's own ``mmap`` keeps the interpreter meanwhile, from all threads; here
a thread of its own does it, without the interpreter and in pieces, between which the process may map other things.
"""

import ctypes
import mmap
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from esp.runtime.libc import FAILED, madvise, mmap_memory, munmap

PIECE_BYTES: Final = 1024 * 1024
"""What is given back at a time: a fraction of a millisecond."""

_ANONYMOUS: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_READ_WRITE: Final = mmap.PROT_READ | mmap.PROT_WRITE


_returned: Final[SimpleQueue[tuple[int, int]]] = SimpleQueue()
_starting: Final = threading.Lock()
_giver: threading.Thread | None = None


class _Mapping(ctypes.Array[ctypes.c_char]):
    """Mapped memory; its views keep it. The length is a bound for any mapping: views are cut to what is mapped."""

    _type_ = ctypes.c_char
    _length_ = 2**40

    address: int
    size: int

    def __del__(self, give_back: Callable[[tuple[int, int]], None] = _returned.put) -> None:
        give_back((self.address, self.size))


def large_memory(size: int, *, in_small_pages: bool = False) -> memoryview:
    """That many bytes to write to, all zero.

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
    mapping = _Mapping.from_address(address)
    mapping.address, mapping.size = address, size
    if in_small_pages and hasattr(mmap, "MADV_NOHUGEPAGE"):
        madvise(address, size, mmap.MADV_NOHUGEPAGE)
    return memoryview(mapping).cast("B")[:size]


def _ensure_giver() -> None:
    global _giver  # noqa: PLW0603 - one for the process, as its memory is
    with _starting:
        if _giver is None:
            _giver = threading.Thread(target=_give_back, name="give memory back", daemon=True)
            _giver.start()


def _give_back() -> None:
    while True:
        address, size = _returned.get()
        for start in range(0, size, PIECE_BYTES):
            munmap(address + start, min(PIECE_BYTES, size - start))
