"""Runs the raft core (:mod:`esp.raft.node`) on the metadata log: the thin shell with the files, the clock and the loop.

Effects are done in their order: ``quorum-state``, epoch, append; then one flush serves all batches that were appended meanwhile (SYNC-2),
and only its completion counts (RAFT-12, SYNC-3). Whoever waits for a commit is woken after the state machine was told of it. An error of
the disk ends the node (RAFT-16): a voter is never half alive.
"""

import asyncio
import errno
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, NoReturn

from kio.schema.voters_record.v0.data import VotersRecord

from esp.model.errors import ApiError, CorruptionError, OperatorError
from esp.model.ids import LeaderEpoch, uuid_to_base64
from esp.ports.disk import Disk
from esp.ports.env import Env
from esp.raft import quorum_state
from esp.raft.effects import Effects
from esp.raft.node import LogEnd, RaftNode
from esp.raft.quorum_state import QuorumState
from esp.raft.snapshot import FIRST, read_voters
from esp.raft.voters import VoterKey, VoterSet
from esp.records.batch import iterate_records
from esp.records.batch_header import BatchHeader, read_header
from esp.records.checks import check_batch
from esp.schemas.control_records import decode_control_record
from esp.storage.log import Log

_READ_BYTES: Final = 1024 * 1024
"""How much of the log is read at a time when it is loaded."""


class RaftDriver:
    """One voter at work; made by :meth:`open`.

    Args:
        env: the outside.
        log: the metadata log.
        node: the core.
        on_commit: told the new high watermark, before anybody who waits for it.
    """

    def __init__(self, env: Env, log: Log, node: RaftNode, on_commit: Callable[[int], None]) -> None:
        self._env = env
        self._log = log
        self._node = node
        self._on_commit = on_commit
        self._flushing: asyncio.Task[None] | None = None
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @classmethod
    async def open(
        cls,
        env: Env,
        log: Log,
        local: VoterKey,
        *,
        on_batch: Callable[[memoryview], None],
        on_commit: Callable[[int], None],
    ) -> "RaftDriver":
        """Read the recovered log and what belongs to it; nothing is written, nobody leads yet.

        Args:
            env: the outside.
            log: the metadata log.
            local: this node and the directory of the log.
            on_batch: given each batch of records in order, checked; control batches are not among them. They count once this node leads.
            on_commit: see the class.

        Raises:
            OperatorError: a file is missing or broken, or this node and disk are not the quorum's only voter.
        """
        voters = _read_first_voters(env.disk, log.path)
        epoch = 0
        try:
            async for header, batch in _read_batches(log):
                epoch = header.leader_epoch
                if header.is_control:
                    voters = _newest_voters(batch, voters)
                else:
                    on_batch(batch)
        except CorruptionError as error:
            raise OperatorError(
                f"The metadata log {log.path} is corrupt: {error}.",
                "Restore the directory from a copy; without it the cluster's topics are not known.",
            ) from error
        if voters.keys() != {local}:
            raise OperatorError(
                f"{log.path} is the metadata log of the voters {_describe(voters.keys())}, but this is {_describe({local})}.",
                "Give the node the data directory that it had, with its own meta.properties; a quorum of several voters is not supported.",
            )
        node = RaftNode(local, voters, _read_quorum_state(env.disk, log.path), LogEnd(log.log_end_offset, epoch))
        return cls(env, log, node, on_commit)

    @property
    def epoch(self) -> LeaderEpoch:
        """The epoch that this node leads."""
        return self._node.epoch

    @property
    def next_offset(self) -> int:
        """The offset that the next record gets."""
        return self._node.log_end_offset

    async def lead(self) -> None:
        """Become leader; returns when the first record of the epoch, and so everything before it, is committed (RAFT-13, RAFT-22)."""
        self._do(self._node.start(self._env.clock.wall_ms()))
        await self.committed(self.next_offset)

    def propose(self, values: Sequence[bytes]) -> None:
        """Append one batch of records; :meth:`committed` with the new :attr:`next_offset` tells when it is committed."""
        self._do(self._node.propose(values, self._env.clock.wall_ms()))

    async def committed(self, offset: int) -> None:
        """Return when everything below ``offset`` is committed."""
        if self._node.high_watermark is None or self._node.high_watermark < offset:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((offset, future))
            await future

    async def drain(self) -> None:
        """Return when everything that was proposed is committed; its proposers have been told, or have given up."""
        await self.committed(self.next_offset)

    def _do(self, effects: Effects) -> None:
        """Do what the core asks for, in the order of the fields."""
        try:
            if effects.persist is not None:
                path = f"{self._log.path}/{quorum_state.FILE_NAME}"
                self._env.disk.replace_file_blocking(path, effects.persist.encode())
            if effects.begin_epoch is not None:
                self._log.begin_epoch_blocking(effects.begin_epoch)
            if effects.batch is not None:
                self._log.append(effects.batch, read_header(effects.batch), self._env.clock.wall_ms())
        except (OSError, ApiError) as error:
            self._fail(error)
        if effects.batch is not None and self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush(), name="metadata log flush")
        if effects.high_watermark is not None:
            self._commit(effects.high_watermark)

    async def _flush(self) -> None:
        """Flush until all that was appended is flushed, whoever else may flush the log meanwhile."""
        log = self._log
        try:
            flushed = -1
            while flushed < log.log_end_offset:
                end_offset = log.log_end_offset
                if log.recovery_point < end_offset:
                    await log.flush()
                if log.recovery_point < end_offset:
                    self._fail(OSError(f"flushed up to {log.recovery_point} of {end_offset}"))
                flushed = log.recovery_point
                self._do(self._node.on_flushed(flushed))
        except Exception as error:  # RAFT-16: whatever goes wrong here, nobody would ever be answered again
            self._fail(error)
        finally:
            self._flushing = None

    def _commit(self, high_watermark: int) -> None:
        self._log.high_watermark = high_watermark
        self._on_commit(high_watermark)
        while self._waiting and self._waiting[0][0] <= high_watermark:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    def _fail(self, error: Exception) -> NoReturn:
        is_full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        remedy = "make room on its disk" if is_full else "look after its disk"
        self._env.host.fatal(f"the metadata log {self._log.path} failed: {error!r}; {remedy} and start the node again")


