"""A disk in memory that forgets, tears, fails and fills up as a real one may, by seed.

It is at least as harsh as Linux: bytes need the sync of their file, names that of their directory, and neither brings the other along.
Tests and the simulator drive the misfortunes; an operator puts another disk in its place.
"""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from random import Random

from esp.model.buffers import Buffer
from esp.ports.disk import File, FileSystem, Lock, Stat
from esp.simulation.machine.directory_tree import Change, Directory, DirectoryTree, file_error
from esp.simulation.machine.disk_faults import DiskFaults, Fault, Operation, ProcessKilledError
from esp.simulation.machine.file_content import FileContent

_VIEW_BYTES = 4096  # from here on reads return a memoryview, as the real disk does for large ones


def _nothing(_operation: Operation | None) -> None:
    """Do nothing."""


async def _yield_once(_operation: Operation, _size: int) -> None:
    await asyncio.sleep(0)


class SimulatedFile:
    """An open file of a :class:`SimulatedDisk`; dead once the disk crashed or lost power."""

    def __init__(self, disk: "SimulatedDisk", path: str, content: FileContent) -> None:
        self.path = path
        self._disk = disk
        self._content = content
        self._process = disk.process
        self._closed = False
        self._sync_failed = False

    def size(self) -> int:
        """See :class:`esp.ports.disk.File`."""
        self._check_open()
        return len(self._content.cached)

    def append(self, buffers: Sequence[Buffer]) -> None:
        """See :class:`esp.ports.disk.File`. A failing or killed append leaves a random prefix of its bytes."""
        self._disk.on_operation("write")
        self._check_open()
        self._disk.write(self.path, self._content, b"".join(buffers))

    def read_cached(self, offset: int, length: int) -> Buffer | None:
        """See :class:`esp.ports.disk.File`."""
        self._check_open()
        end = min(offset + length, len(self._content.cached))
        if not self._content.is_resident(offset, end):
            return None
        return _as_buffer(self._content, offset, end)

    async def read(self, offset: int, length: int) -> Buffer:
        """See :class:`esp.ports.disk.File`."""
        self._check_open()
        await self._disk.wait("read", length)
        self._check_alive()
        return self._read(offset, length)

    def read_blocking(self, offset: int, length: int) -> Buffer:
        """See :class:`esp.ports.disk.File`."""
        self._disk.on_operation("read")
        self._check_open()
        return self._read(offset, length)

    async def sync(self) -> None:
        """See :class:`esp.ports.disk.File`."""
        self._check_open()
        pending = self._content.begin_sync()
        await self._disk.wait("sync", len(pending.sectors))
        self._check_alive()
        self._check_sync()
        self._content.finish_sync(pending)

    def sync_blocking(self) -> None:
        """See :class:`esp.ports.disk.File`."""
        self._check_open()
        pending = self._content.begin_sync()
        self._disk.on_operation("sync")
        self._check_alive()
        self._check_sync()
        self._content.finish_sync(pending)

    def truncate(self, length: int) -> None:
        """See :class:`esp.ports.disk.File`."""
        self._disk.on_operation("write")
        self._check_open()
        size = len(self._content.cached)
        if length > size:
            raise ValueError(f"{self.path} has {size} bytes and cannot be cut to {length}")
        self._disk.faults.check("write", self.path)
        self._content.truncate(length)
        self._disk.give_back(size - length)

    def close(self) -> None:
        """See :class:`esp.ports.disk.File`."""
        self._closed = True

    def _read(self, offset: int, length: int) -> Buffer:
        self._disk.faults.check("read", self.path)
        end = min(offset + length, len(self._content.cached))
        self._content.load(offset, end)
        return _as_buffer(self._content, offset, end)

    def _check_alive(self) -> None:
        if self._process != self._disk.process:
            raise AssertionError(f"{self.path} was opened by a process that is dead")

    def _check_open(self) -> None:
        self._check_alive()
        if self._closed:
            raise file_error(errno.EBADF, self.path)

    def _check_sync(self) -> None:
        """Fail if the device does. Later syncs through this handle stay failed; a new handle is told, wrongly, that all is well."""
        if self._sync_failed:
            raise file_error(errno.EIO, self.path)
        try:
            self._disk.faults.check("sync", self.path)
        except OSError:
            self._sync_failed = True
            self._disk.on_failed_sync(self._content)
            raise


