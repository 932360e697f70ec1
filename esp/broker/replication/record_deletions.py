"""Deletions of records that wait until every replica that is there has moved its log start (DeleteRecords, KIP-107)."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.replication.host import ReplicaHost
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.waiting import Waiters
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId
from esp.ports.clock import Clock
from esp.ports.cpu import Cpu

_LOOK_AGAIN_US: Final = 1_000_000
"""A broker may stop serving, of which partitions are not notified; a deletion does not wait for its replicas then."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordDeletion:
    """The records of one partition that its leader has deleted: all below ``offset``."""

    hosted: HostedPartition
    offset: int

    def low_watermark(self, alive: Container[NodeId]) -> int:
        """The lowest log start of the partition's replicas on brokers that serve.

        Raises:
            ApiError: NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR: this node does not lead any more.
        """
        return self.hosted.leading().low_watermark(alive)

    def is_settled(self, alive: Container[NodeId]) -> bool:
        """True if there is nothing to wait for any more."""
        try:
            return self.low_watermark(alive) >= self.offset
        except ApiError:
            return True


async def write_log_starts(cpu: Cpu, replicas: ReplicaHost, deletions: Iterable[RecordDeletion]) -> None:
    """Make the leaders' new log starts durable.

    Raises:
        OSError: a device failed or is full.
    """
    async with replicas.directories_lock:
        holding = {replicas.directories.holding(deletion.hosted.log): None for deletion in deletions}
        for directory in holding:
            if directory is not None:  # else it has failed, and no partition in it is led here any more
                await cpu.run(directory.write_log_starts_blocking)


async def until_settled(
    clock: Clock, metadata: MetadataCache, deletions: Sequence[RecordDeletion], timeout_ms: int
) -> None:
    """Return when all are settled, or the time is up."""
    deadline_us = clock.monotonic_us() + timeout_ms * 1000
    waiting = [deletion for deletion in deletions if not deletion.is_settled(metadata.alive)]
    changes = Waiters(clock)
    for deletion in waiting:
        deletion.hosted.log_start_waiters[changes.wake] = None
    try:
        while not all(deletion.is_settled(metadata.alive) for deletion in waiting):
            left_us = deadline_us - clock.monotonic_us()
            if left_us <= 0:
                return
            await changes.wait(min(left_us, _LOOK_AGAIN_US))
    finally:
        for deletion in waiting:
            deletion.hosted.log_start_waiters.pop(changes.wake, None)


def result_of(deletion: RecordDeletion, alive: Container[NodeId], low_watermark: int) -> tuple[int, ErrorCode]:
    """The low watermark and the error with which a deletion is answered; ``low_watermark`` is what it was when the deletion was made."""
    try:
        reached = deletion.low_watermark(alive)
    except ApiError as error:
        return -1, error.code
    if reached >= deletion.offset:
        return reached, ErrorCode.none
    return low_watermark, ErrorCode.request_timed_out
