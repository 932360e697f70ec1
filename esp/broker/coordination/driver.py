"""The coordinator of one partition of an internal topic while this node leads it in one leader epoch: the shell of a pure core.

Life: the log is read, and once all that it holds is committed, clients are served (so no answer can be lost after it was given); it ends
when the node leads no more, and the waiting requests are answered with the error upon which clients look for another coordinator. A
coordinator that has ended stays so: the next epoch has its own. A log that cannot be read is not served, and is read again after a while:
the part that can be read would answer that the rest was never written.

Effects of the core are done in their order. What it appends is committed when the high watermark passes it, which on a node that is the
only replica is at once.
"""

import asyncio
import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar

from esp.broker.coordination.latest_records import LatestRecords
from esp.broker.coordination.load_order import LoadOrder
from esp.broker.deadline_timer import DeadlineTimer
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.read_errors import READ_ERRORS
from esp.broker.waiting import Waiters
from esp.model.buffers import Buffer
from esp.model.errors import ApiError, ErrorCode
from esp.model.now import Now
from esp.ports.env import Env
from esp.records.builder import NewRecord, build_batch
from esp.replication.partition_leader import ALL_REPLICAS, Appended, PartitionLeader

log = logging.getLogger(__name__)

LOAD_SLICE_BYTES: Final = 32 * 1024
"""Bytes of the log that are read in one turn of the loop: a few milliseconds of work."""

_REPLAY_SLICE_BYTES: Final = 8 * 1024
"""Bytes of records that are replayed in one turn of the loop: their fields take a microsecond for some bytes."""

_RECORD_BYTES: Final = 64
"""A record counts so many bytes besides its own."""

LOAD_AGAIN_US: Final = 5_000_000
"""The time after which a log that could not be read is read again."""

_LOOK_AGAIN_US: Final = 1_000_000
"""The interval at which a request that waits for a commit looks although no commit was reported."""

_LATE_US: Final = 1_000_000
"""The delay of a timer from which this process must have been away itself: requests of clients from that time are still to be read."""

_GRACE_US: Final = 500_000
"""The time for which they are read before a client's silence counts against it."""

Asked = TypeVar("Asked")


class AppendEffect(Protocol):
    """Records that a core wants appended."""

    @property
    def token(self) -> int:
        """Names the append to the core."""

    @property
    def records(self) -> tuple[NewRecord, ...]:
        """The records of one batch."""

    @property
    def timestamp_ms(self) -> int:
        """The time of the batch."""


class AnswerEffect(Protocol):
    """The answer to a request of :meth:`CoordinatorDriver.ask`."""

    @property
    def ticket(self) -> object:
        """The request's ticket."""

    @property
    def result(self) -> object:
        """The answer."""


class Core(Protocol):
    """The decisions of a coordinator, as its driver needs them."""

    def begin(self, now: Now) -> Sequence[Any]:
        """All records are replayed."""

    def unload(self) -> Sequence[Any]:
        """Another broker coordinates."""

    @property
    def next_deadline_us(self) -> int | None:
        """When :meth:`on_time` is due."""

    def on_time(self, now: Now) -> Sequence[Any]:
        """Do what is due."""

    def on_committed(self, token: int, now: Now) -> Sequence[Any]:
        """An append is committed."""

    def on_append_failed(self, token: int, error: ErrorCode, now: Now) -> Sequence[Any]:
        """An append has failed."""


class KeyedCore(Core, Protocol):
    """A core whose state follows from the latest record of each key."""

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one record of the log."""


AnyCore = TypeVar("AnyCore", bound=Core)
AnyKeyedCore = TypeVar("AnyKeyedCore", bound=KeyedCore)


class DriverConfig(NamedTuple):
    """The facts of the node that a driver rests on."""

    codec: int
    """Number of the codec of its batches."""
    on_disk_error: Callable[[HostedPartition, Exception], None]
    """Called when the partition's log could not be written."""


class _Appended(NamedTuple):
    """Records that stand in the log, and whose commit the core waits for."""

    next_offset: int
    on_committed: Callable[[Now], Sequence[Any]]


