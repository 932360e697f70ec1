"""The sync of a whole file system, by Linux's ``syncfs``, where its answer can be relied on.

``syncfs`` reports a write-back that has failed since the descriptor was opened, whichever file it was for and whichever process has been
told of it before: the kernel counts such errors for each file system, and each descriptor remembers the count at which it was opened or
synced last. Three things bound that:

* The count is kept since Linux 5.8. Before, ``syncfs`` returned success whatever had happened to the data.
* A file system decides by itself what ``syncfs`` does. FUSE does not pass it on to the program that serves the files, and overlayfs does
  not pass on the count of the file system below it. So it is called for ext4 and XFS alone, which write the data, commit the journal and
  flush the cache of the drive.
* Until Linux 5.17 an error of the file system's journal is not returned. Nothing that is synced file by file succeeds after one, so that
  the caller sees it as long as it syncs a file afterwards.
"""

import ctypes
import errno
import os
import sys
from functools import cache
from typing import Final

FILE_SYSTEMS: Final = frozenset({0xEF53, 0x58465342})
"""The magic numbers of ext4, which are those of ext2 and ext3 too, and of XFS (``statfs(2)``)."""

LINUX_MIN: Final = (5, 8)
SYNCS_MIN: Final = 512
"""The number of single syncs that take as long, on ext4, as syncs of a file system to which other programs write too."""

_STATFS_BYTES: Final = 256
"""More than the structure has on any machine: 120 bytes on most."""


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fstatfs.argtypes = (ctypes.c_int, ctypes.c_char_p)
    libc.syncfs.argtypes = (ctypes.c_int,)
    return libc


def reports_errors(platform: str, release: str) -> bool:
    """True if the kernel of that name and version (as in ``os.uname``) reports failed write-backs of data by ``syncfs``."""
    version = release.split("-", maxsplit=1)[0].split(".")
    if platform != "linux" or len(version) < len(LINUX_MIN) or not all(part.isdecimal() for part in version[:2]):
        return False
    return (int(version[0]), int(version[1])) >= LINUX_MIN


def magic_number(fd: int) -> int:
    """The kind of file system that holds an open file, by ``fstatfs``; 0 if it cannot be found out."""
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if _libc().fstatfs(fd, buffer) != 0:
        return 0
    return ctypes.c_long.from_buffer(
        buffer
    ).value  # the first field; where it is shorter than that, the number is none that is known


class OsFileSystem:
    """See :class:`esp.ports.disk.FileSystem`.

    Args:
        path: a directory in it.

    Raises:
        OSError: the directory cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY)
        self._failure: OSError | None = None

    def is_quicker_than(self, syncs: int) -> bool:
        """See :class:`esp.ports.disk.FileSystem`."""
        return (
            syncs >= SYNCS_MIN
            and reports_errors(sys.platform, os.uname().release)
            and magic_number(self._fd) in FILE_SYSTEMS
        )

    def sync_blocking(self) -> None:
        """See :class:`esp.ports.disk.FileSystem`."""
        if self._failure is not None:
            raise self._failure
        if self._fd < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)
        if _libc().syncfs(self._fd) != 0:
            number = ctypes.get_errno()
            self._failure = OSError(number, os.strerror(number), self._path)
            raise self._failure

    def close(self) -> None:
        """See :class:`esp.ports.disk.FileSystem`."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
