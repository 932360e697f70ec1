"""Holds what leaders of share partitions deliver against what a share group promises (KIP-932).

The leaders' deliveries, and the words of members that they take, are seen as they happen, in whichever process: an answer may be lost on
its way, and its records count as delivered all the same. Members add what they were answered. What is persisted is read from the log
(:class:`~esp.simulation.checkers.share_state_log.ShareStateLog`).

A leader that has been replaced and does not know it may deliver what was accepted since at its successor: in Kafka, too, nothing keeps it
from that. Nothing of what becomes of it counts (INV-SHARE-FENCE), so its deliveries are held against nothing but themselves.
"""

import asyncio
import contextlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from esp.broker.share.leaders import ShareLeaders
from esp.broker.share.led_partition import LedSharePartition, Wanted
from esp.broker.share.log_reads import ReadBatches
from esp.broker.share_states.driver import ShareCoordinatorDriver
from esp.broker.share_states.persister import ClusterPersister
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.protocol.progress import SlicedWork
from esp.schemas.share_state_records import RecordState, ShareStateKey, StateBatch
from esp.share.acknowledgements import AcknowledgementBatch, AcknowledgeType
from esp.share.acquiring import AcquiredRecords
from esp.share.coordinator.requests import Write
from esp.share.partition import SharePartition, StateWrite
from esp.share.persister import PersistedRead
from esp.share.sessions import SessionKey
from esp.share.window import NO_LOCK_US, NO_WRITE
from esp.simulation.checkers.share_state_log import NO_EPOCH, Attempts, Life, ShareStateLog
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.loop import Process, current_process

FASTEST_CLOCK: Final = 1.25
"""No clock of a node is so much faster than virtual time."""

_MS_PER_S: Final = 1000
_TERMINAL: Final = frozenset((AcknowledgeType.GAP, AcknowledgeType.ACCEPT, AcknowledgeType.REJECT))


class _Hold(NamedTuple):
    """A record that a member has."""

    member_id: str
    until_s: float
    """Its lock has not ended before, nor the member's session."""


class _Word(NamedTuple):
    """A member's word on a record."""

    offset: int
    type: AcknowledgeType


class _Read(NamedTuple):
    """The state that a leader read."""

    number: int
    """The number of the read among all reads, in the order in which they were asked for."""
    leader_epoch: int
    batches: Sequence[StateBatch]


@dataclass(slots=True, eq=False)
class _Led:
    """One share partition at one leader, as far as its deliveries tell."""

    process: Process | None
    life: Life | None
    leader_epoch: int
    start_offset: int
    read: Sequence[StateBatch] | None
    """The states of records that it has read; None if its read was not seen."""
    holds: dict[int, _Hold] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    """The delivery count of each record, as told last."""
    pending: list[tuple[asyncio.Future[ErrorCode], Sequence[_Word]]] = field(default_factory=list)
    """Words that are being written."""