class CoordinatorDriver(Generic[AnyCore]):
    """Drives a core on its partition, in one leader epoch.

    Args:
        env: the outside.
        hosted: the partition, led by this node.
        new_core: makes a core that has replayed nothing.
        config: the node's.
    """

    subject: ClassVar[str]
    """The things that are coordinated, for the log."""

    def __init__(
        self, env: Env, hosted: HostedPartition, new_core: Callable[[], AnyCore], config: DriverConfig
    ) -> None:
        assert hosted.leader is not None, "a coordinator belongs to a leader"
        self._clock = env.clock
        self._hosted = hosted
        self._leader = hosted.leader
        self._config = config
        self._new_core = new_core
        self._core = new_core()
        self._is_loaded = False
        self._load_error: str | None = None
        """The reason for which the log could not be read when that was tried last; None if it could, or was not tried."""
        self._has_ended = False
        self._order = LoadOrder()
        self.is_awaited = False
        """True if a client has asked for something before it could be answered."""
        self.left = 0
        """The number of offsets of the log that are still to be read."""
        self._effects: deque[Any] = deque()
        self._is_working = False
        self._appended: deque[_Appended] = deque()
        self._progress = Waiters(env.clock)
        self._not_before_us = 0
        self._timer = DeadlineTimer(env.clock, self._due_us, self._on_time)
        hosted.wait(self._look)

    # Life.

    async def load(self, order: LoadOrder) -> None:
        """Read the log, then serve; nothing happens if the leadership ends before. While the log cannot be read, requests are refused with
        COORDINATOR_LOAD_IN_PROGRESS; a read that succeeds later, after a repair, ends that.

        Args:
            order: that of the logs which this node reads.
        """
        self._order = order
        while not await self._load_once():  # a loop: a log may stay unreadable for days
            await self._clock.sleep_us(LOAD_AGAIN_US)
            if not self._leads():
                return
            self._core = self._new_core()

    async def _load_once(self) -> bool:
        """Read the log, then serve; False if it cannot be read."""
        hosted = self._hosted
        began_us = self._clock.monotonic_us()
        end_offset = hosted.log.log_end_offset
        try:
            with self._order.taking_part(self):
                count = await self._replay_log(end_offset)
        except READ_ERRORS as error:
            if str(error) != self._load_error:  # told once: it may stay so for days
                self._load_error = str(error)
                log.error("the %s of %s cannot be loaded: %s", self.subject, hosted.name, error)
            return False
        while self._leads() and hosted.log.high_watermark < end_offset:
            await self._progress.wait(_LOOK_AGAIN_US)
        if not self._leads():
            return True
        self._is_loaded = True
        self._load_error = None
        self._work(self._core.begin(self.now()))
        self._on_loaded()
        log.log(
            logging.INFO if count else logging.DEBUG,
            "the %s of %s, epoch %d, are loaded: %d records of %d, in %d ms",
            self.subject,
            hosted.name,
            self._leader.leader_epoch,
            count,
            end_offset - hosted.log.log_start_offset,
            (self._clock.monotonic_us() - began_us) // 1000,
        )
        return True

    def _on_loaded(self) -> None:
        """The core serves."""

    @abstractmethod
    async def _replay_log(self, end_offset: int) -> int:
        """Have the core replay the log up to an offset; return the number of records that count.

        Raises:
            CorruptionError: the log cannot be read; and others of READ_ERRORS.
        """

    async def _read(self, end_offset: int, take: Callable[[Buffer], int]) -> None:
        """Read the log up to an offset, in slices.

        Args:
            end_offset: the offset.
            take: takes whole batches in, and returns the offset after them.
        """
        source = self._hosted.log
        offset = source.log_start_offset
        self.left = end_offset - offset
        await self._order.turn(self)
        while (offset := max(offset, source.log_start_offset)) < end_offset and self._leads():
            batches = source.read(offset, LOAD_SLICE_BYTES, end_offset, at_least_one=True)
            if batches is None:
                with self._order.stepping_aside(self):
                    batches = await source.read_cold(offset, LOAD_SLICE_BYTES, end_offset, at_least_one=True)
            if not len(batches):
                return
            offset = take(batches)
            self.left = end_offset - offset
            await self._pause()

    async def _pause(self) -> None:
        """Let the loop do something else, and logs be read that come before this one."""
        await self._clock.sleep_us(0)
        await self._order.turn(self)

    def end(self) -> None:
        """This node coordinates here no more: waiting requests are answered so."""
        if self._has_ended:
            return
        self._has_ended = True
        self._timer.cancel()
        self._hosted.forget(self._look)
        self._appended.clear()
        if self._is_loaded:
            # What the core has decided to answer is answered; for what is not in the log any more, unload() has answers.
            for effect in (*self._effects, *self._core.unload()):
                self._do_at_end(effect)
            self._effects.clear()
            log.debug("the %s of %s are no longer coordinated here", self.subject, self._hosted.name)
        self._progress.wake()

    @property
    def is_unreadable(self) -> bool:
        """True if this node leads the partition still, and could not read its log when it tried last: nothing in it is coordinated."""
        return self._load_error is not None and self._hosted.leader is self._leader

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
    def leader_epoch(self) -> int:
        """The epoch in which this node leads the partition."""
        return self._leader.leader_epoch

    @property
    def core(self) -> AnyCore:
        """The core that decides.

        Raises:
            ApiError: NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS.
        """
        if not self._leads():
            raise ApiError(ErrorCode.not_coordinator)
        if not self._is_loaded:
            self.is_awaited = True
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

    def ask(self, method: Callable[[Asked, object, Now], Sequence[Any]], asked: Asked) -> asyncio.Future[Any]:
        """Hand a request to a method of :attr:`core`, now; the answer comes in the future, which may be done already."""
        ticket: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._work(method(asked, ticket, self.now()))
        return ticket

    def now(self) -> Now:
        """The time, as the core wants it."""
        return Now(self._clock.monotonic_us(), self._clock.wall_ms())

    # Effects.

    @abstractmethod
    def _do(self, effect: Any) -> None:
        """Do one effect of the core."""

    @abstractmethod
    def _do_at_end(self, effect: Any) -> None:
        """Do one effect of a core that coordinates no more: answers alone."""

    def _work(self, effects: Sequence[Any]) -> None:
        """Do what the core asks for, in order; what follows from that comes after it."""
        self._effects.extend(effects)
        if self._is_working:
            return
        self._is_working = True
        while not self._has_ended and (self._effects or self._take_committed()):
            if self._effects:
                self._do(self._effects.popleft())
        self._is_working = False
        if not self._has_ended:
            self._timer.update()

    def _append(self, effect: AppendEffect) -> None:
        if not self._leads():
            return
        hosted = self._hosted
        try:
            _, next_offset, _ = self._append_batch(effect)
        except ApiError as error:
            log.warning("%s cannot store the records of its %s: %s", hosted.name, self.subject, error)
            self._effects.extendleft(reversed(self._core.on_append_failed(effect.token, error.code, self.now())))
            if error.code is ErrorCode.kafka_storage_error and isinstance(error.__cause__, OSError):
                self._config.on_disk_error(hosted, error)
            return
        self._appended.append(_Appended(next_offset, partial(self._core.on_committed, effect.token)))
        hosted.appended(self._look)

    def _append_batch(self, effect: AppendEffect) -> Appended:
        """Append the records of an effect.

        Raises:
            ApiError: nothing was appended.
        """
        batch = build_batch(effect.records, timestamp_ms=effect.timestamp_ms, codec=self._config.codec)
        return self._leader.append(memoryview(bytearray(batch)), ALL_REPLICAS, self._clock.wall_ms(), any_codec=True)

    def _note_appended(self, next_offset: int, on_committed: Callable[[Now], Sequence[Any]]) -> None:
        """A batch that no effect asked for was appended: ``on_committed`` tells the core when it is committed."""
        self._appended.append(_Appended(next_offset, on_committed))
        self._hosted.appended(self._look)
        self._work(())

    def _take_committed(self) -> bool:
        """Tell the core of the next of its records that are committed by now, if there are any."""
        appended = self._appended
        if not appended or self._hosted.log.high_watermark < appended[0].next_offset:
            return False
        self._effects.extend(appended.popleft().on_committed(self.now()))
        return True

    def _look(self) -> None:
        """More was committed, or the role changed."""
        if self._leads() and self._is_loaded and self._appended:
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


