"""Files and directories, as a log needs them.

Three kinds of calls, distinguished by name:

* plain ones return at once, because they touch the page cache or the directory cache only;
* ``async`` ones leave the event loop while the device works;
* ``*_blocking`` ones wait for the device: start-up, shutdown and worker threads (:class:`~esp.ports.cpu.Cpu`) call them, the loop does not.

Nothing that was written survives a power loss before ``sync`` returned: for a file's bytes its own ``sync``, for a name
(creation, rename, removal) the ``sync`` of its directory, for both that of the whole file system. All paths are absolute or relative
to the process, with ``/`` between parts.
Errors of the device and of the file system are ``OSError``.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from esp.model.buffers import Buffer


class Stat(NamedTuple):
    """A file or directory: its size in bytes, its modification time in milliseconds since the Unix epoch, whether a directory.

    ``identity`` tells a file from every other that is there at the same time: a copy has another one, and so has a file of the same name
    that was restored.
    """

    size: int
    modified_ms: int
    is_directory: bool
    identity: int


class File(Protocol):
    """An open file that grows at its end."""

    path: str

    def size(self) -> int:
        """The file's length in bytes, unsynced bytes included."""

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all ``buffers``, in order, at the end of the file, into the page cache.

        Raises:
            OSError: the device failed or is full; a prefix of the bytes may stand in the file (LOG-13: truncate it away).
        """

    def read_cached(self, offset: int, length: int) -> Buffer | None:
        """Return ``length`` bytes from ``offset`` (fewer at the end of the file), or None if they are not all in the page cache.

        The buffer does not change while it is referenced, also when the file is truncated, deleted or closed meanwhile;
        large ones are views of the mapped file and cost no copy.
        """

    async def read(self, offset: int, length: int) -> Buffer:
        """Read like :meth:`read_cached`, waiting for the device where it must, off the loop."""

    def read_blocking(self, offset: int, length: int) -> Buffer:
        """Read like :meth:`read`, on the calling thread."""

    async def sync(self) -> None:
        """Return when all bytes that were appended before the call are on the device. An error is final (SYNC-1)."""

    def sync_blocking(self) -> None:
        """Sync like :meth:`sync`, on the calling thread."""

    def truncate(self, length: int) -> None:
        """Cut the file to ``length`` bytes; buffers that were read before stay valid."""

    def close(self) -> None:
        """Let go of the file. Buffers that were read before stay valid; a second close does nothing."""


class Lock(Protocol):
    """A lock on a file that ends with the process at the latest."""

    def release(self) -> None:
        """Release the lock and remove its file."""


class FileSystem(Protocol):
    """The file system that holds a directory, for one sync of all its files.

    It vouches for the bytes and names that were written after it was opened, by this process or any other: a write-back that failed since
    then is an error of the next sync, also if another process was notified of it. An error of an earlier write-back may be unknown here.
    """

    def is_quicker_than(self, syncs: int) -> bool:
        """True if the file system can be synced as a whole, reports its errors then, and this is quicker than ``syncs`` single syncs."""

    def sync_blocking(self) -> None:
        """Return when all bytes and all names in the file system are on the device. An error is final (SYNC-1): each later call fails."""

    def close(self) -> None:
        """Let go of it; a second close does nothing."""


class Disk(Protocol):
    """The file system below the data directories."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file to read and append. With ``create`` it is made when missing; else FileNotFoundError is raised."""

    def exists(self, path: str) -> bool:
        """True if the path names a file or a directory."""

    def stat(self, path: str) -> Stat:
        """Raises FileNotFoundError if there is nothing of that name."""

    def listdir(self, path: str) -> list[str]:
        """The names in a directory, sorted."""

    def make_directory(self, path: str) -> None:
        """Make a directory and its missing parents; nothing happens if it is there."""

    def rename(self, old: str, new: str) -> None:
        """Give a file or directory another name, replacing a file of that name. Atomic."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all that is in it."""

    def read_file(self, path: str) -> bytes:
        """Return the bytes of a small file. Raises FileNotFoundError."""

    def write_file(self, path: str, data: bytes) -> None:
        """Make or replace a small file in place, without any promise for a crash; for promises see ``replace_file_blocking``."""

    def replace_file_blocking(self, path: str, data: bytes) -> None:
        """Replace a small file so that a crash leaves the old content or the new one, durably.

        It is written to ``<path>.tmp``, synced, renamed over, and the directory synced.
        """

    async def sync_directory(self, path: str) -> None:
        """Return when the names in a directory are on the device; waits off the loop."""

    def sync_directory_blocking(self, path: str) -> None:
        """Sync names like :meth:`sync_directory`, on the calling thread."""

    def file_system(self, path: str) -> FileSystem:
        """Open the file system that holds the directory ``path``. Raises OSError."""

    def lock(self, path: str) -> Lock | None:
        """Lock the file ``path``, made when missing; None if another process, or this one, holds it."""

    def free_bytes(self, path: str) -> int:
        """Bytes that can still be written on the device that holds ``path``."""

    def total_bytes(self, path: str) -> int:
        """Bytes that the device that holds ``path`` has altogether."""
