"""One partition on this node: its log, its role, and who waits for it.

Waiters are woken through one callback per loop turn, not per append, so that a burst of produce requests in one read costs each parked
fetch one look.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicId, TopicPartition
from esp.replication.partition_leader import PartitionLeader
from esp.storage.log import Log

NO_EPOCH: Final = -1
"""What a client that does not know leader epochs sends."""


class HostedPartition:
    """A replica on this node; ``leader`` is None while another node, or nobody, leads.

    Args:
        name: topic and partition.
        topic_id: the topic's id.
        log: the replica's open log.
        wake_later: schedules :meth:`wake`.
        flush_later: schedules a flush of the log, after which :meth:`flushed` is called.
    """

    __slots__ = (
        "_flush_later",
        "_unflushed_since_us",
        "_waiters",
        "_wake_later",
        "busy",
        "leader",
        "log",
        "name",
        "topic_id",
    )

    def __init__(
        self,
        name: TopicPartition,
        topic_id: TopicId,
        log: Log,
        wake_later: Callable[["HostedPartition"], None],
        flush_later: Callable[["HostedPartition"], None],
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.log = log
        self.leader: PartitionLeader | None = None
        self.busy = asyncio.Lock()
        """Held by whoever flushes the log or renames its directory: a flush goes by the names of the files."""
        self._waiters: dict[Callable[[], None], None] = {}
        self._unflushed_since_us: int | None = None
        self._wake_later = wake_later
        self._flush_later = flush_later

    def leading(self, current_leader_epoch: int = NO_EPOCH) -> PartitionLeader:
        """The leader's core, for a client that believes this node leads in ``current_leader_epoch`` (TRUNC-3.2, 3.3; KIP-320).

        Raises:
            ApiError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER.
        """
        leader = self.leader
        if leader is None:
            raise ApiError(ErrorCode.not_leader_or_follower)
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != leader.leader_epoch:
            if current_leader_epoch < leader.leader_epoch:
                raise ApiError(ErrorCode.fenced_leader_epoch)
            raise ApiError(ErrorCode.unknown_leader_epoch)
        return leader

    def appended(self) -> None:
        """Say that the leader appended: flush if the topic's settings ask for it now, and wake who waits for committed records."""
        log = self.log
        if log.log_end_offset - log.recovery_point >= log.settings.flush_messages:
            self._flush_later(self)
        if self._waiters:
            self._wake_later(self)

    def flushed(self) -> None:
        """Say that the log was flushed, which may commit records (SYNC-4)."""
        self._unflushed_since_us = None
        if self.leader is not None and self.leader.maybe_advance_high_watermark():
            self._wake_later(self)

    def flush_is_due(self, now_us: int) -> bool:
        """Whether something has waited for a flush for ``flush.ms``; asked from time to time, with the monotonic clock."""
        if not self.log.unflushed_batches:
            self._unflushed_since_us = None
            return False
        if self._unflushed_since_us is None:
            self._unflushed_since_us = now_us
        return now_us - self._unflushed_since_us >= self.log.settings.flush_ms * 1000

    def role_changed(self) -> None:
        """Say that ``leader`` is another one now, or none."""
        if self._waiters:
            self._wake_later(self)

    def wait(self, waiter: Callable[[], None]) -> None:
        """Call ``waiter`` whenever more was committed, or the role changed, until :meth:`forget`."""
        self._waiters[waiter] = None

    def forget(self, waiter: Callable[[], None]) -> None:
        """Call ``waiter`` no more."""
        self._waiters.pop(waiter, None)

    def wake(self) -> None:
        """Call every waiter; each may forget itself, or another one, while it is called."""
        for waiter in tuple(self._waiters):
            if waiter in self._waiters:
                waiter()
