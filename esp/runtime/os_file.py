"""An append-only file of the operating system.

One handle at a time writes a file, and only through ``append`` and ``truncate``; so the length is known here without asking the kernel.
Every call comes from the node's loop, or from one thread while the loop leaves the file alone; work in the pools has its own descriptor.

Small reads that the page cache can answer are distinguished from reads that would wait for the device. Only Linux can do that (``preadv2``
with ``RWF_NOWAIT``). Elsewhere, and on file systems that refuse the flag, every byte counts as cached: a read may then hold up the caller,
which a development machine can bear. A sync waits until the device holds all written bytes.
"""

import asyncio
import errno
import fcntl
import os
import sys
from collections.abc import Sequence
from concurrent.futures import Executor

from esp.model.buffers import Buffer
from esp.runtime.mapped_views import MappedViews, WindowCache

if sys.platform == "darwin":

    def sync_data(fd: int) -> None:
        """Return when the file's bytes and length are on the device. There ``fsync`` stops at the drive's own cache."""
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)

else:

    def sync_data(fd: int) -> None:
        """Return when the file's bytes and length are on the device."""
        os.fdatasync(fd)


def sync_directory(path: str) -> None:
    """Return when the names in the directory are on the device."""
    fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)


def read_resident(fd: int, offset: int, length: int) -> bytearray | None:
    """Return exactly ``length`` bytes, which the file must have, or None if they are not all in the page cache."""
    buffer = bytearray(length)
    try:
        count = os.preadv(fd, (buffer,), offset, _NOWAIT)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        count = os.preadv(fd, (buffer,), offset)
    return buffer if count == length else None


MAPPED_BYTES = 128 * 1024
"""From this length on a cached read returns a view of the mapped file: below it, page faults and the look whether it is cached cost more
than a copy.
"""

_RECENT_BYTES = (
    8 * 1024 * 1024
)  # appended so lately that it is cached without a look; small, as a node has thousands of files
_BUFFERS_MAX = os.sysconf("SC_IOV_MAX")
_COPY_BYTES = 1024 * 1024


