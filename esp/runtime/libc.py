"""The C library's calls for mapped memory that Python's own ``mmap`` does not offer, or not without keeping the interpreter."""

import ctypes
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
"""What ``mmap`` returns that failed; ``ctypes.get_errno()`` says why."""
