"""Views of a file's bytes without a copy, and the record of views in use.

Files are mapped in windows that later reads share: mapping each region on its own costs more than copying it. Measured over loopback, CPU
per MiB sent in reads of 1 MiB: copied 203 us, viewed through a window for the first time 167, and again (by the next consumer) 67.
Python's own ``mmap`` cannot map beyond the end of a file, where a log grows, hence ctypes. A window is unmapped when the cache has dropped
it and its last view is gone.

Cutting a file below bytes of a view in use would make touching them a SIGBUS and sending them an EFAULT; therefore the file asks
:meth:`MappedViews.holds_beyond` before it cuts.
"""

import ctypes
import mmap
import os
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from esp.runtime.large_memory import FAILED, mincore, mmap_memory, munmap

STRIDE_BYTES: Final = 4 * 1024 * 1024
"""Windows start at multiples of this and are two strides long, so that every read of up to a stride lies within one."""

_KNOWS_RESIDENCY: Final = sys.platform == "linux"  # elsewhere mincore reports other things; all counts as cached there

WINDOWS_MIN: Final = 32
"""Windows that are kept for later reads on the smallest machine, of all files together."""

WINDOWS_MAX: Final = 4096
"""And on the largest: a process may have 65,530 mappings."""

_MEMORY_SHARE: Final = 16
"""A window is kept for each stride of the machine's memory divided by this: the next consumer of the same bytes pays a third."""


class _Mapping(ctypes.Array[ctypes.c_char]):
    """Mapped memory; its views keep it. The length is a bound for any mapping: views are cut to the part that is mapped and in the file."""

    _type_ = ctypes.c_char
    _length_ = 2**40

    exposed_end: int
    """The file position up to which there have been views."""

    address: int
    size: int

    def __del__(self, munmap: Callable[[int, int], int] = munmap) -> None:
        munmap(self.address, self.size)


class _Window:
    __slots__ = ("_pages", "address", "mapping", "view")

    def __init__(self, fd: int, start: int, length: int) -> None:
        address = mmap_memory(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, start)
        if address == FAILED:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self.address = address
        self.mapping = _Mapping.from_address(address)
        self.mapping.exposed_end = 0
        self.mapping.address, self.mapping.size = address, length
        self.view = memoryview(self.mapping).cast("B").toreadonly()
        self._pages = bytearray(-(-length // mmap.PAGESIZE))

    def is_resident(self, start: int, end: int) -> bool:
        """True if ``[start, end)`` of the window is in the page cache. 3 us a MiB that was touched through the window, 16 us otherwise."""
        if not _KNOWS_RESIDENCY:
            return True
        start -= start % mmap.PAGESIZE
        pages = self._pages
        if mincore(self.address + start, end - start, (ctypes.c_char * len(pages)).from_buffer(pages)) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return pages.find(0, 0, -(-(end - start) // mmap.PAGESIZE)) < 0


def count_windows(memory_bytes: int) -> int:
    """The number of windows that a machine with that much memory keeps."""
    return min(max(memory_bytes // _MEMORY_SHARE // STRIDE_BYTES, WINDOWS_MIN), WINDOWS_MAX)


class WindowCache:
    """The windows used last, of all files of a disk.

    Args:
        windows_max: how many are kept; by the machine's memory if not given. What is mapped was in the page cache before, and the kernel
            takes it back like anything there; but it counts as the process's resident memory.
    """

    def __init__(self, windows_max: int | None = None) -> None:
        if windows_max is None:
            windows_max = count_windows(os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE)
        self._windows_max = windows_max
        self._owners = 0
        self._windows: OrderedDict[tuple[int, int], _Window] = OrderedDict()

    def new_owner(self) -> int:
        """Return a number that no owner had before: a file that was never closed may leave its windows here."""
        self._owners += 1
        return self._owners

    def get(self, owner: int, index: int) -> _Window | None:
        """Return the owner's window of that index, if it is still here."""
        window = self._windows.get((owner, index))
        if window is not None:
            self._windows.move_to_end((owner, index))
        return window

    def put(self, owner: int, index: int, window: _Window) -> None:
        """Keep a window, in place of the one that was not used for longest."""
        self._windows[owner, index] = window
        if len(self._windows) > self._windows_max:
            self._windows.popitem(last=False)

    def drop(self, owner: int) -> None:
        """Forget all windows of an owner."""
        for key in [key for key in self._windows if key[0] == owner]:
            del self._windows[key]


class MappedViews:
    """The views of one file."""

    __slots__ = ("_alive", "_cache", "_owner")

    def __init__(self, cache: WindowCache) -> None:
        self._cache = cache
        self._owner = cache.new_owner()
        self._alive: list[weakref.ref[_Mapping]] = []

    def view(self, fd: int, offset: int, length: int, *, unsure: int) -> memoryview | None:
        """Return a read-only view of ``[offset, offset + length)``, which the file must have.

        The first ``unsure`` bytes are looked for in the page cache; None if they are not all there.

        Raises:
            OSError: no more memory or mappings.
        """
        index = offset // STRIDE_BYTES
        start = offset - index * STRIDE_BYTES
        end = start + length
        if end > 2 * STRIDE_BYTES:  # a mapping of its own, for this view only
            window = self._map(fd, index * STRIDE_BYTES, end)
        else:
            found = self._cache.get(self._owner, index)
            if found is None:
                window = self._map(fd, index * STRIDE_BYTES, 2 * STRIDE_BYTES)
                self._cache.put(self._owner, index, window)
            else:
                window = found
        if unsure > 0 and not window.is_resident(start, min(start + unsure, end)):
            return None
        mapping = window.mapping
        if offset + length > mapping.exposed_end:
            mapping.exposed_end = offset + length
        return window.view[start:end]

    def holds_beyond(self, length: int) -> bool:
        """True if a view is in use of a window that has shown bytes at or beyond ``length``; forgets the windows without views."""
        self.close()
        alive = [mapping for reference in self._alive if (mapping := reference()) is not None]
        return any(mapping.exposed_end > length for mapping in alive)

    def close(self) -> None:
        """Keep no window; views stay valid."""
        if self._alive:  # most files were never viewed, and the cache is large
            self._cache.drop(self._owner)

    def _map(self, fd: int, start: int, length: int) -> _Window:
        window = _Window(fd, start, length)
        self._alive = [reference for reference in self._alive if reference() is not None]
        self._alive.append(weakref.ref(window.mapping))
        return window
