"""The coordinator of one partition of ``__consumer_offsets`` while this node leads it in one leader epoch.

Life: the log is read, and once all that it holds is committed, the groups are served (so no answer can be lost after it was given); it ends
when the node leads no more, and the waiting requests are answered with the error upon which clients look for another coordinator. A
coordinator that has ended stays so: the next epoch has its own.

Effects of the core are done in their order. What it appends is committed when the high watermark passes it, which on a node that is the
only replica is at once.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from esp.broker.deadline_timer import DeadlineTimer
from esp.broker.groups.config import CoordinatorConfig
from esp.broker.groups.latest_records import LatestRecords
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.read_errors import READ_ERRORS
from esp.broker.request import ClientContext
from esp.broker.waiting import Waiters
from esp.groups.coordinator import GroupCoordinator
from esp.groups.effects import Answer, Append, Effect
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicPartition
from esp.model.now import Now
from esp.ports.env import Env
from esp.records.builder import build_batch
from esp.replication.end_marker import EndMarker
from esp.replication.partition_leader import ALL_REPLICAS, Appended, PartitionLeader
from esp.replication.verification import Guard

log = logging.getLogger(__name__)

LOAD_SLICE_BYTES: Final = 32 * 1024
"""Bytes of the log that are read in one turn of the loop: a few milliseconds of work."""

_REPLAY_SLICE: Final = 500
"""Records that are replayed in one turn of the loop."""

_LOOK_AGAIN_US: Final = 1_000_000
"""The interval at which a request that waits for a commit looks although no commit was reported."""

_LATE_US: Final = 1_000_000
"""The delay of a timer from which this process must have been away itself: requests of members from that time are still to be read."""

_GRACE_US: Final = 500_000
"""The time for which they are read before a member's silence counts against it."""

Asked = TypeVar("Asked")


class _Appended(NamedTuple):
    """Records of the core that stand in the log, and whose commit it waits for."""

    next_offset: int
    token: int
    marker: EndMarker | None = None
    """The end-transaction marker that it is, if it is one."""