class SimulatedFileSystem:
    """All of a :class:`SimulatedDisk`, for one sync; see :class:`esp.ports.disk.FileSystem`.

    A fault of any file that is not synced, or of a directory with such names, makes it fail; the others reach the device all the same.
    """

    def __init__(self, disk: "SimulatedDisk", path: str) -> None:
        self._disk = disk
        self._path = path
        self._process = disk.process
        self._seen_failures = disk.failed_syncs
        self._has_failed = False
        self._closed = False

    def is_quicker_than(self, syncs: int) -> bool:
        """See :class:`esp.ports.disk.FileSystem`."""
        return syncs >= self._disk.syncs_as_whole

    def sync_blocking(self) -> None:
        """See :class:`esp.ports.disk.FileSystem`. While the thread waits for the device, the power may fail, as at any sync."""
        disk = self._disk
        if self._process != disk.process:
            raise AssertionError("the process that opened the file system is dead")
        if self._closed:
            raise file_error(errno.EBADF, self._path)
        if disk.sync_all_blocking() or disk.failed_syncs != self._seen_failures:
            self._has_failed = True
        if self._has_failed:
            raise file_error(errno.EIO, self._path)

    def close(self) -> None:
        """See :class:`esp.ports.disk.FileSystem`."""
        self._closed = True


