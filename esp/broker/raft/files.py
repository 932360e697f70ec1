"""The effects of the raft core on files: the metadata log, ``quorum-state``, and a snapshot that comes in parts."""

import asyncio
import errno
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, NoReturn

from msgspec.structs import replace

from esp.broker.raft.snapshots import MetadataSnapshots, SnapshotDownload
from esp.model.buffers import Buffer
from esp.model.errors import ApiError, CorruptionError, ErrorCode
from esp.ports.env import Env
from esp.raft import effects, quorum_state
from esp.raft.messages import FetchSnapshotResponse
from esp.raft.quorum_state import QuorumState
from esp.raft.snapshot import SnapshotContents, SnapshotId, read_snapshot
from esp.storage.disk_reserve import DiskReserve
from esp.storage.log import Log

_logger = logging.getLogger(__name__)

_SNAPSHOT_PART_MAX: Final = 8 * 1024 * 1024
"""The most bytes of a snapshot in one answer, whatever was asked for."""


class RaftFiles:
    """The files of one member of the quorum.

    Args:
        env: the outside.
        log: the metadata log.
        snapshots: its snapshots.
        directories_lock: held while the log is cut: no thread may work on the directory's checkpoints then.
        on_flushed: told up to which offset the log is on the device.
    """

    def __init__(
        self,
        env: Env,
        log: Log,
        snapshots: MetadataSnapshots,
        directories_lock: asyncio.Lock,
        on_flushed: Callable[[int], None],
    ) -> None:
        self._env = env
        self._log = log
        self._reserve = DiskReserve(env.disk, log.path.rpartition("/")[0])
        self._snapshots = snapshots
        self._directories_lock = directories_lock
        self._on_flushed = on_flushed
        self._flushing: asyncio.Task[None] | None = None
        self._cuts = 0
        self._download: SnapshotDownload | None = None

    def persist(self, state: QuorumState) -> None:
        """Make the vote, or the leader that this member follows, durable (RAFT-1). Raises OSError."""
        path = f"{self._log.path}/{quorum_state.FILE_NAME}"
        self._reserve.write_blocking(lambda: self._env.disk.replace_file_blocking(path, state.encode()))

    def append(self, effect: effects.Append) -> None:
        """Append a batch. Raises ApiError: KAFKA_STORAGE_ERROR."""
        self._reserve.make_room_blocking()
        self._log.append(effect.batch, effect.header, self._env.clock.wall_ms())

    async def truncate(self, end_offset: int) -> None:
        """Cut the log. Raises OSError, also where it has rotted."""
        async with self.cutting():
            try:
                self._log.truncate_to(end_offset)
            except CorruptionError as error:
                raise OSError(errno.EIO, f"the place to cut cannot be found: {error}", self._log.path) from error

    @asynccontextmanager
    async def cutting(self) -> AsyncIterator[None]:
        """Something is taken from the log in the block, which does not wait; a flush that is under way begins anew."""
        async with self._directories_lock:
            self._cuts += 1
            yield

    # --- flush ---------------------------------------------------------------------------------------------------------------------

    def begin_flush(self) -> None:
        """Flush what was appended so far; a flush that is under way takes it along, or is followed by another (SYNC-2)."""
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush(), name="metadata log flush")

    async def finish_flush(self) -> None:
        """Return when no flush is under way."""
        if self._flushing is not None:
            await self._flushing

    async def _flush(self) -> None:
        """Flush until all that was appended is flushed, also if other tasks flush the log meanwhile."""
        log = self._log
        try:
            flushed = -1
            while flushed < log.log_end_offset:
                end_offset, cuts = log.log_end_offset, self._cuts
                if log.recovery_point < end_offset:
                    await log.flush()
                if cuts != self._cuts:
                    continue
                if log.recovery_point < end_offset:  # nothing was cut: there was no room for indexes or epochs
                    self.fail(OSError(errno.ENOSPC, f"flushed up to {log.recovery_point} of {end_offset}"))
                flushed = log.recovery_point
                self._on_flushed(flushed)
        except Exception as error:  # RAFT-16: after any failure here, no request would ever be answered again
            self.fail(error)
        finally:
            self._flushing = None

    # --- what others ask for -------------------------------------------------------------------------------------------------------

    def read_records(self, read: effects.ReadRecords) -> Buffer | None:
        """Batches for a follower; None if the disk must work for them: :meth:`read_records_cold`.

        None come if the log start was raised beyond them after the core had decided: with its next fetch the follower is told a snapshot.
        """
        if self._is_removed(read):
            return b""
        return self._log.read(read.offset, read.max_bytes, read.end_offset, at_least_one=True)

    async def read_records_cold(self, read: effects.ReadRecords) -> Buffer:
        """As :meth:`read_records`, waiting for the disk."""
        try:
            return await self._log.read_cold(read.offset, read.max_bytes, read.end_offset, at_least_one=True)
        except ApiError:
            if self._is_removed(read):
                return b""
            raise

    def _is_removed(self, read: effects.ReadRecords) -> bool:
        return read.offset < self._log.log_start_offset

    async def read_snapshot(self, response: FetchSnapshotResponse, read: effects.ReadSnapshot) -> FetchSnapshotResponse:
        """The answer with its piece of the snapshot, or with the reason why there is none."""
        if read.snapshot_id not in self._snapshots.ids:
            return replace(response, error=ErrorCode.snapshot_not_found)
        try:
            if not 0 <= read.position < self._snapshots.size(read.snapshot_id):
                return replace(response, error=ErrorCode.position_out_of_range)
            part = await self._snapshots.read_part(
                read.snapshot_id, read.position, min(read.max_bytes, _SNAPSHOT_PART_MAX)
            )
        except FileNotFoundError:  # removed since
            return replace(response, error=ErrorCode.snapshot_not_found)
        return replace(response, size=part.size, position=read.position, data=part.data)

    # --- a snapshot that is fetched ------------------------------------------------------------------------------------------------

    def write_chunk(self, snapshot_id: SnapshotId, position: int, data: Buffer) -> None:
        """Write a piece of a snapshot behind those before it. Raises OSError."""
        if position == 0:
            if self._download is not None:
                self._download.discard()
            self._download = self._snapshots.download(snapshot_id)
        download = self._download
        assert download is not None
        assert (download.snapshot_id, download.size) == (snapshot_id, position), "pieces come in order"
        download.append(data)

    async def install(self, snapshot_id: SnapshotId) -> SnapshotContents | None:
        """Check the fetched snapshot, make it durable, and begin the log anew at its end (RAFT-31, RAFT-32).

        Returns:
            What it says; None if it is not what was written, and is gone.

        Raises:
            OSError: the device failed or is full.
        """
        download = self._download
        assert download is not None
        self._download = None
        assert download.snapshot_id == snapshot_id
        try:
            contents = read_snapshot(await self._env.cpu.run(download.read_blocking))
        except CorruptionError as error:
            _logger.error("the fetched snapshot %s is corrupt and is fetched again: %s", snapshot_id.file_name, error)
            download.discard()
            return None
        await self._env.cpu.run(download.finish_blocking)
        download.close()
        async with self.cutting():
            self._log.truncate_fully_and_start_at(snapshot_id.end_offset)
        self._snapshots.add(snapshot_id)
        self._snapshots.remove_before(snapshot_id.end_offset)
        _logger.info("the metadata log goes on from the snapshot %s of the leader", snapshot_id.file_name)
        return contents

    # --- failure -------------------------------------------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> NoReturn:
        """End the node (RAFT-16): a member of the quorum is never half alive."""
        cause = error.__cause__ if isinstance(error, ApiError) else error
        if isinstance(cause, OSError):
            remedy = "make room on" if cause.errno == errno.ENOSPC else "check"
            remedy += " its disk and start the node again"
        elif isinstance(cause, CorruptionError):
            remedy = "where the quorum has other voters, remove this one and add it again, empty; else restore the directory from a copy"
        else:
            remedy = "that is a defect of the software; start the node again"
        _logger.critical("the metadata log failed", exc_info=error)
        self._env.host.fatal(f"the metadata log {self._log.path} failed: {error!r}; {remedy}")
