"""One share partition at the leader of its partition: the core with its state in the share coordinator, its log, and its timers.

It begins with a read of the persisted state, and has ended when this node does not lead in that epoch any more, or the coordinator has
refused a write because another one has taken its place. It is not begun again: the next request makes another one.

Writes go to the coordinator one after another. Those that gather while one is on its way go together in the next one, and share its fate:
the cost of many members that acknowledge at once is that of one.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from esp.broker.deadline_timer import DeadlineTimer
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.read_errors import READ_ERRORS, code_of
from esp.broker.share.letter_writer import LETTERS_MAX, LetterWriter
from esp.broker.share.letter_writer import Parts as LetterParts
from esp.broker.share.log_reads import Range, ReadBatches, Searching, find_first_offset, read_batches, visible_end
from esp.broker.tasks import Tasks
from esp.broker.turns.turns import Turns
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.progress import SlicedWork
from esp.schemas.share_state_records import NO_START_OFFSET, ShareStateKey
from esp.share.acknowledgements import AcknowledgementBatch
from esp.share.acquiring import AcquiredRecords, AcquireMode
from esp.share.group_settings import ShareGroupSettings
from esp.share.partition import FENCING, PersistedState, SharePartition, StateWrite
from esp.share.persister import Persister
from esp.share.state_batches import merge
from esp.share.window import NO_WRITE

_FENCED: Final = frozenset((ErrorCode.fenced_leader_epoch, ErrorCode.fenced_state_epoch))

_NO_COORDINATOR: Final = frozenset(
    (
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.request_timed_out,
    )
)

WRITE_AGAIN_US: Final = 1_000_000
"""The time after which a write is sent again."""

_UNHEARD: Final = _NO_COORDINATOR - {ErrorCode.request_timed_out} | {ErrorCode.network_exception}
"""The errors of writes that no coordinator has answered, though it was looked for, for long. Those whose changes count already are sent
again: else a queue at rest would never show how far it has come."""

_NOT_YET: Final = frozenset((*_NO_COORDINATOR, ErrorCode.offset_not_available, ErrorCode.invalid_request))
"""The errors of a begin of which a client hears nothing, as its next fetch begins again: the coordinator is not there yet, the leader does
not know the log's end yet, or the group has not initialised the share partition yet (INVALID_REQUEST)."""


class Parts(NamedTuple):
    """The parts of the node that share partitions work with."""

    persister: Persister
    searching: Searching
    tasks: Tasks
    turns: Turns
    """The turns of work that may be long because there are many share partitions."""
    letters: LetterParts
    """The parts by which dead letters are written."""


class Wanted(NamedTuple):
    """The part of a member's request that is about acquiring."""

    member_id: str
    records_max: int
    batch_size: int
    mode: AcquireMode


