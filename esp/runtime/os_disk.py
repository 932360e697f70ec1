"""The operating system's files and directories, and a lock between processes, which the kernel ends with the process."""

import asyncio
import fcntl
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from stat import S_ISDIR
from typing import Final

from esp.ports.disk import File, FileSystem, Lock, Stat
from esp.runtime.mapped_views import WindowCache
from esp.runtime.os_file import OsFile, sync_data, sync_directory
from esp.runtime.os_file_system import OsFileSystem

ORPHAN_END_S: Final = 2.0
"""The time in which the worker process of a node that was killed, which still has the node's locks, has ended."""

_LOCK_POLL_S: Final = 0.01


class OsLock:
    """A lock on a file between processes (:class:`esp.ports.disk.Lock`). Made by :func:`take_lock`."""

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd

    @property
    def fd(self) -> int:
        """The file descriptor; -1 once the lock is released. A process that inherits it has the lock too, until both have closed it."""
        return self._fd

    def release(self) -> None:
        """See :class:`esp.ports.disk.Lock`."""
        if self._fd >= 0:
            if _names(self._path, self._fd):
                os.remove(self._path)
            os.close(self._fd)
            self._fd = -1


def take_lock(path: str) -> OsLock | None:
    """Lock the file, made when missing; None if it is locked already, by this process or another."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        if _names(path, fd):
            return OsLock(path, fd)
        # Its holder released and removed it between our open and our lock: the file that is locked has no name any more.
        os.close(fd)


def _names(path: str, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False


class OsDisk:
    """The file system of the operating system (:class:`esp.ports.disk.Disk`).

    Args:
        read_threads: the number of cold reads that wait for devices at a time: as many as a disk array takes in parallel.
        sync_threads: how many syncs do.
    """

    def __init__(self, *, read_threads: int = 8, sync_threads: int = 4) -> None:
        self._readers = ThreadPoolExecutor(read_threads, thread_name_prefix="disk-read")
        self._windows = WindowCache()
        self._syncers = ThreadPoolExecutor(sync_threads, thread_name_prefix="disk-sync")
        self._locks: list[OsLock] = []

    def open(self, path: str, *, create: bool = False) -> File:
        """See :class:`esp.ports.disk.Disk`."""
        return OsFile(
            path, os.O_RDWR | os.O_CREAT if create else os.O_RDWR, self._readers, self._syncers, self._windows
        )

    def exists(self, path: str) -> bool:
        """See :class:`esp.ports.disk.Disk`."""
        return os.path.lexists(path)

    def stat(self, path: str) -> Stat:
        """See :class:`esp.ports.disk.Disk`."""
        found = os.stat(path)
        is_directory = S_ISDIR(found.st_mode)
        identity = found.st_dev << 64 | found.st_ino
        return Stat(0 if is_directory else found.st_size, found.st_mtime_ns // 1_000_000, is_directory, identity)

    def listdir(self, path: str) -> list[str]:
        """See :class:`esp.ports.disk.Disk`."""
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        """See :class:`esp.ports.disk.Disk`."""
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        """See :class:`esp.ports.disk.Disk`."""
        os.replace(old, new)

    def remove(self, path: str) -> None:
        """See :class:`esp.ports.disk.Disk`."""
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        """See :class:`esp.ports.disk.Disk`."""
        shutil.rmtree(path)

    def read_file(self, path: str) -> bytes:
        """See :class:`esp.ports.disk.Disk`."""
        with open(path, "rb") as file:
            return file.read()

    def write_file(self, path: str, data: bytes) -> None:
        """See :class:`esp.ports.disk.Disk`."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]
        finally:
            os.close(fd)

    def replace_file_blocking(self, path: str, data: bytes) -> None:
        """See :class:`esp.ports.disk.Disk`."""
        temporary = f"{path}.tmp"
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            sync_data(file.fileno())
        os.replace(temporary, path)
        sync_directory(os.path.dirname(path))

    async def sync_directory(self, path: str) -> None:
        """See :class:`esp.ports.disk.Disk`."""
        await asyncio.get_running_loop().run_in_executor(self._syncers, sync_directory, path)

    def sync_directory_blocking(self, path: str) -> None:
        """See :class:`esp.ports.disk.Disk`."""
        sync_directory(path)

    def file_system(self, path: str) -> FileSystem:
        """See :class:`esp.ports.disk.Disk`."""
        return OsFileSystem(path)

    def lock(self, path: str) -> Lock | None:
        """See :class:`esp.ports.disk.Disk`. A lock that is held is asked for again for a while (:data:`ORPHAN_END_S`)."""
        end_s = time.monotonic() + ORPHAN_END_S
        while (lock := take_lock(path)) is None and time.monotonic() < end_s:
            time.sleep(_LOCK_POLL_S)
        if lock is not None:
            self._locks.append(lock)
        return lock

    def held_locks(self) -> tuple[int, ...]:
        """The file descriptors of the locks that are held, for a process that writes in their directories as well."""
        self._locks = [lock for lock in self._locks if lock.fd >= 0]
        return tuple(lock.fd for lock in self._locks)

    def free_bytes(self, path: str) -> int:
        """See :class:`esp.ports.disk.Disk`."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def total_bytes(self, path: str) -> int:
        """See :class:`esp.ports.disk.Disk`."""
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize
