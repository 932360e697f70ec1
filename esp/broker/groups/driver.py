"""The coordinator of one partition of ``__consumer_offsets`` while this node leads it in one leader epoch."""

import asyncio
from collections.abc import Iterable
from typing import Any, ClassVar

from esp.broker.coordination.driver import AppendEffect, DriverConfig, KeyedCoordinatorDriver, give_answer
from esp.broker.coordination.latest_records import LatestRecords
from esp.broker.groups.config import CoordinatorConfig
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.request import ClientContext
from esp.groups.consumer.topics import TopicCatalog
from esp.groups.coordinator import GroupCoordinator
from esp.groups.effects import Answer, Append, Effect
from esp.groups.requests import Heartbeat
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.ports.env import Env
from esp.records.builder import build_batch
from esp.replication.end_marker import EndMarker
from esp.replication.partition_leader import Appended
from esp.replication.verification import Guard


class GroupCoordinatorDriver(KeyedCoordinatorDriver[GroupCoordinator]):
    """The coordinator of the groups of one partition, in one leader epoch: it drives their :class:`GroupCoordinator`.

    Args:
        env: the outside.
        hosted: the partition, led by this node.
        config: the node's.
        topics: the topics that there are.
    """

    subject: ClassVar = "groups"

    def __init__(self, env: Env, hosted: HostedPartition, config: CoordinatorConfig, topics: TopicCatalog) -> None:
        core = GroupCoordinator(config.settings, env.random, topics)
        super().__init__(env, hosted, core, DriverConfig(config.codec, config.on_disk_error))
        self._deleted: dict[TopicPartition, None] = {}
        """Partitions that were deleted while the log was read."""
        self._commits: dict[ClientContext, asyncio.Future[Any]] = {}
        """The last commit of each connection that waits for one."""

    async def _replay(self, latest: LatestRecords) -> None:
        await super()._replay(latest)
        for producer_id, records in latest.pending():
            self._core.replay_pending(producer_id, records)

    def _on_loaded(self) -> None:
        if self._deleted:
            self._work(self._core.on_partitions_deleted(self._deleted.keys(), self.now()))

    def heartbeat(self, request: Heartbeat) -> ErrorCode:
        """Return the answer to a member of the classic protocol, for which nothing is written.

        Raises:
            ApiError: as :attr:`core`.
        """
        error = self.core.heartbeat(request, self.now())
        if error is ErrorCode.rebalance_in_progress:  # the time for the member to join again may run from now on
            self._timer.update()
        return error

    def remember_commit(self, client: ClientContext, answer: asyncio.Future[Any]) -> None:
        """A connection has sent a commit, which may not be answered yet."""
        if answer.done():
            return
        self._commits[client] = answer

        def forget(_answer: asyncio.Future[Any]) -> None:
            if self._commits.get(client) is answer:
                del self._commits[client]

        answer.add_done_callback(forget)

    def commit_of(self, client: ClientContext) -> asyncio.Future[Any] | None:
        """The last commit of a connection, if it is not answered yet.

        A client that commits offsets and asks for them without waiting gets what it committed, as from Kafka, which takes the next request
        of a connection when it has answered the one before.
        """
        return self._commits.get(client)

    def forget_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """These were deleted with their topics, and their offsets are not needed any more."""
        if not self._leads():
            return
        gone = dict.fromkeys(partitions)
        if self._is_loaded:
            self._work(self._core.on_partitions_deleted(gone.keys(), self.now()))
        else:
            self._deleted |= gone

    def append_marker(self, marker: EndMarker) -> int:
        """End a transaction in the coordinator's partition, and with the marker's commit in the groups (TXN-10).

        Returns:
            The offset after the marker.

        Raises:
            ApiError: the marker is refused, or as :attr:`core`.
        """
        core = self.core
        _, next_offset, _ = self._leader.append_marker(marker, self._clock.wall_ms())
        token = core.on_marker_appended()
        self._note_appended(
            next_offset,
            lambda now: core.on_marker_committed(token, marker.producer_id, now, is_commit=marker.is_commit),
        )
        return next_offset

    def _append_batch(self, effect: AppendEffect) -> Appended:
        assert isinstance(effect, Append), "the core of groups asks for its own kind of append"
        transaction = effect.transaction
        if transaction is None:
            return super()._append_batch(effect)
        assert isinstance(transaction.guard, Guard), "a guard comes from the leader"
        batch = build_batch(
            effect.records,
            timestamp_ms=effect.timestamp_ms,
            codec=self._config.codec,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            transactional=True,
        )
        return self._leader.append_of_coordinator(
            memoryview(bytearray(batch)), transaction.guard, self._clock.wall_ms()
        )

    def _do(self, effect: Effect) -> None:
        if not isinstance(effect, Append):
            assert isinstance(effect, Answer), "share groups are not offered"
            give_answer(effect)
        elif not self._core.is_withdrawn(effect.token):
            self._append(effect)

    def _do_at_end(self, effect: Effect) -> None:
        if isinstance(effect, Answer):
            give_answer(effect)