class GroupCoordinatorDriver:
    """The coordinator of the groups of one partition, in one leader epoch: it drives their :class:`GroupCoordinator`.

    Args:
        env: the outside.
        hosted: the partition, led by this node.
        config: the node's.
    """

    def __init__(self, env: Env, hosted: HostedPartition, config: CoordinatorConfig) -> None:
        assert hosted.leader is not None, "a coordinator belongs to a leader"
        self._clock = env.clock
        self._hosted = hosted
        self._leader = hosted.leader
        self._config = config
        self._core = GroupCoordinator(config.settings, env.random)
        self._is_loaded = False
        self._has_ended = False
        self._deleted: dict[TopicPartition, None] = {}
        """Partitions that were deleted while the log was read."""
        self._effects: deque[Effect] = deque()
        self._is_working = False
        self._appended: deque[_Appended] = deque()
        self._commits: dict[ClientContext, asyncio.Future[Any]] = {}
        """The last commit of each connection that waits for one."""
        self._progress = Waiters(env.clock)
        self._not_before_us = 0
        self._timer = DeadlineTimer(env.clock, self._due_us, self._on_time)
        hosted.wait(self._look)

    # Life.

    async def load(self) -> None:
        """Read the log, then serve; nothing happens if the leadership ends before. A log that cannot be read is not served."""
        hosted = self._hosted
        began_us = self._clock.monotonic_us()
        latest = LatestRecords()
        end_offset = hosted.log.log_end_offset
        try:
            await self._read(latest, end_offset)
            await self._replay(latest)
            for producer_id, records in latest.pending():
                self._core.replay_pending(producer_id, records)
        except READ_ERRORS as error:
            log.error("the groups of %s cannot be loaded: %s", hosted.name, error)
            self.end()
            return
        while self._leads() and hosted.log.high_watermark < end_offset:
            await self._progress.wait(_LOOK_AGAIN_US)
        if not self._leads():
            return
        self._is_loaded = True
        now = self.now()
        self._work(self._core.begin(now))
        if self._deleted:
            self._work(self._core.on_partitions_deleted(self._deleted.keys(), now))
        log.log(
            logging.INFO if latest.by_key else logging.DEBUG,
            "the groups of %s, epoch %d, are loaded: %d records of %d, in %d ms",
            hosted.name,
            self._leader.leader_epoch,
            len(latest.by_key),
            end_offset - hosted.log.log_start_offset,
            (self._clock.monotonic_us() - began_us) // 1000,
        )

    async def _read(self, latest: LatestRecords, end_offset: int) -> None:
        source = self._hosted.log
        offset = 0
        while (offset := max(offset, source.log_start_offset)) < end_offset and self._leads():
            batches = source.read(offset, LOAD_SLICE_BYTES, end_offset, at_least_one=True)
            if batches is None:
                batches = await source.read_cold(offset, LOAD_SLICE_BYTES, end_offset, at_least_one=True)
            if not len(batches):
                return
            offset = latest.add(batches)
            await self._clock.sleep_us(0)

    async def _replay(self, latest: LatestRecords) -> None:
        for number, (key, value) in enumerate(latest.by_key.items()):
            self._core.replay(key, value)
            if number % _REPLAY_SLICE == _REPLAY_SLICE - 1:
                await self._clock.sleep_us(0)

    def end(self) -> None:
        """This node coordinates these groups no more: waiting requests are answered so."""
        if self._has_ended:
            return
        self._has_ended = True
        self._timer.cancel()
        self._hosted.forget(self._look)
        self._appended.clear()
        if self._is_loaded:
            # What the core has decided to answer is answered; for what is not in the log any more, unload() has answers.
            for effect in (*self._effects, *self._core.unload()):
                if isinstance(effect, Answer):
                    _answer(effect)
            self._effects.clear()
            log.debug("the groups of %s are no longer coordinated here", self._hosted.name)
        self._progress.wake()

    @property
    def has_ended(self) -> bool:
        """True if the driver is of no use any more."""
        return self._has_ended

    def _leads(self) -> bool:
        """True if this node leads the partition still in the coordinator's epoch; if not, the coordinator ends."""
        if not self._has_ended and self._hosted.leader is not self._leader:
            self.end()
        return not self._has_ended

    # Requests.

    @property
    def core(self) -> GroupCoordinator:
        """The core that decides for the groups.

        Raises:
            ApiError: NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS.
        """
        if not self._leads():
            raise ApiError(ErrorCode.not_coordinator)
        if not self._is_loaded:
            raise ApiError(ErrorCode.coordinator_load_in_progress)
        return self._core

    @property
    def hosted(self) -> HostedPartition:
        """The coordinator's partition."""
        return self._hosted

    @property
    def leader(self) -> PartitionLeader:
        """The partition's leader in the coordinator's epoch."""
        return self._leader

    def append_marker(self, marker: EndMarker) -> int:
        """End a transaction in the coordinator's partition, and with the marker's commit in the groups (TXN-10).

        Returns:
            The offset after the marker.

        Raises:
            ApiError: the marker is refused, or as :attr:`core`.
        """
        core = self.core
        _, next_offset, _ = self._leader.append_marker(marker, self._clock.wall_ms())
        self._appended.append(_Appended(next_offset, core.on_marker_appended(), marker))
        self._hosted.appended()
        self._work(())
        return next_offset

    def ask(self, method: Callable[[Asked, object, Now], Sequence[Effect]], asked: Asked) -> asyncio.Future[Any]:
        """Hand a request to a method of :attr:`core`, now; the answer comes in the future, which may be done already."""
        ticket: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._work(method(asked, ticket, self.now()))
        return ticket

    def now(self) -> Now:
        """The time, as the core wants it."""
        return Now(self._clock.monotonic_us(), self._clock.wall_ms())

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

    # Effects.

    def _work(self, effects: Sequence[Effect]) -> None:
        """Do what the core asks for, in order; what follows from that comes after it."""
        self._effects.extend(effects)
        if self._is_working:
            return
        self._is_working = True
        while not self._has_ended and (self._effects or self._take_committed()):
            if self._effects:
                effect = self._effects.popleft()
                if isinstance(effect, Append):
                    self._append(effect)
                else:
                    _answer(effect)
        self._is_working = False
        if not self._has_ended:
            self._timer.update()

    def _append(self, effect: Append) -> None:
        if not self._leads():
            return
        hosted = self._hosted
        try:
            _, next_offset, _ = self._append_batch(effect)
        except ApiError as error:
            log.warning("%s cannot store the records of its groups: %s", hosted.name, error)
            self._effects.extendleft(reversed(self._core.on_append_failed(effect.token, error.code, self.now())))
            if error.code is ErrorCode.kafka_storage_error and isinstance(error.__cause__, OSError):
                self._config.on_disk_error(hosted, error)
            return
        self._appended.append(_Appended(next_offset, effect.token))
        hosted.appended()

    def _append_batch(self, effect: Append) -> Appended:
        transaction = effect.transaction
        now_ms = self._clock.wall_ms()
        if transaction is None:
            batch = build_batch(effect.records, timestamp_ms=effect.timestamp_ms, codec=self._config.codec)
            return self._leader.append(memoryview(bytearray(batch)), ALL_REPLICAS, now_ms, any_codec=True)
        assert isinstance(transaction.guard, Guard), "a guard comes from the leader"
        batch = build_batch(
            effect.records,
            timestamp_ms=effect.timestamp_ms,
            codec=self._config.codec,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            transactional=True,
        )
        return self._leader.append_of_coordinator(memoryview(bytearray(batch)), transaction.guard, now_ms)

    def _take_committed(self) -> bool:
        """Tell the core of the next of its records that are committed by now, if there are any."""
        if not self._appended or self._hosted.log.high_watermark < self._appended[0].next_offset:
            return False
        _, token, marker = self._appended.popleft()
        if marker is None:
            self._effects.extend(self._core.on_committed(token, self.now()))
        else:
            self._effects.extend(
                self._core.on_marker_committed(token, marker.producer_id, self.now(), is_commit=marker.is_commit)
            )
        return True

    def _look(self) -> None:
        """More was committed, or the role changed."""
        if self._leads() and self._is_loaded:
            self._work(())
        self._progress.wake()

    def _due_us(self) -> int | None:
        deadline_us = self._core.next_deadline_us
        return None if deadline_us is None else max(deadline_us, self._not_before_us)

    def _on_time(self) -> None:
        if not self._leads():
            return
        now, due_us = self.now(), self._due_us()
        if due_us is not None and now.monotonic_us - due_us > _LATE_US:
            self._not_before_us = now.monotonic_us + _GRACE_US
            self._timer.update()
        else:
            self._work(self._core.on_time(now))


def _answer(effect: Answer) -> None:
    ticket = effect.ticket
    assert isinstance(ticket, asyncio.Future), "a ticket comes from ask()"
    if not ticket.done():  # else the node is stopping
        ticket.set_result(effect.result)
