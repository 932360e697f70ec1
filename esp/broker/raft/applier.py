"""Hands committed batches to the state machine: in the order of the log, each once, and nothing before it is committed (RAFT-20).

Until the node has applied all that was committed when it first heard of a high watermark, nothing is published: a reader of the
metadata then sees the cluster, not its history.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, Protocol

from esp.broker.raft.metadata_log import split_batches
from esp.controller.image import ClusterImage
from esp.model.buffers import Buffer
from esp.model.errors import ApiError
from esp.model.ids import LeaderEpoch
from esp.raft.snapshot import SnapshotId
from esp.storage.log import Log

_READ_BYTES: Final = 1024 * 1024
"""The bytes of the log that are read at a time."""


class StateMachine(Protocol):
    """The consumer of the committed log: :class:`~esp.broker.raft.loader.MetadataLoader`."""

    def replay_committed(self, batch: Buffer) -> None:
        """The next committed batch of records."""

    def publish(self, end_offset: int, epoch: LeaderEpoch) -> None:
        """Everything below ``end_offset`` was handed over; its last batch has ``epoch``."""

    def commit_proposed(self, high_watermark: int) -> None:
        """This node's proposals below ``high_watermark`` are committed."""

    def roll_back(self) -> None:
        """This node's proposals that are not committed may never be."""

    async def load(self, batches: Iterable[Buffer], end_offset: int, epoch: LeaderEpoch) -> None:
        """All that came before is replaced by a snapshot's records, when this returns."""

    def snapshot_source(self) -> ClusterImage | None:
        """The image that a snapshot may be made of now."""


class MetadataApplier:
    """Applies the committed log to the state machine, and keeps its position in the log.

    Args:
        log: the metadata log.
        state_machine: told of what is committed.
        run: starts a coroutine beside everything else.
        on_applied: told when a reading that had to wait for the disk has gone on.
    """

    def __init__(
        self,
        log: Log,
        state_machine: StateMachine,
        run: Callable[[Coroutine[Any, Any, None]], None],
        on_applied: Callable[[], None],
    ) -> None:
        self.applied_offset = 0
        """Everything below it the state machine has seen as committed."""
        self.applied_bytes = 0
        """Bytes of batches that were committed since the start: what snapshots are counted by."""
        self._log = log
        self._state_machine = state_machine
        self._run = run
        self._on_applied = on_applied
        self._epoch = LeaderEpoch(0)
        self._target: int | None = None
        self._is_caught_up = False
        self._caught_up: list[asyncio.Future[None]] = []
        self._is_busy = False
        self._is_reading = False

    def expect(self, high_watermark: int) -> None:
        """A leader's high watermark is known: the first one is what the node has to catch up with."""
        if self._target is None:
            self._target = high_watermark

    async def caught_up(self) -> None:
        """Return once everything was applied that was committed when this node first heard of a high watermark."""
        if not self._is_caught_up:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._caught_up.append(future)
            await future

    def apply(self, high_watermark: int, *, is_active: bool) -> None:
        """Hand over what is committed below ``high_watermark``; what the active controller has proposed, its state machine knows already.

        Raises:
            CorruptionError: a batch is not what was written.
            OSError: the device failed.
        """
        if self._is_busy or self._is_reading:
            return
        self._is_busy = True
        try:
            if is_active:
                if high_watermark > self.applied_offset:
                    self._state_machine.commit_proposed(high_watermark)
                    self.applied_offset = high_watermark
                return
            while self.applied_offset < high_watermark:
                data = self._log.read(self.applied_offset, _READ_BYTES, high_watermark, at_least_one=True)
                if data is None:
                    self._is_reading = True
                    self._run(self._read_cold(high_watermark))
                    return
                self._take(data)
        finally:
            self._is_busy = False
        self._check_caught_up()

    async def restart_at(self, snapshot_id: SnapshotId, batches: Iterable[Buffer]) -> None:
        """A snapshot's records replace all that came before its end (RAFT-32, RAFT-33). Nothing is to be applied before this returns."""
        self.applied_offset = snapshot_id.end_offset
        self._epoch = LeaderEpoch(snapshot_id.epoch)
        await self._state_machine.load(batches, self.applied_offset, self._epoch)

    def count_own(self, size: int) -> None:
        """A batch of so many bytes was appended that this node will not read again."""
        self.applied_bytes += size

    async def _read_cold(self, high_watermark: int) -> None:
        offset = self.applied_offset
        try:
            data = await self._log.read_cold(offset, _READ_BYTES, high_watermark, at_least_one=True)
        except ApiError:
            if self.applied_offset == offset:
                raise
        else:
            if self.applied_offset == offset:  # no snapshot came in between
                self._take(data)
        finally:
            self._is_reading = False
        self._on_applied()

    def _take(self, data: Buffer) -> None:
        for header, batch in split_batches(memoryview(data)):
            if not header.is_control:
                self._state_machine.replay_committed(batch)
            self.applied_offset = header.next_offset
            self._epoch = LeaderEpoch(header.leader_epoch)
            self.applied_bytes += header.size
        if self._is_caught_up:
            self._state_machine.publish(self.applied_offset, self._epoch)

    def _check_caught_up(self) -> None:
        if self._is_caught_up or self._target is None or self.applied_offset < self._target:
            return
        self._is_caught_up = True
        self._state_machine.publish(self.applied_offset, self._epoch)
        for future in self._caught_up:
            if not future.done():
                future.set_result(None)