async def _read_batches(log: Log) -> AsyncIterator[tuple[BatchHeader, memoryview]]:
    """All batches of a log, each checked."""
    offset, end_offset = log.log_start_offset, log.log_end_offset
    while offset < end_offset:
        data = log.read(offset, _READ_BYTES, end_offset, at_least_one=True)
        if data is None:
            data = await log.read_cold(offset, _READ_BYTES, end_offset, at_least_one=True)
        left = memoryview(data)
        if not left:
            raise CorruptionError(f"nothing can be read at offset {offset} of {end_offset}")
        while left:
            header = read_header(left)
            batch = left[: header.size]
            check_batch(batch, header)
            yield header, batch
            offset = header.next_offset
            left = left[header.size :]


def _read_first_voters(disk: Disk, directory: str) -> VoterSet:
    path = f"{directory}/{FIRST.file_name}"
    try:
        return read_voters(disk.read_file(path))
    except (OSError, CorruptionError) as error:
        raise OperatorError(
            f"{path}, which names the quorum's voters, cannot be read: {error}.",
            "Restore the file from a copy. A cluster with controller.quorum.voters has no such file and is not supported.",
        ) from error


def _newest_voters(batch: memoryview, voters: VoterSet) -> VoterSet:
    for record in iterate_records(batch):
        entity = decode_control_record(record.key, record.value)
        if isinstance(entity, VotersRecord):
            voters = VoterSet.from_record(entity)
    return voters


def _read_quorum_state(disk: Disk, directory: str) -> QuorumState | None:
    path = f"{directory}/{quorum_state.FILE_NAME}"
    try:
        return QuorumState.decode(disk.read_file(path))
    except FileNotFoundError:
        return None
    except (OSError, CorruptionError) as error:
        raise OperatorError(
            f"{path} cannot be read: {error}.",
            "Restore the file from a copy. If there is none, and this node is the only voter, remove the file: the log knows the epoch.",
        ) from error


def _describe(keys: "frozenset[VoterKey] | set[VoterKey]") -> str:
    return ", ".join(f"{key.node_id} (directory.id {uuid_to_base64(key.directory_id)})" for key in sorted(keys))