class ShareChecker:
    """See the module.

    Args:
        states: the persisted states.
        clock: virtual seconds.
        is_excused: whether more was lost of a share partition than is promised (ELECT-5).
        leader_epoch: of a share partition's partition, by the metadata that counts.
        on_found: told of violations that are found in the midst of a node's step.
        soon: calls when all is seen that the present turn has committed.
    """

    def __init__(
        self,
        states: ShareStateLog,
        clock: Callable[[], float],
        is_excused: Callable[[ShareStateKey], bool],
        leader_epoch: Callable[[ShareStateKey], int],
        on_found: Callable[[ViolationError], None],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self.delivered = 0
        """Records that leaders have delivered."""
        self.accepted = 0
        """Records of which members were answered that they are done with."""
        self.replaced = 0
        """Deliveries of leaders that had been replaced."""
        self.delivered_again = 0
        """Records that were delivered more than once."""
        self.on_cut: Callable[[TopicId, int, int], None] = lambda _topic_id, _partition, _offset: None
        """Told before the log of a coordinator is cut: topic, partition and offset. May raise ViolationError."""
        self.on_delivered: Callable[[ShareStateKey, int, int], None] = lambda _key, _start_offset, _end_offset: None
        """Told of the records that members get."""
        self.on_write: Callable[[Write], None] = lambda _write: None
        """Told of each write that a leader sends."""
        self.on_words: Callable[[ShareStateKey, str], None] = lambda _key, _member_id: None
        """Told when a leader is about to have words of a member written."""
        self._states = states
        self._clock = clock
        self._is_excused = is_excused
        self._leader_epoch = leader_epoch
        self._on_found = on_found
        self._soon = soon
        self._led: dict[ShareStateKey, dict[LedSharePartition, _Led]] = {}
        self._leaders: dict[LedSharePartition, ShareLeaders] = {}
        self._read_epochs: dict[ShareStateKey, dict[int, int]] = {}
        """The highest leader epoch in which each state was read, by its state epoch."""
        self._reads: dict[tuple[object, ShareStateKey], _Read] = {}
        """The last read of each state by each node in each of its lives."""
        self._read_count = 0

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look at what all leaders deliver, and take, until the block ends."""
        acquire, acknowledge = LedSharePartition.acquire, LedSharePartition.acknowledge
        release, obtain = LedSharePartition.release_member, ShareLeaders.obtain
        read, write = ClusterPersister.read, ClusterPersister.write
        prune = ShareCoordinatorDriver._prune  # noqa: SLF001 - checkers look into nodes

        def watch_acquire(share: LedSharePartition, batches: ReadBatches, wanted: Wanted) -> Sequence[AcquiredRecords]:
            records = acquire(share, batches, wanted)
            self._guard(lambda: self._on_acquired(share, batches, wanted, records))
            return records

        def watch_acknowledge(
            share: LedSharePartition, member_id: str, batches: Sequence[AcknowledgementBatch], *, allows_renew: bool
        ) -> SlicedWork[asyncio.Future[ErrorCode] | None]:
            future = yield from acknowledge(share, member_id, batches, allows_renew=allows_renew)
            self._guard(lambda: self._on_words(share, member_id, batches, future))
            return future

        def watch_release(share: LedSharePartition, member_id: str) -> None:
            self._on_released(share, member_id)
            release(share, member_id)
            self._guard(lambda: _check_released(share, member_id))

        def watch_obtain(leaders: ShareLeaders, *arguments: Any, **options: Any) -> LedSharePartition:
            share = obtain(leaders, *arguments, **options)
            self._leaders[share] = leaders
            return share

        async def watch_read(persister: ClusterPersister, key: ShareStateKey, leader_epoch: int) -> PersistedRead:
            self._read_count += 1
            number = self._read_count
            found = await read(persister, key, leader_epoch)
            self._note_read(key, found.state_epoch, leader_epoch)
            self._on_read(persister, key, _Read(number, leader_epoch, found.batches))
            return found

        async def watch_write(
            persister: ClusterPersister, key: ShareStateKey, state_epoch: int, leader_epoch: int, change: StateWrite
        ) -> None:
            sent = Write(key, state_epoch, leader_epoch, change.start_offset, change.complete_count, change.batches)
            self.on_write(sent)
            on_success = self.judge(sent)
            await write(persister, key, state_epoch, leader_epoch, change)
            self._guard(on_success)

        def watch_prune(driver: ShareCoordinatorDriver, offset: int) -> None:
            self._guard(lambda: self.on_cut(driver.hosted.topic_id, driver.hosted.name.partition, offset))
            prune(driver, offset)

        LedSharePartition.acquire = watch_acquire  # type: ignore[method-assign, assignment]  # of the class
        LedSharePartition.acknowledge = watch_acknowledge  # type: ignore[method-assign, assignment]
        LedSharePartition.release_member = watch_release  # type: ignore[method-assign, assignment]
        ShareLeaders.obtain = watch_obtain  # type: ignore[method-assign, assignment]
        ShareCoordinatorDriver._prune = watch_prune  # type: ignore[method-assign, assignment]  # noqa: SLF001
        ClusterPersister.read = watch_read  # type: ignore[method-assign, assignment]
        ClusterPersister.write = watch_write  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            LedSharePartition.acquire = acquire  # type: ignore[method-assign]
            LedSharePartition.acknowledge = acknowledge  # type: ignore[method-assign]
            LedSharePartition.release_member = release  # type: ignore[method-assign]
            ShareLeaders.obtain = obtain  # type: ignore[method-assign]
            ShareCoordinatorDriver._prune = prune  # type: ignore[method-assign]  # noqa: SLF001
            ClusterPersister.read = read  # type: ignore[method-assign]
            ClusterPersister.write = write  # type: ignore[method-assign]

    def _on_read(self, persister: object, key: ShareStateKey, read: _Read) -> None:
        """A leader has read a state; one that is asked for earlier, and answered later, is of a leader that has ended."""
        before = self._reads.get((persister, key))
        if before is None or before.number < read.number:
            self._reads[persister, key] = read

    def _guard(self, check: Callable[[], None]) -> None:
        try:
            check()
        except ViolationError as error:  # the node must not take it for an error of its own
            self._on_found(error)

    # Leaders.

    def _on_acquired(
        self, share: LedSharePartition, read: ReadBatches, wanted: Wanted, records: Sequence[AcquiredRecords]
    ) -> None:
        core = share.core
        if core is None or not records:
            return
        key, led = share.key, self._find(share, core)
        for other in self._led[key].values():
            self._settle(other)
        self._check_window(key, led, core, read)
        for piece in records:
            if piece.delivery_count > core.settings.delivery_count_limit:
                raise ViolationError("INV-SHARE-COUNT", f"{key}", f"{piece} exceeds the limit")
            if piece.start_offset < share._hosted.log.log_start_offset:  # noqa: SLF001 - checkers look into nodes
                raise ViolationError("INV-SPSO", f"{key}", f"{piece} is below the log start")
            self.on_delivered(key, piece.start_offset, piece.end_offset)
            for offset in range(piece.start_offset, piece.end_offset):
                self._on_delivered(key, led, core, offset, piece.delivery_count, wanted.member_id)

    def _on_delivered(
        self, key: ShareStateKey, led: _Led, core: SharePartition, offset: int, count: int, member_id: str
    ) -> None:
        now_s = self._clock()
        self.delivered += 1
        self.delivered_again += count > 1
        hold = led.holds.get(offset)
        if hold is not None and now_s < hold.until_s:
            raise ViolationError(
                "INV-SHARE-ONE",
                f"{key}",
                f"{member_id} gets {offset}, which {hold.member_id} has until {hold.until_s:.3f}",
            )
        before = led.counts.get(offset)
        self._check_count(key, led, offset, count)
        led.counts[offset] = count
        if led.life is not None:
            led.life.first_delivered = min(offset, led.life.first_delivered)
        lock_s = core.settings.record_lock_duration_ms / _MS_PER_S
        led.holds[offset] = _Hold(member_id, now_s + lock_s / FASTEST_CLOCK)
        life = led.life
        if life is None or self._is_excused(key):
            return
        if count >= core.settings.delivery_count_limit:
            life.reasons.add(offset)
            life.exhausted.add(offset)
        if led.leader_epoch < self._leader_epoch(key):
            self.replaced += 1
            return
        if offset in life.done:
            raise ViolationError(
                "INV-SHARE-ACK",
                f"{key}",
                f"{member_id} gets {offset}, which was accepted or rejected, and that answered",
            )
        limit, has_ended = core.settings.delivery_count_limit, hold is not None
        self._soon(partial(self._check_attempts, key, life, offset, before, has_ended=has_ended, limit=limit))

    def _check_count(self, key: ShareStateKey, led: _Led, offset: int, count: int) -> None:
        """A leader counts on from the state that it has read."""
        before, whose = led.counts.get(offset), "delivery"
        if before is None and led.read is not None:
            before, whose = _count_of(led.read, offset), "the persisted count"
        if before is not None and count != before + 1:
            raise ViolationError("INV-SHARE-COUNT", f"{key}", f"delivery {count} of {offset} follows {whose} {before}")

    def _check_attempts(
        self, key: ShareStateKey, life: Life, offset: int, before: int | None, *, has_ended: bool, limit: int
    ) -> None:
        """A record is delivered as often as the limit, and once more for each change of leader and each end that was not persisted.

        Args:
            key: the share partition.
            life: the life of it.
            offset: the record's, which was just delivered.
            before: its delivery count at this leader before; None if there is none.
            has_ended: whether the lock or the session of the member before has ended: the record may be delivered before that is persisted.
            limit: ``share.delivery.count.limit``.
        """
        state = self._states.state(key) if life is self._states.life(key) else None
        if state is None:  # of a life that is over, and of which another leader begins anew
            return
        attempts = life.attempts.setdefault(offset, Attempts())
        attempts.count += 1
        if before is None:
            attempts.leaders += 1
        elif offset >= state.start_offset and (persisted := _count_of(state.batches, offset)) < before:
            if not has_ended:
                raise ViolationError(
                    "INV-SHARE-COUNT",
                    f"{key}",
                    f"{offset} was given back after delivery {before}, and its persisted count is {persisted}",
                )
            attempts.unwritten += 1
        if attempts.count >= limit + attempts.leaders + attempts.unwritten:
            raise ViolationError(
                "INV-SHARE-COUNT",
                f"{key}",
                f"{offset} is delivered {attempts.count} times, by {attempts.leaders} leaders, "
                f"{attempts.unwritten} times before the end of an attempt was persisted; the limit is {limit}",
            )

    def _check_window(self, key: ShareStateKey, led: _Led, core: SharePartition, read: ReadBatches) -> None:
        if core.start_offset < led.start_offset:
            raise ViolationError(
                "INV-SPSO", f"{key}", f"its start offset fell from {led.start_offset} to {core.start_offset} in memory"
            )
        led.start_offset = core.start_offset
        largest = max(batch.end_offset - batch.start_offset for batch in read.batches)
        span = core.end_offset - core.start_offset
        if (
            span >= core.settings.partition_max_record_locks + largest
            and core.end_offset == read.batches[-1].end_offset
        ):
            raise ViolationError("INV-SHARE-SPAN", f"{key}", f"the window spans {span} offsets")

    def _on_words(
        self,
        share: LedSharePartition,
        member_id: str,
        batches: Sequence[AcknowledgementBatch],
        future: asyncio.Future[ErrorCode] | None,
    ) -> None:
        core = share.core
        if core is None:
            return
        led = self._find(share, core)
        self._settle(led)
        words = []
        for batch in batches:
            for place, offset in enumerate(range(batch.start_offset, batch.last_offset + 1)):
                hold = led.holds.get(offset)
                if hold is None or hold.member_id != member_id:
                    continue
                type_ = AcknowledgeType(batch.types[place if len(batch.types) > 1 else 0])
                if type_ is AcknowledgeType.RENEW:
                    lock_s = core.settings.record_lock_duration_ms / _MS_PER_S
                    led.holds[offset] = hold._replace(until_s=self._clock() + lock_s / FASTEST_CLOCK)
                    continue
                words.append(_Word(offset, type_))
                if type_ in _TERMINAL and led.life is not None:
                    led.life.reasons.add(offset)
                    led.life.words[offset] = member_id
        if future is not None:
            led.pending.append((future, words))
            self.on_words(share.key, member_id)

    def _settle(self, led: _Led) -> None:
        """Take note of the words that have been written meanwhile."""
        left = []
        for future, words in led.pending:
            if not future.done():
                left.append((future, words))
            elif not future.cancelled() and future.result() is ErrorCode.none:
                for word in words:
                    led.holds.pop(word.offset, None)
                    if word.type in _TERMINAL and led.life is not None:
                        led.life.done.add(word.offset)
                    if word.type is AcknowledgeType.REJECT and led.life is not None:
                        led.life.rejected.add(word.offset)
        led.pending = left

    def _on_released(self, share: LedSharePartition, member_id: str) -> None:
        led = self._led.get(share.key, {}).get(share)
        if led is not None:
            now_s = self._clock()
            for offset, hold in led.holds.items():
                if hold.member_id == member_id:
                    led.holds[offset] = hold._replace(until_s=min(hold.until_s, now_s))

    def _find(self, share: LedSharePartition, core: SharePartition) -> _Led:
        known = self._led.setdefault(share.key, {})
        found = known.get(share)
        if found is None:
            leader = share._leader  # noqa: SLF001 - checkers look into nodes
            life = self._states.life(share.key, core.state_epoch)
            read = self._reads.get((share._parts.persister, share.key))  # noqa: SLF001
            batches = read.batches if read is not None and read.leader_epoch == leader.leader_epoch else None
            found = known[share] = _Led(current_process(), life, leader.leader_epoch, core.start_offset, batches)
        return found

    def _note_read(self, key: ShareStateKey, state_epoch: int, leader_epoch: int) -> None:
        epochs = self._read_epochs.setdefault(key, {})
        epochs[state_epoch] = max(epochs.get(state_epoch, NO_EPOCH), leader_epoch)

    def judge(self, write: Write) -> Callable[[], None]:
        """A write is about to be sent to a coordinator; call the result when it has succeeded. That may raise ViolationError."""
        ended_epoch, life = self._states.ended_epoch(write.key), self._states.life(write.key)
        # The state that was begun after a deletion has not been read by the leaders that had read the one before.
        counts_all = write.state_epoch <= ended_epoch
        epochs = self._read_epochs.get(write.key, {}).items()
        read_epoch = max((epoch for state, epoch in epochs if counts_all or state > ended_epoch), default=NO_EPOCH)
        return lambda: self._on_written(write, read_epoch, life)

    def _on_written(self, write: Write, read_epoch: int, life: Life | None) -> None:
        """A write that began when these had read the state, and this life had begun, has succeeded."""
        key, state_epoch, leader_epoch = write.key, write.state_epoch, write.leader_epoch
        if self._is_excused(key):
            return
        if leader_epoch < read_epoch:
            raise ViolationError(
                "INV-SHARE-FENCE",
                f"{key}",
                f"a write of leader epoch {leader_epoch} counts, though {read_epoch} has read",
            )
        if life is not None and state_epoch < life.state_epoch:
            raise ViolationError(
                "INV-SHARE-FENCE",
                f"{key}",
                f"a write of state epoch {state_epoch} counts, though {life.state_epoch} has begun",
            )

    def look(self) -> None:
        """Look at the records that members have, of all share partitions that have delivered something.

        Raises:
            ViolationError: INV-SHARE-LOCK, INV-SHARE-SESSION.
        """
        for key, known in self._led.items():
            for share, led in tuple(known.items()):
                self._settle(led)
                is_alive = led.process is None or led.process.alive
                if share.error is not None or not is_alive:
                    if not (is_alive and led.pending):
                        del known[share]
                        self._leaders.pop(share, None)
                    continue
                if share.core is not None:
                    self._check_held(key, share.core, self._leaders.get(share))

    def _check_held(self, key: ShareStateKey, core: SharePartition, leaders: ShareLeaders | None) -> None:
        due_us = core.next_deadline_us
        for run in core.runs:
            if run.state is not RecordState.ACQUIRED or run.write != NO_WRITE:
                continue
            if due_us is None or due_us > run.lock_us:
                raise ViolationError(
                    "INV-SHARE-LOCK", f"{key}", f"no timer ends the lock of {run}; the next is due at {due_us}"
                )
            session = SessionKey(key.group_id, run.member_id)
            is_ending = run.lock_us == NO_LOCK_US  # a write that failed left it to the timer
            if leaders is not None and not is_ending and not _has_session(leaders, session):
                raise ViolationError("INV-SHARE-SESSION", f"{key}", f"the session has ended by which {run} is held")

    # Members.

    def on_session_lost(self, key: SessionKey, code: ErrorCode) -> None:
        """A member was told that its session is not there, on the connection on which it was opened. Raises ViolationError."""
        raise ViolationError("INV-SHARE-SESSION", f"{key}", f"it is answered {code.name} on its own connection")

    def life_of(self, key: ShareStateKey) -> Life | None:
        """The present life of a share partition."""
        return self._states.life(key)

    def on_done(self, key: ShareStateKey, member_id: str, life: Life | None, offsets: Sequence[int]) -> None:
        """A member was answered that its acceptance, or its rejection, counts, of records that it got in this life.

        What lies below the start offset already is answered so, too, in silence, and says nothing.
        """
        if life is not None and life is self._states.life(key):
            done = [offset for offset in offsets if life.words.get(offset) == member_id]
            self.accepted += len(done)
            life.done.update(done)


def _count_of(batches: Sequence[StateBatch], offset: int) -> int:
    """The delivery count of a record by states that are sorted and apart; 0 if it is in none of them."""
    place = bisect_right(batches, offset, key=lambda batch: batch.start_offset) - 1
    return batches[place].delivery_count if place >= 0 and offset < batches[place].end_offset else 0


def _check_released(share: LedSharePartition, member_id: str) -> None:
    """The session of a member has ended: nothing stays with it that is not about to be given back."""
    core = share.core
    for run in () if core is None else core.runs:
        if run.state is RecordState.ACQUIRED and run.member_id == member_id and run.write == NO_WRITE:
            raise ViolationError("INV-SHARE-SESSION", f"{share.key}", f"the session has ended, and {run} is held")


def _has_session(leaders: ShareLeaders, key: SessionKey) -> bool:
    """True if a member has a session, or the end of its last one is still being worked at."""
    return key in leaders._sessions._sessions or key in leaders._to_release  # noqa: SLF001 - checkers look into nodes
