"""The move of a replica from one data directory of this node to another: copy its log, announce the new directory, change places."""

import asyncio
from typing import Final, Protocol

from esp.broker.replication.directories import ReplicaDirectories
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.replication_throttle import ReplicationThrottle, Share, release
from esp.broker.waiting import Waiters
from esp.model.errors import ApiError, CorruptionError, ErrorCode
from esp.model.ids import DirectoryId, NodeId
from esp.ports.env import Env
from esp.replication.future_replica import FutureReplica
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory

COPY_BYTES: Final = 128 * 1024
"""Read and written between two turns of the loop: well below a millisecond, unless batches are tiny."""

LAST_BYTES: Final = 4 * 1024 * 1024
"""The most that may be left to be copied in the turn in which the logs change places."""

POLL_US: Final = 20_000
"""The interval at which a complete copy looks for more records, and for its directory in the metadata."""

THROTTLED_US: Final = 1_000_000
"""The longest time for which a throttled copy waits for its turn before it asks again."""


class _StoppedReplicaError(Exception):
    """The replica takes part in nothing any more, though its directory has not failed (TRUNC-8)."""


class MoveHost(Protocol):
    """The part of :class:`esp.broker.replication.host.ReplicaHost` that moves need."""

    directories_lock: asyncio.Lock

    @property
    def directories(self) -> ReplicaDirectories:
        """The entries of ``log.dirs``."""

    def find(self, topic: str, partition: int) -> HostedPartition | None:
        """Find a replica of this node; None if it is not here."""

    def tell_directory(self, hosted: HostedPartition) -> None:
        """Make sure that the controller knows in which directory a replica is."""

    def withholds_directory(self, hosted: HostedPartition) -> bool:
        """True if the controller is not to know the directory of a replica before its partition has a leader (BRK-11)."""

    def fail(self, directory: LogDirectory, reason: str) -> None:
        """Take a directory offline."""

    def watch_log(self, hosted: HostedPartition) -> None:
        """The replica's log is another one: hear of what rots in it."""


