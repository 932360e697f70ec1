"""The snapshot files beside the metadata log: written, read in parts, fetched in parts, removed (KIP-630).

A snapshot counts once it has its name: it is written under another one, synced, renamed, and the directory synced (RAFT-31). A snapshot
that was cut off before that is removed at the next start.
"""

import logging
import re
from typing import Final, NamedTuple

from esp.model.buffers import Buffer
from esp.ports.disk import Disk, File
from esp.raft.snapshot import SUFFIX, SnapshotId

_logger = logging.getLogger(__name__)

PART_SUFFIX: Final = ".part"
"""Kafka's, of a snapshot that is not complete."""

_NAME: Final = re.compile(rf"(\d{{20}})-(\d{{10}}){re.escape(SUFFIX)}")


class SnapshotPart(NamedTuple):
    """Some bytes of a snapshot, and how many it has in all."""

    data: Buffer
    size: int


class MetadataSnapshots:
    """The snapshots of one directory.

    Args:
        disk: where they are.
        directory: that of the metadata log.

    Raises:
        OSError: the directory cannot be read, or a leftover not be removed.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        found = []
        for name in disk.listdir(directory):
            match = _NAME.fullmatch(name)
            if match is not None:
                found.append(SnapshotId(int(match[1]), int(match[2])))
            elif name.endswith(SUFFIX + PART_SUFFIX):
                disk.remove(f"{directory}/{name}")
        self.ids: list[SnapshotId] = sorted(found)
        """All that are complete, ascending."""

    @property
    def latest(self) -> SnapshotId | None:
        """The newest, if there is one."""
        return self.ids[-1] if self.ids else None

    def path(self, snapshot_id: SnapshotId) -> str:
        """The file of a snapshot."""
        return f"{self._directory}/{snapshot_id.file_name}"

    def size(self, snapshot_id: SnapshotId) -> int:
        """Bytes of a snapshot. Raises OSError."""
        return self._disk.stat(self.path(snapshot_id)).size

    def modified_ms(self, snapshot_id: SnapshotId) -> int:
        """The time at which a snapshot was written, in milliseconds since the Unix epoch. Raises OSError."""
        return self._disk.stat(self.path(snapshot_id)).modified_ms

    def read(self, snapshot_id: SnapshotId) -> bytes:
        """A whole snapshot. Raises OSError."""
        return self._disk.read_file(self.path(snapshot_id))

    async def read_part(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> SnapshotPart:
        """At most ``max_bytes`` from ``position`` on, fewer at the end.

        Raises:
            OSError: it cannot be read; FileNotFoundError: it is not there (any more).
        """
        file = self._disk.open(self.path(snapshot_id))
        try:
            data = file.read_cached(position, max_bytes)
            if data is None:
                data = await file.read(position, max_bytes)
            return SnapshotPart(data, file.size())
        finally:
            file.close()

    def write_blocking(self, snapshot_id: SnapshotId, data: bytes) -> None:
        """Make a snapshot of its bytes, durably; it is to be :meth:`add`-ed then. May run beside the loop. Raises OSError."""
        download = SnapshotDownload(self._disk, self.path(snapshot_id), snapshot_id)
        try:
            download.append(data)
            download.finish_blocking()
        finally:
            download.close()

    def download(self, snapshot_id: SnapshotId) -> "SnapshotDownload":
        """Begin a snapshot that comes in parts; it is to be :meth:`add`-ed when it is finished. Raises OSError."""
        return SnapshotDownload(self._disk, self.path(snapshot_id), snapshot_id)

    def add(self, snapshot_id: SnapshotId) -> None:
        """Note that a snapshot is complete."""
        if snapshot_id not in self.ids:
            self.ids = sorted((*self.ids, snapshot_id))

    def remove_before(self, end_offset: int) -> None:
        """Remove the snapshots that end before ``end_offset``. What an error of the disk leaves there goes at another time."""
        for snapshot_id in [known for known in self.ids if known.end_offset < end_offset]:
            self.ids.remove(snapshot_id)
            try:
                self._disk.remove(self.path(snapshot_id))
            except OSError as error:
                _logger.warning("%s cannot be removed: %s", self.path(snapshot_id), error)


class SnapshotDownload:
    """A snapshot that is being written.

    Args:
        disk: where.
        path: of the finished file.
        snapshot_id: what it will be.

    Raises:
        OSError: the device failed or is full, here and in all methods.
    """

    def __init__(self, disk: Disk, path: str, snapshot_id: SnapshotId) -> None:
        self.snapshot_id = snapshot_id
        self.size = 0
        """Bytes so far: the position to go on from."""
        self._disk = disk
        self._path = path
        self._file: File = disk.open(path + PART_SUFFIX, create=True)
        self._file.truncate(0)

    def append(self, data: Buffer) -> None:
        """Add what follows."""
        self._file.append([data])
        self.size += len(data)

    def read_blocking(self) -> bytes:
        """All bytes so far."""
        return bytes(self._file.read_blocking(0, self.size))

    def finish_blocking(self) -> None:
        """Make it a snapshot, durably (RAFT-31)."""
        self._file.sync_blocking()
        self._disk.rename(self._path + PART_SUFFIX, self._path)
        self._disk.sync_directory_blocking(self._path.rpartition("/")[0])

    def close(self) -> None:
        """Let go of the file, finished or not."""
        self._file.close()

    def discard(self) -> None:
        """Give up: what was written is worth nothing."""
        self._file.close()
        if self._disk.exists(self._path + PART_SUFFIX):
            self._disk.remove(self._path + PART_SUFFIX)