class LedSharePartition:
    """See the module. Its first use is :meth:`begin`.

    Args:
        key: the share partition.
        hosted: the replica, which leads.
        settings: returns the group's settings as they count now.
        parts: the node's.
        on_end: called when it has ended.
    """

    def __init__(
        self,
        key: ShareStateKey,
        hosted: HostedPartition,
        settings: Callable[[], ShareGroupSettings],
        parts: Parts,
        on_end: Callable[["LedSharePartition"], None],
    ) -> None:
        self.key: Final = key
        self.error: ErrorCode | None = None
        """Set once it has ended: the error for those that still ask it. NONE: they ask again later."""
        self._hosted: Final = hosted
        self._leader: Final = hosted.leading()
        self._settings: Final = settings
        self._parts: Final = parts
        self._clock: Final = parts.searching.clock
        self._on_end: Final = on_end
        self._core: SharePartition | None = None
        self._waiting: Final[deque[tuple[StateWrite, asyncio.Future[ErrorCode]]]] = deque()
        """The writes that have not been sent, each with the future of its result."""
        self._is_writing = False
        self._letters: Final = LetterWriter(key, hosted, settings, parts.searching, parts.letters)
        self._is_writing_letters = False
        self._waiters: Final[dict[Callable[[], None], None]] = {}
        self._locks: Final = DeadlineTimer(self._clock, self._next_deadline_us, self._on_lock)
        self._used_us = self._clock.monotonic_us()

    @property
    def core(self) -> SharePartition | None:
        """The state; None before it is read and after the end."""
        return self._core

    # Its life.

    def begin(self) -> None:
        """Read the state; fetches wait for that like for records."""
        self._hosted.wait(self._on_news)
        self._hosted.log_start_waiters[self._on_log_start] = None
        self._parts.tasks.start(self._begin(), name=f"begin the share partition {self.key}")

    async def _begin(self) -> None:
        persister, leader_epoch = self._parts.persister, self._leader.leader_epoch
        try:
            persisted = await persister.read(self.key, leader_epoch)
            start_offset = persisted.start_offset
            if start_offset == NO_START_OFFSET:
                start_offset = await find_first_offset(self._hosted, self._settings(), self._parts.searching)
                # Before anything is delivered: the next leader would find another latest offset, and pass what lies between.
                found = StateWrite(NO_WRITE, start_offset, 0, ())
                await persister.write(self.key, persisted.state_epoch, leader_epoch, found)
        except READ_ERRORS as error:
            code = code_of(error)
            self.end(ErrorCode.none if code in _NOT_YET else _for_client(code))
            return
        if not self._is_current():
            self.end(ErrorCode.not_leader_or_follower)
            return
        state = PersistedState(persisted.state_epoch, start_offset, persisted.batches)
        self._core = SharePartition(state, self._settings().partition)
        self.tend()
        self._wake()

    def _is_current(self) -> bool:
        """True unless it has ended, or should have."""
        return self.error is None and self._hosted.leader is self._leader and not self._hosted.is_offline

    def end(self, error: ErrorCode) -> None:
        """It is over; what waits for a write that was not sent is refused."""
        if self.error is not None:
            return
        self.error = error
        self._core = None
        self._letters.count_pending(0)
        self._locks.cancel()
        self._hosted.forget(self._on_news)
        self._hosted.log_start_waiters.pop(self._on_log_start, None)
        refusal = ErrorCode.not_leader_or_follower if error is ErrorCode.none else error
        while self._waiting:
            _settle(self._waiting.popleft()[1], refusal)
        self._on_end(self)
        self._wake()

    def is_idle(self, since_us: int) -> bool:
        """True if it holds nothing that is not persisted or free, and no fetch has come since a time, or waits."""
        core = self._core
        is_at_rest = core is not None and not (core.acquired_count or core.condemned_count or core.has_writes)
        is_at_rest = is_at_rest and not self._is_writing
        return is_at_rest and not self._waiters and self._used_us <= since_us

    # For fetches.

    def wait(self, waiter: Callable[[], None]) -> None:
        """Call ``waiter`` whenever there may be something to acquire, or it has ended, until :meth:`forget`."""
        self._used_us = self._clock.monotonic_us()
        self._waiters[waiter] = None

    def forget(self, waiter: Callable[[], None]) -> None:
        """Call ``waiter`` no more."""
        self._waiters.pop(waiter, None)

    def find_fetch_offset(self) -> int | None:
        """The offset from which a member would read now; None if there is nothing for it."""
        core = self.tend()
        offset = None if core is None else core.find_fetch_offset()
        return None if offset is None or offset >= visible_end(self._hosted.log, self._settings()) else offset

    def find_fetch_range(self, records_max: int) -> Range | None:
        """The offsets of which a member would get so many records; None if there is nothing for it."""
        offset = self.find_fetch_offset()
        core = self._core
        return None if offset is None or core is None else Range(offset, core.find_fetch_end(offset, records_max))

    async def read(self, wanted: Range, max_bytes: int, *, at_least_one: bool) -> ReadBatches:
        """Read what a member may get; see :func:`~esp.broker.share.log_reads.read_batches`, whose errors it raises."""
        cpu = self._parts.searching.cpu
        return await read_batches(self._hosted, wanted, max_bytes, self._settings(), cpu, at_least_one=at_least_one)

    def acquire(self, read: ReadBatches, wanted: Wanted) -> Sequence[AcquiredRecords]:
        """Give a member what was read, as far as it is free now; nothing if this has ended meanwhile."""
        core = self.tend()
        if core is None:
            return ()
        got = core.acquire(
            wanted.member_id,
            read.batches,
            read.fetch_offset,
            self._clock.monotonic_us(),
            records_max=wanted.records_max,
            batch_size=wanted.batch_size,
            mode=wanted.mode,
        )
        self._put(got.write)
        self._locks.update()
        self._look_for_letters()
        return got.records

    # For members' words.

    def acknowledge(
        self, member_id: str, batches: Sequence[AcknowledgementBatch], *, allows_renew: bool
    ) -> SlicedWork[asyncio.Future[ErrorCode] | None]:
        """Take a member's words, in slices; they count when the future says NONE, at once if there is none.

        Raises:
            ApiError: nothing of them counts.
        """
        core = self._require_core()
        write = yield from core.acknowledge(member_id, batches, self._clock.monotonic_us(), allows_renew=allows_renew)
        if self._core is not core:
            raise ApiError(self.error or ErrorCode.not_leader_or_follower)
        self._locks.update()
        return self._put(write)

    def release_member(self, member_id: str) -> None:
        """A member's session has ended."""
        core = self.tend()
        if core is not None:
            self._put(core.release_member(member_id))

    def _require_core(self) -> SharePartition:
        core = self.tend()
        if core is None:
            raise ApiError(self.error or ErrorCode.invalid_record_state)
        return core

    # Time, the log, and the coordinator.

    def tend(self) -> SharePartition | None:
        """Bring the core up to date with role, log, settings and time; None if there is none."""
        if self.error is None and not self._is_current():
            self.end(ErrorCode.not_leader_or_follower)
        core = self._core
        if core is not None:
            core.settings = self._settings().partition
            past = self._pass_log_start(core)
            ended = core.on_time(self._clock.monotonic_us())
            if past is not None or ended is not None:
                self._put(past)
                self._put(ended)
                self._wake()
            self._look_for_letters()
        return self._core

    def _pass_log_start(self, core: SharePartition) -> StateWrite | None:
        before = core.condemned_count
        write = core.on_log_start(self._hosted.log.log_start_offset)
        if core.condemned_count < before:
            self._letters.count_deleted(before - core.condemned_count)
        return write

    def _on_news(self) -> None:
        """More is committed, or the role is another one."""
        self.tend()
        self._wake()

    def _on_log_start(self) -> None:
        """The log may begin elsewhere: the window has room then."""
        self.tend()

    def _next_deadline_us(self) -> int | None:
        return None if self._core is None else self._core.next_deadline_us

    def _on_lock(self) -> None:
        """A lock may end, as may those of many other share partitions, of which one member had records."""
        self._parts.turns.call(self._end_locks)

    def _end_locks(self) -> None:
        self.tend()
        self._locks.update()

    def _wake(self) -> None:
        for waiter in tuple(self._waiters):
            waiter()

    def _put(self, write: StateWrite | None) -> asyncio.Future[ErrorCode] | None:
        """Have a change persisted; the future of its result."""
        if write is None:
            return None
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self._waiting.append((write, future))
        if not self._is_writing:
            self._is_writing = True
            self._parts.tasks.start(self._write(), name=f"write the share partition {self.key}")
        return future

    async def _write(self) -> None:
        while self._waiting:
            gathered = tuple(self._waiting)
            self._waiting.clear()
            error = await self._persist([write for write, _future in gathered])
            core = self._core
            again = []
            for write, future in gathered:
                if core is not None and error in _UNHEARD and core.is_in_force(write.token):
                    again.append((write, future))
                    continue
                if core is not None and error is ErrorCode.none:
                    follows = await self._finish(core.on_written(write.token))
                    if self._core is core:
                        self._put(follows)
                elif core is not None:
                    core.on_write_failed(write.token, error)
                _settle(future, _for_client(error))
            self._waiting.extendleft(reversed(again))
            if again:
                await self._clock.sleep_us(WRITE_AGAIN_US)
            if error in FENCING:
                self.end(ErrorCode.not_leader_or_follower)
            elif core is not None:
                self._locks.update()
                self._look_for_letters()
                self._wake()
        self._is_writing = False

    async def _finish(self, work: SlicedWork[StateWrite | None]) -> StateWrite | None:
        """Do work in slices, of which there is mostly one; return its result."""
        try:
            next(work)
        except StopIteration as end:
            result: StateWrite | None = end.value
            return result
        return await self._parts.turns.run(work)

    # Dead letters.

    @property
    def letters_failing_us(self) -> int:
        """See :attr:`~esp.broker.share.letter_writer.LetterWriter.failing_us`."""
        return self._letters.failing_us

    def _look_for_letters(self) -> None:
        """Have letters written if there are any to write."""
        core = self._core
        count = 0 if core is None else core.condemned_count
        self._letters.count_pending(count)
        if count and not self._is_writing_letters:
            self._is_writing_letters = True
            self._parts.tasks.start(self._write_letters(), name=f"write dead letters of the share partition {self.key}")

    async def _write_letters(self) -> None:
        while (core := self.tend()) is not None and (condemned := core.find_condemned(LETTERS_MAX)):
            end_offset = await self._letters.write(condemned)
            core = self._core
            if core is not None:
                self._put(core.bury(condemned, end_offset))
                self._wake()
        self._is_writing_letters = False
        self._letters.count_pending(0 if self._core is None else self._core.condemned_count)

    async def _persist(self, writes: Sequence[StateWrite]) -> ErrorCode:
        core = self._core
        if core is None:  # it has ended between the start of this task and its first step
            return ErrorCode.not_leader_or_follower
        *older, newest = writes
        batches = [batch for write in writes for batch in write.batches]
        together = newest._replace(batches=merge((), batches, newest.start_offset)) if older else newest
        try:
            await self._parts.persister.write(self.key, core.state_epoch, self._leader.leader_epoch, together)
        except ApiError as error:
            return error.code
        return ErrorCode.none


def _settle(future: asyncio.Future[ErrorCode], error: ErrorCode) -> None:
    if not future.done():
        future.set_result(error)


_FOR_CLIENTS: Final = {
    **dict.fromkeys(_FENCED, ErrorCode.not_leader_or_follower),
    **dict.fromkeys(_NO_COORDINATOR, ErrorCode.coordinator_not_available),
}
_TOLD_AS_THEY_ARE: Final = frozenset(
    (
        ErrorCode.none,
        ErrorCode.group_id_not_found,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.kafka_storage_error,
        ErrorCode.corrupt_message,
    )
)


def _for_client(error: ErrorCode) -> ErrorCode:
    """The word to a member of an error of the coordinator, as in Kafka: a code of which its client knows what to do."""
    return error if error in _TOLD_AS_THEY_ARE else _FOR_CLIENTS.get(error, ErrorCode.unknown_server_error)
