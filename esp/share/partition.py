"""A share partition: the leader's memory of which member of a share group has which record of a partition (KIP-932).

It knows nothing of the group's membership: a member is a name. Acquiring is not persisted. Everything that ends an acquisition is, by a
:class:`StateWrite` that the driver sends to the share coordinator, one after the other. Each is answered once, by
:meth:`SharePartition.on_written` or :meth:`SharePartition.on_write_failed`. A share partition whose writes are fenced is over: another
leader, or an administrator, has taken its place.

After each call: no offset has two members (SHARE-2); each acquired record has a lock that ends (SHARE-3); the window begins at a record
that is not done with, or is empty.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from esp.model.errors import ApiError, ErrorCode
from esp.schemas.share_state_records import RecordState, StateBatch
from esp.share.acknowledgements import (
    SLICE_BATCHES,
    Acknowledged,
    AcknowledgementBatch,
    AcknowledgeType,
    event_of,
    require_valid_acknowledgements,
    words_from,
)
from esp.share.acquiring import AcquiredRecords, AcquireMode, FetchedBatch, Wish, acquire, in_batches
from esp.share.record_states import RecordEvent, next_state
from esp.share.state_batches import merge
from esp.share.window import NO_LOCK_US, NO_WRITE, Run, Window

_US_PER_MS: Final = 1_000

SLICE_WORDS: Final = 32
"""Words of a member that are taken between two yields, each of which may cost some microseconds."""

SLICE_RUNS: Final = 32
"""Runs of a write that are settled between two yields; they cost as much as words."""

FENCING: Final = frozenset(
    (
        ErrorCode.fenced_leader_epoch,
        ErrorCode.fenced_state_epoch,
        ErrorCode.group_id_not_found,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.invalid_request,
    )
)
"""The answers to a write after which a share partition is over: its leader is not the leader any more, or the coordinator has another state
of it, or none."""


_DEADLY: Final = frozenset((RecordEvent.REJECT, RecordEvent.EXHAUST))
"""The events after which a record is never delivered again, although no member has done with it."""


class ShareSettings(NamedTuple):
    """The settings of one share group; they may change at any time."""

    record_lock_duration_ms: int
    """``share.record.lock.duration.ms``."""
    delivery_count_limit: int
    """``share.delivery.count.limit``: a record is delivered this many times at most."""
    partition_max_record_locks: int
    """``share.partition.max.record.locks``: the window grows only while it spans fewer offsets."""
    renew_acknowledge_enable: bool = True
    """``share.renew.acknowledge.enable``."""
    has_dead_letters: bool = False
    """True if the group has a dead-letter queue: what is rejected or out of attempts is archived once its letter is written."""


class PersistedState(NamedTuple):
    """The state that the share coordinator has, in the form in which a leader begins."""

    state_epoch: int
    start_offset: int
    """The first offset that is not done with; where it was never set, the driver has found it by ``share.auto.offset.reset``."""
    batches: tuple[StateBatch, ...] = ()


class StateWrite(NamedTuple):
    """A change that is to be persisted (WriteShareGroupState)."""

    token: int
    start_offset: int
    complete_count: int
    """The number of offsets at or above the start offset that are done with once this is written."""
    batches: tuple[StateBatch, ...]


class Acquisition(NamedTuple):
    """The records that a member has got."""

    records: tuple[AcquiredRecords, ...]
    write: StateWrite | None
    """None unless the start offset has moved, past offsets at which there is nothing to deliver."""


class CondemnedRecords(NamedTuple):
    """Neighbours whose dead letters are to be written."""

    start_offset: int
    end_offset: int
    delivery_count: int
    is_rejected: bool
    """True if a member has said that no attempt can help; else they are out of attempts. Where that was not seen, as another leader
    condemned them, the delivery count tells it."""


class SharePartition:
    """A partition as one share group sees it, at the partition's leader.

    Args:
        persisted: the state as the coordinator has it, read with this leader's epoch.
        settings: the group's.
    """

    def __init__(self, persisted: PersistedState, settings: ShareSettings) -> None:
        self.settings = settings
        """May be assigned to; locks that run keep their time."""
        self.state_epoch: Final = persisted.state_epoch
        self._window: Final = Window(persisted.start_offset, merge((), persisted.batches, persisted.start_offset))
        self._persisted_start_offset = persisted.start_offset
        self._spans: Final[dict[int, tuple[int, int] | None]] = {}
        """For each write that has not ended the offsets from its first record to its last one, between which others may stand; None if it
        changes no records."""
        self._last_token = NO_WRITE
        self._told_offset = persisted.start_offset
        """The highest start offset of all writes."""
        self._next_lock_us: int | None = None
        """No lock ends before this time."""
        self._is_fenced = False

    # What there is.

    @property
    def start_offset(self) -> int:
        """The first offset that is not done with (SPSO)."""
        return self._window.start_offset

    @property
    def end_offset(self) -> int:
        """The first offset that was never acquired."""
        return self._window.end_offset

    @property
    def acquired_count(self) -> int:
        """The number of records that members have."""
        return self._window.acquired_count

    @property
    def condemned_count(self) -> int:
        """The number of records whose dead letters are still to be written."""
        return self._window.condemned_count

    @property
    def is_fenced(self) -> bool:
        """True if it is over: the driver forgets it, and reads the state again if it still leads."""
        return self._is_fenced

    @property
    def has_writes(self) -> bool:
        """True if a write has not ended."""
        return bool(self._spans)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The records between start and end offset, for describing."""
        return tuple(self._window)

    def find_fetch_offset(self) -> int | None:
        """The offset from which to read for the next member; None if there is nothing that it could get: then a fetch waits.

        Ask again after each call that may have made a record available, or moved the start offset (KAFKA-19227).
        """
        if self._is_fenced or self._window.condemned_count >= self._condemned_max:
            return None
        free = self._window.find_free()
        if free is not None:
            return free
        has_room = self._window.span < self.settings.partition_max_record_locks
        return self._window.end_offset if has_room else None

    def find_fetch_end(self, fetch_offset: int, records_max: int) -> int:
        """The offset behind which nothing need be read for so many records, for which :meth:`find_fetch_offset` said where to begin."""
        reached, missing = self._window.count_free(fetch_offset, records_max)
        if not missing:
            return reached
        bound = max(reached, self._window.start_offset + self.settings.partition_max_record_locks)
        return min(reached + missing, bound)

    # Members.

    def acquire(
        self,
        member_id: str,
        fetched: Sequence[FetchedBatch],
        fetch_offset: int,
        now_us: int,
        *,
        records_max: int,
        batch_size: int,
        mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
    ) -> Acquisition:
        """Give fetched records to a member.

        Args:
            member_id: its name.
            fetched: the batches that were read, in order; no record of theirs is beyond the high watermark.
            fetch_offset: the answer of :meth:`find_fetch_offset` for which they were read.
            now_us: the monotonic time.
            records_max: the number of records that it asks for.
            batch_size: the number of records that it likes to acknowledge together.
            mode: the meaning of ``records_max``.

        Raises:
            ApiError: NOT_LEADER_OR_FOLLOWER, it is over.
        """
        self._require_current()
        lock_us = now_us + self.settings.record_lock_duration_ms * _US_PER_MS
        wish = Wish(
            member_id,
            records_max,
            mode,
            lock_us,
            self.settings.delivery_count_limit,
            self.settings.partition_max_record_locks,
            batch_size,
            self.settings.has_dead_letters,
        )
        records = in_batches(acquire(self._window, fetched, fetch_offset, wish), batch_size)
        if records:
            self._lock_until(lock_us)
        before = self._window.start_offset
        self._window.advance()
        write = self._write(()) if self._window.start_offset > before else None
        return Acquisition(tuple(records), write)

    def acknowledge(
        self, member_id: str, batches: Sequence[AcknowledgementBatch], now_us: int, *, allows_renew: bool = False
    ) -> Generator[None, None, StateWrite | None]:
        """A member says what has become of records. All of it counts, or nothing. Yields after each slice of the work.

        Between two slices anything else may be asked. What has been looked at is locked for the write that is to come, as if it were on its
        way, and set free again if the rest is refused, or the generator closed.

        Returns:
            The write after whose success the member is answered; None if there is nothing to be written, and it is answered at once.

        Raises:
            ApiError: INVALID_REQUEST, it may not be said; INVALID_RECORD_STATE, not by this member, or not now; NOT_LEADER_OR_FOLLOWER,
                this share partition is over.
        """
        self._require_current()
        yield from require_valid_acknowledgements(
            batches, self._window.start_offset, self._window.end_offset, allows_renew=allows_renew
        )
        token = self._new_write()
        changed: list[StateBatch] = []
        renews = False
        try:
            some: list[Acknowledged] = []
            looked = 0
            for word, pieces in words_from(batches, self._window.start_offset):
                looked += pieces
                if word is not None:
                    some.append(word)
                    renews = renews or word.type is AcknowledgeType.RENEW
                if len(some) == SLICE_WORDS or looked >= SLICE_BATCHES:
                    changed += self._take(token, self._require_held(member_id, some))
                    some, looked = [], 0
                    yield
                    self._require_current()
            if some:
                changed += self._take(token, self._require_held(member_id, some))
        except BaseException:
            self._set_free(token)
            raise
        if renews:
            self._renew(token, now_us + self.settings.record_lock_duration_ms * _US_PER_MS)
        if changed:
            return self._write(changed, token=token)
        del self._spans[token]
        return None

    def _take(self, token: int, pieces: Iterable[tuple[Acknowledged, Run]]) -> list[StateBatch]:
        """Lock records that a member's words are about for the write of its words; returns the states that are to be written."""
        pending: list[Run] = []
        changed: list[StateBatch] = []
        for word, piece in pieces:
            run, target = self._changed(piece, event_of(word.type))
            pending.append(_pending(run, token, target))
            if target is not piece.state:
                changed.append(_state_batch(run, target))
        self._lock_for(token, pending)
        return changed

    def _renew(self, token: int, lock_us: int) -> None:
        """Let the locks of the records begin again that were locked for a write which does not change them."""
        span = self._in_window(self._spans[token])
        if span is not None:
            self._window.change(
                *span, lambda run: _renewed(run, lock_us) if run.write == token and run.target is run.state else run
            )
        self._lock_until(lock_us)

    def release_member(self, member_id: str) -> StateWrite | None:
        """A member's session has ended: what it holds is available again, or archived at the last attempt, once that is written.

        Records whose acknowledgement is being written are left to that write. Where one of these writes fails, their locks end (SHARE-7).
        """
        if self._is_fenced:
            return None
        held = [
            _without_lock(run)
            for run in self._window
            if run.state is RecordState.ACQUIRED and run.member_id == member_id
        ]
        self._replace([run for run in held if run.write != NO_WRITE])
        changes = [self._changed(run, RecordEvent.RELEASE) for run in held if run.write == NO_WRITE]
        return self._begin(changes) if changes else None

    # Time, the log, and the coordinator.

    @property
    def next_deadline_us(self) -> int | None:
        """The monotonic time at which :meth:`on_time` is due, or an earlier one; None for never."""
        return None if self._is_fenced else self._next_lock_us

    def on_time(self, now_us: int) -> StateWrite | None:
        """Locks end: their records are available again, or archived at the last attempt, at once and whatever becomes of the write.

        A record whose acknowledgement is being written waits for that; if the write fails, its lock ends then (SHARE-7).
        """
        if self._next_lock_us is None or self._next_lock_us > now_us or self._is_fenced:
            return None
        ended: list[Run] = []
        later: list[int] = []
        for run in self._window:
            if run.state is not RecordState.ACQUIRED or run.write != NO_WRITE:
                continue
            if run.lock_us <= now_us:
                ended.append(run)
            else:
                later.append(run.lock_us)
        self._next_lock_us = min(later, default=None)
        if not ended:
            return None
        return self._settle([self._changed(run, RecordEvent.RELEASE) for run in ended])

    def on_log_start(self, log_start_offset: int) -> StateWrite | None:
        """The log begins at this offset from now on. What a member still holds below it may be acknowledged, and nothing follows."""
        if self._is_fenced or log_start_offset <= self._window.start_offset:
            return None
        self._window.drop_below(log_start_offset)
        return self._write(())

    def on_written(self, token: int) -> Generator[None, None, StateWrite | None]:
        """A write has succeeded: its changes count, and the start offset may move. If it passes offsets that were discarded, of which no
        write has told, that is written, too: else a queue at rest would show a lag. Yields after each slice of the work.

        Between two slices anything else may be asked. Records to which it has not come yet are locked, as if the write were on its way.
        """
        place = self._window.start_offset
        while (span := self._in_window(self._spans[token])) is not None and place < span[1]:
            start_offset = max(place, span[0])
            place = self._window.end_of(start_offset, SLICE_RUNS, span[1])
            self._window.change(
                start_offset,
                place,
                lambda run: run if run.write != token else _settled(run, _target_of(run), is_rejected=run.is_rejected),
            )
            self._window.advance()
            if place < span[1]:
                yield
        del self._spans[token]
        self._window.advance()
        is_told = self._told_offset >= self._window.discarded_end_offset
        return None if is_told or self._window.discarded_end_offset > self._window.start_offset else self._write(())

    def on_write_failed(self, token: int, error: ErrorCode) -> None:
        """A write has failed, or it is not known what has become of it: its records are acquired as before, for as long as their locks run.

        Call :meth:`on_time` when it is due, which may be at once.
        """
        if error in FENCING:
            self._is_fenced = True
        self._set_free(token)

    def is_in_force(self, token: int) -> bool:
        """True if the changes of a write that has not ended count whatever becomes of it."""
        return self._spans[token] is None

    # Dead letters.

    def find_condemned(self, records_max: int) -> tuple[CondemnedRecords, ...]:
        """The first records whose dead letters are to be written now, in order, so many at most.

        Ask again when they are buried, and after each call that may have condemned others. A letter that was written before a leader
        could have its record buried is written again by the next one: at least once.
        """
        found: list[CondemnedRecords] = []
        if self._is_fenced or not self._window.condemned_count:
            return ()
        for run in self._window:
            if run.state is RecordState.ARCHIVING:
                piece = run.cut(run.start_offset, run.start_offset + records_max)
                is_rejected = run.is_rejected or run.delivery_count < self.settings.delivery_count_limit
                found.append(CondemnedRecords(piece.start_offset, piece.end_offset, piece.delivery_count, is_rejected))
                records_max -= piece.size
                if not records_max:
                    break
        return tuple(found)

    def bury(self, condemned: Sequence[CondemnedRecords], end_offset: int) -> StateWrite | None:
        """The dead letters of records below an offset are written, or never will be: they are archived at once, whatever becomes of the
        write. Records between them that were condemned meanwhile have no letter yet, and stay.

        Args:
            condemned: as :meth:`find_condemned` found them.
            end_offset: where the letters end.
        """
        if self._is_fenced:
            return None
        buried = [
            (run, next_state(run.state, RecordEvent.BURY))
            for piece in condemned
            if piece.start_offset < end_offset
            for run in self._window.between(piece.start_offset, min(piece.end_offset, end_offset))
            if run.state is RecordState.ARCHIVING
        ]
        return self._settle(buried) if buried else None

    # The rest is how it is done.

    @property
    def _condemned_max(self) -> int:
        """Nothing is acquired while so many dead letters are to be written: half of the window, so that a queue that takes no letters
        is seen before it blocks."""
        return max(1, self.settings.partition_max_record_locks // 2)

    def _require_current(self) -> None:
        if self._is_fenced:
            raise ApiError(ErrorCode.not_leader_or_follower)

    def _require_held(self, member_id: str, words: Sequence[Acknowledged]) -> list[tuple[Acknowledged, Run]]:
        """The records that a member's words are about, all of which it must have."""
        if not self.settings.renew_acknowledge_enable and any(word.type is AcknowledgeType.RENEW for word in words):
            raise ApiError(ErrorCode.invalid_record_state, "Records are not renewed here.")
        pieces = []
        for place, run in self._window.overlaps((word.start_offset, word.end_offset) for word in words):
            if run.state is not RecordState.ACQUIRED or run.member_id != member_id or run.write != NO_WRITE:
                raise ApiError(
                    ErrorCode.invalid_record_state,
                    f"Offset {run.start_offset} is not held by the member, or is being written.",
                )
            pieces.append((words[place], run))
        return pieces

    def _changed(self, run: Run, event: RecordEvent) -> tuple[Run, RecordState]:
        """Acquired records with the state that they will have by this event of theirs."""
        if event is RecordEvent.RELEASE and run.delivery_count >= self.settings.delivery_count_limit:
            event = RecordEvent.EXHAUST
        if event in _DEADLY and self.settings.has_dead_letters:
            run = run._replace(is_rejected=event is RecordEvent.REJECT)
            event = RecordEvent.CONDEMN
        return run, next_state(run.state, event)

    def _settle(self, changes: Sequence[tuple[Run, RecordState]]) -> StateWrite:
        """Change the states of records at once, and write that."""
        batches = tuple(_state_batch(run, target) for run, target in changes)
        self._replace([_settled(run, target, is_rejected=run.is_rejected) for run, target in changes])
        start_offset = self._window.start_offset
        complete_count = self._window.complete_count
        self._window.advance()
        return self._write(batches, start_offset=start_offset, complete_count=complete_count)

    def _begin(self, changes: Sequence[tuple[Run, RecordState]]) -> StateWrite:
        """Lock records for the write that is to change them."""
        token = self._new_write()
        self._lock_for(token, [_pending(piece, token, target) for piece, target in changes])
        return self._write(tuple(_state_batch(piece, target) for piece, target in changes), token=token)

    def _new_write(self) -> int:
        """The token of a write that is to come, which has no records yet."""
        self._last_token += 1
        self._spans[self._last_token] = None
        return self._last_token

    def _lock_for(self, token: int, pending: Sequence[Run]) -> None:
        """Lock records for the write that is to change them, as they say."""
        if not pending:
            return
        self._replace(pending)
        before = self._spans[token]
        start_offset = pending[0].start_offset if before is None else before[0]
        self._spans[token] = start_offset, pending[-1].end_offset

    def _replace(self, changed: Sequence[Run]) -> None:
        """Have these runs, in order, in place of what is in their ranges."""
        for runs in _end_to_end(changed):
            self._window.replace(runs)

    def _set_free(self, token: int) -> None:
        """A write has failed, or will never be: its records are as they were before, for as long as their locks run."""
        span = self._end_write(token)
        if span is not None:
            self._window.change(*span, lambda run: run if run.write != token else _undone(run))
            for run in self._window.between(*span):
                if run.state is RecordState.ACQUIRED and run.write == NO_WRITE:
                    self._lock_until(run.lock_us)

    def _write(
        self,
        batches: Sequence[StateBatch],
        *,
        token: int | None = None,
        start_offset: int | None = None,
        complete_count: int | None = None,
    ) -> StateWrite:
        """Make a write of these batches. It says where the window begins, which moves only when a write has succeeded."""
        if token is None:
            token = self._new_write()
        start = self._window.start_offset if start_offset is None else start_offset
        count = self._window.complete_count if complete_count is None else complete_count
        self._told_offset = max(self._told_offset, start)
        return StateWrite(token, start, count, merge((), batches, start))

    def _end_write(self, token: int) -> tuple[int, int] | None:
        """The offsets from the first record of a write that has ended to the last one, as far as they are in the window."""
        return self._in_window(self._spans.pop(token))

    def _in_window(self, span: tuple[int, int] | None) -> tuple[int, int] | None:
        start_offset = self._window.start_offset
        if span is None or span[1] <= start_offset:
            return None
        return max(span[0], start_offset), span[1]

    def _lock_until(self, lock_us: int) -> None:
        if self._next_lock_us is None or lock_us < self._next_lock_us:
            self._next_lock_us = lock_us


def _end_to_end(runs: Sequence[Run]) -> Iterator[Sequence[Run]]:
    """The runs, those together that stand end to end."""
    first = 0
    for place in range(1, len(runs) + 1):
        if place == len(runs) or runs[place].start_offset != runs[place - 1].end_offset:
            yield runs[first:place]
            first = place


def _state_batch(run: Run, target: RecordState) -> StateBatch:
    return StateBatch(run.start_offset, run.end_offset, target, run.delivery_count)


def _renewed(run: Run, lock_us: int) -> Run:
    return run._replace(lock_us=lock_us, write=NO_WRITE, target=None)


def _settled(run: Run, target: RecordState, *, is_rejected: bool) -> Run:
    return Run(
        run.start_offset,
        run.end_offset,
        target,
        run.delivery_count,
        is_rejected=is_rejected and target is RecordState.ARCHIVING,
    )


def _pending(run: Run, token: int, target: RecordState) -> Run:
    return run._replace(write=token, target=target)


def _without_lock(run: Run) -> Run:
    return run._replace(lock_us=NO_LOCK_US)


def _undone(run: Run) -> Run:
    return run._replace(write=NO_WRITE, target=None, is_rejected=False)


def _target_of(run: Run) -> RecordState:
    assert run.target is not None, "a run that waits for a write says what it will be"
    return run.target
