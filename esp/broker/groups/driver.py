"""The coordinator of one partition of ``__consumer_offsets`` while this node leads it in one leader epoch."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from esp.broker.coordination.driver import AppendEffect, DriverConfig, KeyedCoordinatorDriver, give_answer
from esp.broker.coordination.latest_records import LatestRecords
from esp.broker.groups.config import CoordinatorConfig
from esp.broker.groups.share_states import ShareStateQuestions
from esp.broker.groups.topics import MetadataTopics
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.request import ClientContext
from esp.broker.tasks import Tasks
from esp.broker.turns.turns import Turns
from esp.groups.coordinator import GroupCoordinator
from esp.groups.effects import Answer, Append, Effect
from esp.groups.requests import ConsumerGroupHeartbeat, Heartbeat
from esp.groups.responses import ConsumerGroupHeartbeatResult
from esp.groups.share.requests import ShareGroupHeartbeat, ShareGroupHeartbeatResult, ShareStateResults
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.ports.env import Env
from esp.records.builder import build_batch
from esp.replication.end_marker import EndMarker
from esp.replication.partition_leader import Appended
from esp.replication.verification import Guard
from esp.schemas.share_group_record_codec import SHARE_GROUP_EPOCH_PREFIX
from esp.share.persister import StateKeeping


class GroupCoordinatorDriver(KeyedCoordinatorDriver[GroupCoordinator]):
    """The coordinator of the groups of one partition, in one leader epoch: it drives their :class:`GroupCoordinator`.

    Args:
        env: the outside.
        hosted: the partition, led by this node.
        config: the node's.
        topics: the topics that there are.
        tasks: the tasks in which share coordinators are asked.
        turns: the turns in which long work of coordinators goes on.
        states: the share coordinators; None where share groups are not offered.
    """

    subject: ClassVar = "groups"
    ended_prefix: ClassVar = SHARE_GROUP_EPOCH_PREFIX

    def __init__(
        self,
        env: Env,
        hosted: HostedPartition,
        config: CoordinatorConfig,
        topics: MetadataTopics,
        tasks: Tasks,
        turns: Turns,
        states: StateKeeping | None = None,
    ) -> None:
        settings = replace(config.settings, offers_share_groups=states is not None)
        super().__init__(
            env,
            hosted,
            partial(GroupCoordinator, settings, env.random, topics),
            DriverConfig(config.codec, config.on_disk_error),
        )
        self._topics = topics
        self._tasks = tasks
        self._turns = turns
        self._is_going_on = False
        self._questions = (
            None if states is None else ShareStateQuestions(env.clock, tasks, states, self._on_states_answered)
        )
        self._has_looked_at_topics = False
        self._deleted: dict[TopicPartition, None] = {}
        """Partitions that were deleted while the log was read."""
        self._commits: dict[ClientContext, asyncio.Future[Any]] = {}
        """The last commit of each connection that waits for one."""

    async def _replay(self, latest: LatestRecords) -> None:
        await super()._replay(latest)
        for producer_id, records in latest.pending():
            self._core.replay_pending(producer_id, records)

    def _work(self, effects: Sequence[Any]) -> None:
        super()._work(effects)
        if self._core.has_work and not self._is_going_on and not self._has_ended:
            self._is_going_on = True
            self._tasks.start(self._go_on(), name=f"go on with the groups of {self._hosted.name}")

    async def _go_on(self) -> None:
        """Do what takes the core too long to be done at once, slice by slice."""
        while self._core.has_work and self._leads():
            await self._turns.wait()
            if self._leads():
                self._work(self._core.work(self.now()))
        self._is_going_on = False

    def _on_loaded(self) -> None:
        if self._deleted:
            self._work(self._core.on_partitions_deleted(self._deleted.keys(), self.now()))
        self.look_at_topics(have_gone=False)

    def heartbeat(self, request: Heartbeat) -> ErrorCode:
        """Return the answer to a member of the classic protocol, for which nothing is written.

        Raises:
            ApiError: as :attr:`core`.
        """
        error = self.core.heartbeat(request, self.now())
        if error is ErrorCode.rebalance_in_progress:  # the time for the member to join again may run from now on
            self._timer.update()
        return error

    def beat_at_rest(self, heartbeat: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatResult | None:
        """Return the answer to a member of a consumer group for which nothing changes; None if it is not known to be one.

        Raises:
            ApiError: as :attr:`core`.
        """
        result = self.core.beat_at_rest(heartbeat, self.now())
        if result is not None:
            self._timer.update()
        return result

    def share_beat_at_rest(self, heartbeat: ShareGroupHeartbeat) -> ShareGroupHeartbeatResult | None:
        """As :meth:`beat_at_rest`, for a member of a share group."""
        result = self.core.shares.beat_at_rest(heartbeat, self.now())
        if result is not None:
            self._timer.update()
        return result

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

    @property
    def has_current_topics(self) -> bool:
        """False if the metadata are older than the coordinator: topics that its groups know may still be to come."""
        return self._topics.leader_epoch(self._hosted.name) >= self._leader.leader_epoch

    def look_at_topics(self, *, have_gone: bool) -> None:
        """Let share groups forget the topics that are gone for good (SHARE-29).

        Args:
            have_gone: whether there may be new ones; else this only makes up for what went before this node coordinated.
        """
        if not self._is_loaded or not self._leads() or (self._has_looked_at_topics and not have_gone):
            return
        if not self.has_current_topics:
            return
        self._has_looked_at_topics = True
        gone = self._topics.find_gone(self._core.shares.topic_ids)
        if gone:
            self._work(self._core.shares.on_topics_deleted(gone, self.now()))

    def end(self) -> None:
        """See the class before; share coordinators are asked nothing more."""
        super().end()
        if self._questions is not None:
            self._questions.end()

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
        if isinstance(effect, Answer):
            give_answer(effect)
        elif isinstance(effect, Append):
            if not self._core.is_withdrawn(effect.token):
                self._append(effect)
        else:
            assert self._questions is not None, "share groups are not offered"
            self._questions.ask(effect)

    def _on_states_answered(self, token: int, results: ShareStateResults) -> None:
        if self._leads():
            self._work(self._core.shares.on_states_answered(token, results, self.now()))

    def _do_at_end(self, effect: Effect) -> None:
        if isinstance(effect, Answer):
            give_answer(effect)