class OsFile:
    """One open file of the operating system (:class:`esp.ports.disk.File`).

    Args:
        path: names an existing file.
        flags: of ``os.open``.
        readers: where ``read`` waits for the device.
        syncers: where ``sync`` waits for it; a pool of its own, so that slow syncs do not hold up reads.
        windows: shared by all files of the disk.
    """

    __slots__ = ("_appended_from", "_fd", "_readers", "_size", "_sync_failed", "_syncers", "_views", "_windows", "path")

    def __init__(self, path: str, flags: int, readers: Executor, syncers: Executor, windows: WindowCache) -> None:
        self.path = path
        self._fd = os.open(path, flags, 0o644)
        self._size = os.fstat(self._fd).st_size
        self._appended_from = self._size
        self._readers = readers
        self._syncers = syncers
        self._windows = windows
        self._views = MappedViews(windows)
        self._sync_failed = False

    def size(self) -> int:
        """See :class:`esp.ports.disk.File`."""
        self._check_open()
        return self._size

    def append(self, buffers: Sequence[Buffer]) -> None:
        """See :class:`esp.ports.disk.File`."""
        count = len(buffers)
        if count == 1:  # a batch: cheaper than the call for many
            expected = len(buffers[0])
            written = os.pwrite(self._fd, buffers[0], self._size)
        elif count > _BUFFERS_MAX:
            for start in range(0, count, _BUFFERS_MAX):
                self.append(buffers[start : start + _BUFFERS_MAX])
            return
        else:
            expected = sum(map(len, buffers))
            written = os.pwritev(self._fd, buffers, self._size)
        self._size += written
        if written != expected:
            self._append_rest(buffers, written, expected)

    def read_cached(self, offset: int, length: int) -> Buffer | None:
        """See :class:`esp.ports.disk.File`."""
        length = min(length, self._size - offset)
        if length <= 0:
            self._check_open()
            return b""
        if length < MAPPED_BYTES:
            return read_resident(self._fd, offset, length)
        unsure = max(self._appended_from, self._size - _RECENT_BYTES) - offset
        try:
            return self._views.view(self._fd, offset, length, unsure=unsure)
        except OSError as error:
            if error.errno != errno.ENOMEM:
                raise
            return _read(self._fd, offset, length)

    async def read(self, offset: int, length: int) -> Buffer:
        """See :class:`esp.ports.disk.File`."""
        length = min(length, self._size - offset)
        fd = os.dup(self._fd)
        return await asyncio.get_running_loop().run_in_executor(self._readers, _read_and_close, fd, offset, length)

    def read_blocking(self, offset: int, length: int) -> Buffer:
        """See :class:`esp.ports.disk.File`."""
        self._check_open()
        return _read(self._fd, offset, min(length, self._size - offset))

    async def sync(self) -> None:
        """See :class:`esp.ports.disk.File`."""
        self._check_open()
        self._check_earlier_syncs()
        fd = os.dup(self._fd)
        try:
            await asyncio.get_running_loop().run_in_executor(self._syncers, _sync_and_close, fd)
        except OSError:
            self._sync_failed = True
            raise
        self._check_earlier_syncs()  # the kernel reports it to one of several callers only

    def sync_blocking(self) -> None:
        """See :class:`esp.ports.disk.File`."""
        self._check_open()
        self._check_earlier_syncs()
        try:
            sync_data(self._fd)
        except OSError:
            self._sync_failed = True
            raise

    def truncate(self, length: int) -> None:
        """See :class:`esp.ports.disk.File`.

        If a view of the bytes that are cut off is in use, the rest moves to a new inode and the old one lives on under that view: it takes
        a copy and a sync, on the calling thread.
        """
        self._check_open()
        if length > self._size:
            raise ValueError(f"{self.path} has {self._size} bytes and cannot be cut to {length}")
        if self._views.holds_beyond(length):
            self._move_to_new_inode(length)
        else:
            os.ftruncate(self._fd, length)
        self._size = length
        self._appended_from = min(self._appended_from, length)

    def close(self) -> None:
        """See :class:`esp.ports.disk.File`."""
        if self._fd >= 0:
            self._views.close()
            os.close(self._fd)
            self._fd = -1

    def _append_rest(self, buffers: Sequence[Buffer], written: int, expected: int) -> None:
        """Go on after a partial write, until all is written or an error gives the reason why it is not."""
        rest = memoryview(b"".join(buffers))[written:]
        while rest:
            count = os.pwrite(self._fd, rest, self._size)
            if count == 0:
                raise OSError(errno.EIO, f"wrote {expected - len(rest)} of {expected} bytes", self.path)
            self._size += count
            rest = rest[count:]

    def _move_to_new_inode(self, length: int) -> None:
        named, opened = os.stat(self.path), os.fstat(self._fd)
        if (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino):
            raise OSError(errno.ESTALE, "the file was renamed or replaced since it was opened", self.path)
        temporary = f"{self.path}.tmp"
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            for start in range(0, length, _COPY_BYTES):
                _write(fd, _read(self._fd, start, min(_COPY_BYTES, length - start)))
            sync_data(fd)
            os.replace(temporary, self.path)
        except OSError:
            os.close(fd)
            os.remove(temporary)
            raise
        os.close(self._fd)
        self._fd = fd
        self._views = MappedViews(self._windows)
        sync_directory(os.path.dirname(self.path))

    def _check_open(self) -> None:
        if self._fd < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)

    def _check_earlier_syncs(self) -> None:
        """Refuse after a failed sync: the kernel has marked the lost pages clean and would report success (SYNC-1)."""
        if self._sync_failed:
            raise OSError(errno.EIO, "an earlier sync of this file failed", self.path)


def _read(fd: int, offset: int, length: int) -> bytes:
    """Read ``length`` bytes, fewer at the end of the file; the kernel may deliver them in several pieces."""
    data = os.pread(fd, length, offset) if length > 0 else b""
    while len(data) < length:
        more = os.pread(fd, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _read_and_close(fd: int, offset: int, length: int) -> bytes:
    try:
        return _read(fd, offset, length)
    finally:
        os.close(fd)


def _sync_and_close(fd: int) -> None:
    try:
        sync_data(fd)
    finally:
        os.close(fd)