class KeyedCoordinatorDriver(CoordinatorDriver[AnyKeyedCore]):
    """Drives a core that needs the latest record of each key only. See :class:`CoordinatorDriver`."""

    ended_prefix: ClassVar[bytes | None] = None
    """The first bytes of the keys whose last values the core is to know, also where a tombstone follows; None for no keys."""

    async def _replay_log(self, end_offset: int) -> int:
        latest = LatestRecords(self.ended_prefix)
        await self._read(end_offset, latest.add)
        await self._replay(latest)
        return len(latest.by_key)

    async def _replay(self, latest: LatestRecords) -> None:
        await replay_in_slices(self._core, latest, self._pause)


async def replay_in_slices(core: KeyedCore, latest: LatestRecords, pause: Callable[[], Awaitable[None]]) -> None:
    """Have a core replay the records of a log, some kilobytes in one turn of the loop.

    Args:
        core: new.
        latest: the records.
        pause: called between two turns.
    """
    size_bytes = 0
    for key, value in latest.ended.items():  # before all that follows the tombstones in the log
        core.replay(key, value)
        core.replay(key, None)
        size_bytes += len(value) + _RECORD_BYTES
        if size_bytes >= _REPLAY_SLICE_BYTES:
            size_bytes = 0
            await pause()
    for key, value in latest.by_key.items():
        core.replay(key, value)
        size_bytes += len(value) + _RECORD_BYTES
        if size_bytes >= _REPLAY_SLICE_BYTES:
            size_bytes = 0
            await pause()


def give_answer(effect: AnswerEffect) -> None:
    """Answer a request of :meth:`CoordinatorDriver.ask`."""
    ticket = effect.ticket
    assert isinstance(ticket, asyncio.Future), "a ticket comes from ask()"
    if not ticket.done():  # else the node is stopping
        ticket.set_result(effect.result)
