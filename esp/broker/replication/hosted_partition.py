"""A partition on this node: its log, its role, and the requests that wait for it.

Waiters (consumers, producers) are called once per turn of the loop and only if something changed for them: more was committed, or the role
is another one. Followers' sessions are notified at once, and look at the log in the next turn, so that a burst of produce requests in one
read costs each of them one look.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import INTERNAL_TOPICS, TopicId, TopicPartition
from esp.model.partition import PartitionState
from esp.replication.partition_follower import PartitionFollower
from esp.replication.partition_leader import PartitionLeader
from esp.storage.log import Log

NO_EPOCH: Final = -1
"""The leader epoch that a client sends if it does not know leader epochs."""


class Watcher(Protocol):
    """A follower's fetch session at the leader."""

    def on_change(self, hosted: "HostedPartition") -> None:
        """More was appended, or the role changed."""

    def on_commit(self, hosted: "HostedPartition") -> None:
        """More was committed."""


class HostedPartition:
    """A replica on this node; of ``leader`` and ``follower`` at most one is there, and none while the partition has no leader.

    Args:
        name: topic and partition.
        topic_id: the topic's id.
        log: the replica's open log.
        wake_later: schedules :meth:`wake`.
        flush_later: schedules a flush of the log, after which :meth:`flushed` is called.
    """

    __slots__ = (
        "_flush_later",
        "_role_changed",
        "_told_committed",
        "_unflushed_since_us",
        "_waiters",
        "_wake_later",
        "_watchers",
        "busy",
        "follower",
        "high_watermark_is_firm",
        "is_internal",
        "is_offline",
        "key",
        "leader",
        "log",
        "log_start_waiters",
        "name",
        "state",
        "took_over_us",
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
        self.key = (topic_id.bytes, name.partition)
        """The key of the partition in Fetch: the 16 bytes of the topic's id, and the partition."""
        self.is_internal = name.topic in INTERNAL_TOPICS
        """True if the topic is one of the cluster's internal topics."""
        self.log = log
        self.state: PartitionState | None = None
        """The state in the metadata that was applied last; a leader may know a newer in-sync set."""
        self.leader: PartitionLeader | None = None
        self.follower: PartitionFollower | None = None
        self.took_over_us: int | None = None
        """The time at which it last began to lead where another node had led, as far as this process knows."""
        self.high_watermark_is_firm = False
        """True if this process learned the log's high watermark by leading or following, and every election since was clean (TRUNC-8)."""
        self.is_offline = False
        """True if the log directory failed: no request is served, and nothing is fetched."""
        self.busy = asyncio.Lock()
        """Held while the log is flushed or cut, while its directory is renamed, and while an epoch begins in it.

        Flushes and cuts use the names of the files; an epoch must not begin in a log that a move is just replacing.
        """
        self.log_start_waiters: dict[Callable[[], None], None] = {}
        """Called by :meth:`log_starts_changed`; each waiter adds its callback, and removes it again."""
        self._waiters: dict[Callable[[], None], None] = {}
        self._watchers: dict[Watcher, None] = {}
        self._told_committed = -1
        self._role_changed = False
        self._unflushed_since_us: int | None = None
        self._wake_later = wake_later
        self._flush_later = flush_later

    def replace_log(self, log: Log) -> None:
        """The replica has moved to another data directory: the same log, in other files. No flush and no cut is in progress."""
        self.log = log
        if self.leader is not None:
            self.leader.log = log
        if self.follower is not None:
            self.follower.log = log

    # Serving.

    def leading(self, current_leader_epoch: int = NO_EPOCH) -> PartitionLeader:
        """The leader's core, for a sender that believes this node leads in ``current_leader_epoch`` (TRUNC-3.2, 3.3; KIP-320).

        Raises:
            ApiError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
        """
        leader = self.leader
        if leader is None:
            self._check_epoch(current_leader_epoch)
            raise ApiError(ErrorCode.kafka_storage_error if self.is_offline else ErrorCode.not_leader_or_follower)
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != leader.leader_epoch:
            if current_leader_epoch < leader.leader_epoch:
                raise ApiError(ErrorCode.fenced_leader_epoch)
            raise ApiError(ErrorCode.unknown_leader_epoch)
        return leader

    def _check_epoch(self, current_leader_epoch: int) -> None:
        if self.state is not None and current_leader_epoch != NO_EPOCH:
            if current_leader_epoch < self.state.leader_epoch:
                raise ApiError(ErrorCode.fenced_leader_epoch)
            if current_leader_epoch > self.state.leader_epoch:
                raise ApiError(ErrorCode.unknown_leader_epoch)

    # What happened.

    def appended(self, looking: Callable[[], None] | None = None) -> None:
        """Note that records were appended: flush if the topic's settings ask for it now, and wake the requests that wait for records.

        Args:
            looking: the waiter that has appended them and looks by itself at what is committed; it is not woken if no other one waits.
        """
        log = self.log
        if log.log_end_offset - log.recovery_point >= log.settings.flush_messages:
            self._flush_later(self)
        for watcher in self._watchers:
            watcher.on_change(self)
        if self._waiters and log.high_watermark != self._told_committed:
            if len(self._waiters) == 1 and looking in self._waiters:
                self._told_committed = log.high_watermark
            else:
                self._wake_later(self)

    def committed(self) -> None:
        """Say that the high watermark moved."""
        for watcher in self._watchers:
            watcher.on_commit(self)
        if self._waiters:
            self._wake_later(self)

    def flushed(self) -> None:
        """Say that the log was flushed, which may commit records (SYNC-4)."""
        self._unflushed_since_us = None
        if self.leader is not None and self.leader.maybe_advance_high_watermark():
            self.committed()

    def flush_is_due(self, now_us: int) -> bool:
        """True if an append has waited for a flush for ``flush.ms``, or a flush that an append asked for did not sync everything.

        Asked from time to time, with the monotonic clock.
        """
        log = self.log
        if not log.unflushed_batches:
            self._unflushed_since_us = None
            return False
        if log.log_end_offset - log.recovery_point >= log.settings.flush_messages:
            return True
        if self._unflushed_since_us is None:
            self._unflushed_since_us = now_us
        return now_us - self._unflushed_since_us >= log.settings.flush_ms * 1000

    def role_changed(self) -> None:
        """Say that the role, or what the metadata says of the partition, is another one now."""
        for watcher in self._watchers:
            watcher.on_change(self)
        if self._waiters:
            self._role_changed = True
            self._wake_later(self)
        self.log_starts_changed()

    def log_starts_changed(self) -> None:
        """Say that the log, or a follower of the leader here, may have another start, or that it matters no more."""
        for waiter in tuple(self.log_start_waiters):
            waiter()

    # Waiting.

    def wait(self, waiter: Callable[[], None]) -> None:
        """Call ``waiter`` whenever more was committed, or the role changed, until :meth:`forget`."""
        self._waiters[waiter] = None
        if self.log.high_watermark < self._told_committed:  # the log was cut
            self._told_committed = self.log.high_watermark

    def forget(self, waiter: Callable[[], None]) -> None:
        """Call ``waiter`` no more."""
        self._waiters.pop(waiter, None)

    def watch(self, watcher: Watcher) -> None:
        """Tell ``watcher`` of all changes, until :meth:`unwatch`."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        """Tell ``watcher`` no more."""
        self._watchers.pop(watcher, None)

    def wake(self) -> None:
        """Call every waiter, if something changed for them; each may forget itself, or another one, while it is called."""
        committed = self.log.high_watermark
        if committed == self._told_committed and not self._role_changed:
            return
        self._told_committed = committed
        self._role_changed = False
        for waiter in tuple(self._waiters):
            if waiter in self._waiters:
                waiter()