class SimulatedLock:
    """A lock of a :class:`SimulatedDisk`."""

    def __init__(self, disk: "SimulatedDisk", path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        """See :class:`esp.ports.disk.Lock`."""
        if self._disk.locks.get(self._path) is self:
            del self._disk.locks[self._path]
            if self._disk.exists(self._path):
                self._disk.remove(self._path)


class SimulatedDisk:
    """A :class:`esp.ports.disk.Disk` in memory.

    Args:
        rng: decides what survives; its own stream, so that a seed replays a run.
        now_ms: the wall clock for modification times.
        wait: awaited before an asynchronous read (with the number of bytes) or sync (with the number of dirty sectors or names) takes
            effect: the simulator's place for latency. By default it yields to the loop once.
    """

    def __init__(
        self,
        rng: Random,
        *,
        now_ms: Callable[[], int] = lambda: 0,
        wait: Callable[[Operation, int], Awaitable[None]] = _yield_once,
    ) -> None:
        self.rng = rng
        self.wait = wait
        self.faults = DiskFaults()
        self.process = 0
        """Rises with every crash; open files belong to the process that opened them."""
        self.locks: dict[str, SimulatedLock] = {}
        self.on_operation: Callable[[Operation | None], object] = _nothing
        """Called before each operation that is not asynchronous, also one that only looks (None): a worker thread may be held up there.
        For a sync, once it is decided what it makes durable."""
        self.syncs_as_whole: float = inf
        """From this number of syncs on, one of the whole file system is quicker; infinite where there is none. Assignable at any time."""
        self.failed_syncs = 0
        """Rises with each sync that fails, whichever file or file system it was of."""
        self._now_ms = now_ms
        self._tree = DirectoryTree()
        self._free: int | None = None
        self._stats = 0

    # --- misfortunes -------------------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """End the process that uses the disk, without any of its clean-up. The disk is ready for the next one."""
        self.process += 1
        self.locks.clear()
        self.faults.kill_at = None
        self.faults.killed = False

    def power_loss(self, rng: Random | None = None) -> None:
        """Crash, and lose a random part of what was not synced."""
        self.crash()
        self._tree.lose_power(rng or self.rng)

    def install(self, tree: DirectoryTree) -> None:
        """Crash, and hold what another disk holds from now on."""
        self.crash()
        self._tree = tree

    def kill_after(self, changes: int) -> None:
        """Let ``changes`` more operations other than reads begin; the next one, and all that follow until a crash, raise
        ProcessKilledError.
        """
        self.faults.kill_at = self.faults.changes + changes

    def fail(
        self, operation: Operation, pattern: str = "*", *, error: int = errno.EIO, after: int = 0, times: int = 1
    ) -> None:
        """Make ``times`` operations on paths like ``pattern`` (``*`` and ``?`` as in a shell) fail, once ``after`` of them have passed."""
        self.faults.faults.append(Fault(operation, pattern, error, after, times))

    def fill_up(self, free: int) -> None:
        """Leave room for ``free`` more bytes: what exceeds them fails with ENOSPC after a partial write."""
        self._free = free

    def heal(self) -> None:
        """Undo all :meth:`fail` and :meth:`fill_up`."""
        self.faults.faults.clear()
        self._free = None

    @property
    def is_disturbed(self) -> bool:
        """True if :meth:`fail` or :meth:`fill_up` are in force."""
        return self._free is not None or any(fault.times for fault in self.faults.faults)

    def corrupt(self, path: str, offset: int, mask: int = 1) -> None:
        """Flip the bits of ``mask`` in one byte of a file, for every reader and for ever."""
        self._file(path).flip(offset, mask)

    def make_cold(self, path: str, start: int = 0, end: int | None = None) -> None:
        """Drop the clean sectors of ``[start, end)`` from the page cache, so that ``read_cached`` returns None until they are read."""
        content = self._file(path)
        content.evict(start, len(content.cached) if end is None else end)

    def unsynced_bytes(self, path: str) -> bool:
        """True if a power loss now could cost the file anything but its name."""
        content = self._file(path)
        return content.cached != content.durable

    def content(self, path: str) -> FileContent | None:
        """The content of a file, for an observer outside the node; None if there is no such file."""
        node = self._tree.find(path)
        return node if isinstance(node, FileContent) else None

    def names(self, path: str) -> list[str]:
        """The names in a directory, for an observer outside the node."""
        return sorted(self._tree.directory(path).names)

    # --- the port ----------------------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> File:
        """See :class:`esp.ports.disk.Disk`."""
        self.on_operation(None)
        directory, name = self._tree.parent(path)
        if name not in directory.names and create:
            self.faults.check("create", path)
            self._tree.change(Change(directory, name, FileContent(self._now_ms())))
        return SimulatedFile(self, path, self._file(path))

    def exists(self, path: str) -> bool:
        """See :class:`esp.ports.disk.Disk`."""
        self.on_operation(None)
        return self._tree.find(path) is not None

    def stat(self, path: str) -> Stat:
        """See :class:`esp.ports.disk.Disk`."""
        self.on_operation(None)
        node = self._tree.find(path)
        if node is None:
            raise file_error(errno.ENOENT, path)
        if isinstance(node, Directory):
            return Stat(0, 0, is_directory=True, identity=0)
        self._stats += 1
        return Stat(len(node.cached), node.modified_ms, is_directory=False, identity=node.identify(self._stats))

    def listdir(self, path: str) -> list[str]:
        """See :class:`esp.ports.disk.Disk`."""
        self.on_operation(None)
        return sorted(self._tree.directory(path).names)

    def make_directory(self, path: str) -> None:
        """See :class:`esp.ports.disk.Disk`."""
        self.on_operation("create")
        self.faults.check("create", path)
        self._tree.make(path)

    def rename(self, old: str, new: str) -> None:
        """See :class:`esp.ports.disk.Disk`."""
        self.on_operation("rename")
        self.faults.check("rename", old)
        old_directory, old_name = self._tree.parent(old)
        new_directory, new_name = self._tree.parent(new)
        node = old_directory.names.get(old_name)
        if node is None:
            raise file_error(errno.ENOENT, old)
        target = new_directory.names.get(new_name)
        if target is node:
            return
        if isinstance(node, Directory) and node.holds(new_directory):
            raise file_error(errno.EINVAL, new)
        if isinstance(target, Directory):
            if not isinstance(node, Directory):
                raise file_error(errno.EISDIR, new)
            if target.names:
                raise file_error(errno.ENOTEMPTY, new)
        elif isinstance(target, FileContent):
            if isinstance(node, Directory):
                raise file_error(errno.ENOTDIR, new)
            self.give_back(len(target.cached))
        self._tree.change(Change(old_directory, old_name, None), Change(new_directory, new_name, node))

    def remove(self, path: str) -> None:
        """See :class:`esp.ports.disk.Disk`."""
        self.on_operation("remove")
        self.faults.check("remove", path)
        content = self._file(path)
        directory, name = self._tree.parent(path)
        self._tree.change(Change(directory, name, None))
        self.give_back(len(content.cached))

    def remove_tree(self, path: str) -> None:
        """See :class:`esp.ports.disk.Disk`. One operation per name, so that it can stop half-way."""
        for name in self.listdir(path):
            below = f"{path}/{name}"
            if isinstance(self._tree.find(below), Directory):
                self.remove_tree(below)
            else:
                self.remove(below)
        self.faults.check("remove", path)
        directory, name = self._tree.parent(path)
        self._tree.change(Change(directory, name, None))

    def read_file(self, path: str) -> bytes:
        """See :class:`esp.ports.disk.Disk`."""
        self.on_operation("read")
        content = self._file(path)
        self.faults.check("read", path)
        content.load(0, len(content.cached))
        return bytes(content.cached)

    def write_file(self, path: str, data: bytes) -> None:
        """See :class:`esp.ports.disk.Disk`. Cutting the old content and writing the new one are two operations."""
        self._write_new(path, data)

    def replace_file_blocking(self, path: str, data: bytes) -> None:
        """See :class:`esp.ports.disk.Disk`. Each step is an operation of its own, which can fail or be the last."""
        temporary = f"{path}.tmp"
        file = self._write_new(temporary, data)
        file.sync_blocking()
        self.rename(temporary, path)
        self.sync_directory_blocking(path.rpartition("/")[0])

    async def sync_directory(self, path: str) -> None:
        """See :class:`esp.ports.disk.Disk`."""
        pending = self._tree.begin_sync(self._tree.directory(path))
        process = self.process
        await self.wait("sync", len(pending))
        assert process == self.process, "the process that synced the directory is dead"
        self.faults.check("sync", path)
        self._tree.finish_sync(pending)

    def sync_directory_blocking(self, path: str) -> None:
        """See :class:`esp.ports.disk.Disk`."""
        pending = self._tree.begin_sync(self._tree.directory(path))
        self.on_operation("sync")
        self.faults.check("sync", path)
        self._tree.finish_sync(pending)

    def file_system(self, path: str) -> FileSystem:
        """See :class:`esp.ports.disk.Disk`."""
        self._tree.directory(path)
        return SimulatedFileSystem(self, path)

    def lock(self, path: str) -> Lock | None:
        """See :class:`esp.ports.disk.Disk`."""
        if path in self.locks:
            return None
        self.open(path, create=True).close()
        lock = self.locks[path] = SimulatedLock(self, path)
        return lock

    def free_bytes(self, path: str) -> int:
        """See :class:`esp.ports.disk.Disk`."""
        if self._tree.find(path) is None:
            raise file_error(errno.ENOENT, path)
        return 2**40 if self._free is None else self._free

    def total_bytes(self, path: str) -> int:
        """See :class:`esp.ports.disk.Disk`."""
        self.free_bytes(path)
        return 2**40

    # --- for files ---------------------------------------------------------------------------------------------------------------

    def write(self, path: str, content: FileContent, data: bytes) -> None:
        """Append to a file as far as faults, space and the process's life allow, then raise what stopped it."""
        stopped: OSError | ProcessKilledError | None = None
        written = len(data)
        dead = self.faults.killed
        try:
            self.faults.check("write", path)
        except (OSError, ProcessKilledError) as error:
            stopped = error
            written = 0 if dead else self.rng.randint(0, len(data))
        if self._free is not None and self._free < written:
            written = self._free
            stopped = stopped or file_error(errno.ENOSPC, path)
        content.append(data[:written])
        content.modified_ms = self._now_ms()
        self.give_back(-written)
        if stopped is not None:
            raise stopped

    def on_failed_sync(self, content: FileContent) -> None:
        """The device did not take all of what was written to a file."""
        self.failed_syncs += 1
        content.fail_sync(self.rng)

    def sync_all_blocking(self) -> bool:
        """Bring all bytes and names to the device that are not there; return whether a part of that failed."""
        names = self._tree.begin_sync_of_all()
        files = [(path, content, content.begin_sync()) for path, content in self._tree.files() if content.is_unsynced]
        self.on_operation("sync")
        failures = self.failed_syncs
        for path, content, pending in files:
            try:
                self.faults.check("sync", path)
            except OSError:
                self.on_failed_sync(content)
            else:
                content.finish_sync(pending)
        try:
            self.faults.check("sync", "/")
        except OSError:
            self.failed_syncs += 1
        else:
            self._tree.finish_sync(names)
        return self.failed_syncs != failures

    def give_back(self, size: int) -> None:
        """Return the space of bytes that are no more; negative: take it."""
        if self._free is not None:
            self._free += size

    def _write_new(self, path: str, data: bytes) -> File:
        file = self.open(path, create=True)
        file.truncate(0)
        file.append([data])
        return file

    def _file(self, path: str) -> FileContent:
        node = self._tree.find(path)
        if not isinstance(node, FileContent):
            raise file_error(errno.ENOENT if node is None else errno.EISDIR, path)
        return node


def _as_buffer(content: FileContent, start: int, end: int) -> Buffer:
    data = bytes(content.cached[start : max(start, end)])
    return data if len(data) < _VIEW_BYTES else memoryview(data)