class LogDirMove:
    """Moves a replica to another data directory of this node.

    Args:
        env: the outside.
        node_id: this node.
        hosted: the replica.
        target: the directory that it moves to.
        copy: the log there.
        throttle: the limit of all moves together.
        host: the host of the replicas.
    """

    def __init__(
        self,
        env: Env,
        node_id: NodeId,
        hosted: HostedPartition,
        target: LogDirectory,
        copy: Log,
        throttle: ReplicationThrottle,
        host: MoveHost,
    ) -> None:
        self.hosted = hosted
        self.target = target
        self.copy = copy
        self.is_announced = False
        """True if the controller is to know the replica in its new directory already."""
        self.busy = asyncio.Lock()
        """Held while the copy is flushed."""
        self.share: Share | None = None
        self._env = env
        self._node_id = node_id
        self._throttle = throttle
        self._host = host
        self._future = FutureReplica(copy)
        # What is copied from now on is at least as clean as the source is now; of what was copied before nothing is known.
        self._cleaned_to = hosted.log.cleaned_to if copy.log_end_offset == copy.log_start_offset else 0
        self._turn = Waiters(env.clock)
        self._stopped = False

    @property
    def target_id(self) -> DirectoryId:
        """The id of the directory that it moves to."""
        assert self.target.meta is not None
        return DirectoryId(self.target.meta.directory_id)

    @property
    def lag(self) -> int:
        """Offsets that the copy has not."""
        return self.hosted.log.log_end_offset - self.copy.log_end_offset

    def stop(self) -> None:
        """Copy nothing more; what waits returns soon."""
        self._stopped = True
        release(self)
        self._turn.wake()

    async def run(self) -> Exception | None:
        """Move the replica; None when that is done, or was stopped, else the reason why it cannot be done.

        A replica with a rotten batch cannot be moved: it is made anew from its leader, or it is the only one in sync and stays for an
        operator to repair. One that was stopped rather than cut (TRUNC-8) gets no more records, and its files stay as they are.
        """
        try:
            while not self._stopped:
                if self.hosted.is_offline:
                    return _StoppedReplicaError("the replica is offline")
                began_us = self._env.clock.monotonic_us()
                pause_us = await self._step()
                if pause_us is None:
                    return None
                # A turn of the loop at least, and as much time for others as the step took.
                took_us = self._env.clock.monotonic_us() - began_us
                await self._turn.wait(max(pause_us, took_us))
        except (OSError, ApiError, CorruptionError) as error:
            return error
        return None

    async def _step(self) -> int | None:
        """Do a little; how long to wait then, None if all is done."""
        source = self.hosted.log
        self.copy.settings = source.settings
        if self._future.find_cut(source) is not None:
            async with self._host.directories_lock:
                cut = self._future.find_cut(source)
                if cut is not None and not self._stopped:
                    self._future.cut(cut)
            return 0
        if self.lag:
            return await self._copy(source)
        self._future.take(b"", source, 0)
        if not self.is_announced:
            self.is_announced = True
            self._host.tell_directory(self.hosted)
        elif self._is_confirmed() and await self._change_places(source):
            return None
        return POLL_US

    async def _copy(self, source: Log) -> int:
        most = COPY_BYTES
        if self._throttle.is_active:
            most = self._throttle.claim(self, self._turn.wake, COPY_BYTES)
            if not most:
                return THROTTLED_US
        try:
            offset, end_offset = self.copy.log_end_offset, source.log_end_offset
            records = source.read(offset, most, end_offset, at_least_one=True)
            if records is None:
                records = await source.read_cold(offset, most, end_offset, at_least_one=True)
                if self._stopped or self._future.find_cut(source) is not None:
                    return 0
            if self._future.must_begin_below(records, source):
                async with self._host.directories_lock:
                    if self._stopped or self._future.find_cut(source) is not None:
                        return 0
                    self._future.take(records, source, self._env.clock.wall_ms())
            else:
                self._future.take(records, source, self._env.clock.wall_ms())
        except ApiError as error:
            if error.code is ErrorCode.offset_out_of_range:  # it was cut meanwhile
                return 0
            raise
        if self.share is not None:
            self.share.settle(len(records))
        if self.copy.has_unflushed_segment:
            async with self.busy:
                await self.copy.flush()
        return 0

    def _is_confirmed(self) -> bool:
        """True if the metadata has the replica in its new directory: a failure of it would go unnoticed before (KIP-858).

        An empty replica of a partition without a leader counts for nothing, wherever it is: the controller is notified of its directory
        when there is a leader, which may need an operator. The move does not wait for that.
        """
        state = self.hosted.state
        if state is None:
            return False
        if self._host.withholds_directory(self.hosted):
            return True
        if self._node_id not in state.replicas or not state.directories:
            return True
        return state.directories[state.replicas.index(self._node_id)] == self.target_id

    async def _change_places(self, source: Log) -> bool:
        """Let the copy be the replica's log, if it is complete, within one turn of the loop; return True if that was done.

        The copy is flushed before, while the source cannot be: so all that the source had on the device is there in the copy too. While the
        lock is held, no other task writes checkpoints or cuts a log.
        """
        async with self._host.directories_lock, self.hosted.busy:
            # If a leader was elected while the move waited for the locks, the metadata must have the new directory after all. No metadata
            # is applied while they are held. What came since the copy was found to be complete may be flushed already.
            if self._has_ended() or not self._is_confirmed() or not self._take_the_rest(source):
                return False
            async with self.busy:
                await self.copy.flush()
            start_offset = self.copy.log_start_offset
            await self._env.cpu.run(self.target.write_checkpoints_blocking)
            if self._has_ended() or not self._take_the_rest(source):
                return False
            if self.copy.log_start_offset != start_offset:  # records were deleted, which has to be durable (KIP-107)
                return False
            if self.copy.recovery_point < source.recovery_point:  # there was no room for its indexes or leader epochs
                return False
            self._swap(source)
            return True

    def _has_ended(self) -> bool:
        return self._stopped or self.hosted.is_offline

    def _take_the_rest(self, source: Log) -> bool:
        taken = 0
        while self.lag and taken < LAST_BYTES and self._future.find_cut(source) is None:
            offset, end_offset = self.copy.log_end_offset, source.log_end_offset
            records = source.read(offset, COPY_BYTES, end_offset, at_least_one=True)
            if records is None:
                return False
            self._future.take(records, source, self._env.clock.wall_ms())
            taken += len(records)
        self._future.take(b"", source, 0)
        return self._future.is_equal(source)

    def _swap(self, source: Log) -> None:
        """Change names and roles; nothing is awaited. The new name is durable before the old one goes: one of them is always there.

        Raises:
            OSError: the new name could not be given; the replica is where it was.
        """
        hosted, copy = self.hosted, self.copy
        origin = self._host.directories.holding(source)
        for epoch, start_offset in source.leader_epochs.entries():  # epochs without a record, too
            copy.leader_epochs.assign(epoch, start_offset)
        copy.high_watermark = source.high_watermark
        copy.cleaned_to = min(self._cleaned_to, source.cleaned_to)
        copy.producers = source.producers
        try:
            self.target.adopt_future(hosted.name)
        except OSError as error:
            self._host.fail(self.target, f"{copy.path} cannot be renamed: {error}")
            raise
        hosted.replace_log(copy)
        self._host.watch_log(hosted)
        self._stopped = True
        if origin is not None:
            try:
                origin.schedule_delete_blocking([source], self._env.clock.wall_ms())
            except OSError as error:
                self._host.fail(origin, f"{source.path} cannot be renamed: {error}")
