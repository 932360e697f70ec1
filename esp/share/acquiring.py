"""Acquisition: which of the fetched records a member gets.

A fetch reads whole record batches. In the order of the log each is given to the member as far as it is available, until the member has what
it asked for. Offsets that are in no batch, and batches that are not for delivery, are discarded on the way.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from esp.schemas.share_state_records import RecordState
from esp.share.record_states import RecordEvent, next_state
from esp.share.window import Run, Window

_ATTEMPTS_UNTHROTTLED_MIN: Final = 2
"""Records that were delivered fewer times than this are never isolated, however low the limit is."""


class AcquireMode(IntEnum):
    """The meaning of the number of records that a member asks for, by Kafka's numbers."""

    BATCH_OPTIMIZED = 0
    """Record batches stay whole: the one that reaches the number is given in full."""
    RECORD_LIMIT = 1
    """The member gets no more than this number."""


class FetchedBatch(NamedTuple):
    """A record batch that was read from the log."""

    start_offset: int
    end_offset: int
    is_deliverable: bool = True
    """False for a control batch and, under ``share.isolation.level=read_committed``, for one of an aborted transaction."""


class AcquiredRecords(NamedTuple):
    """Neighbours that a member has got, with the number of times that they have been delivered, this time included."""

    start_offset: int
    end_offset: int
    delivery_count: int


class Wish(NamedTuple):
    """A member's request, and the bounds of the share partition."""

    member_id: str
    records_max: int
    mode: AcquireMode
    lock_us: int
    """The monotonic time at which its locks will end."""
    attempts_max: int
    span_max: int
    batch_size: int
    """The number of records that the member likes to acknowledge together."""
    has_dead_letters: bool = False
    """True if a record that is out of attempts gets a dead letter."""


def acquire(
    window: Window, fetched: Sequence[FetchedBatch], fetch_offset: int, wish: Wish
) -> Sequence[AcquiredRecords]:
    """Give a member what it may have.

    Args:
        window: the share partition's window, which changes.
        fetched: the batches that were read from ``fetch_offset`` on, in order. The first may begin before it.
        fetch_offset: as it was when the read began. What has changed since is found in the window.
        wish: the member's.
    """
    giving = _Giving(window, wish)
    given = list(_acquire(window, fetched, max(fetch_offset, window.start_offset), wish, giving))
    giving.finish()
    return given


class _Giving:
    """Gives pieces to a member. Neighbours of one delivery count change the window together, when :meth:`finish` is called at the latest:
    a log of small batches costs little more than one of large ones."""

    def __init__(self, window: Window, wish: Wish) -> None:
        self._window: Final = window
        self._wish: Final = wish
        self._piece: Run | None = None
        """Given, and not in the window yet."""

    @property
    def end_offset(self) -> int:
        """The end of the window with what was given."""
        end_offset = self._window.end_offset
        return end_offset if self._piece is None else max(end_offset, self._piece.end_offset)

    def give(self, piece: Run) -> AcquiredRecords:
        """Give a piece that is free, or new to the window and next to its end."""
        last = self._piece
        if last is None or last.end_offset != piece.start_offset or last.delivery_count != piece.delivery_count:
            self.finish()
            self._piece = piece
        else:
            self._piece = last._replace(end_offset=piece.end_offset)
        return AcquiredRecords(piece.start_offset, piece.end_offset, piece.delivery_count + 1)

    def finish(self) -> None:
        """The window says what was given."""
        piece, self._piece = self._piece, None
        if piece is not None:
            self._window.extend(piece.end_offset, RecordState.AVAILABLE)
            self._window.change(piece.start_offset, piece.end_offset, self._acquired)

    def _acquired(self, run: Run) -> Run:
        return run._replace(
            state=next_state(run.state, RecordEvent.ACQUIRE),
            delivery_count=run.delivery_count + 1,
            member_id=self._wish.member_id,
            lock_us=self._wish.lock_us,
        )


class _Isolation:
    """Lets a member have records that have failed before in lots of their own, which are smaller with each attempt (SHARE-10, KAFKA-17541).

    Args:
        window: the share partition's window.
        fetched: the batches that were read.
        wish: the member's.
    """

    def __init__(self, window: Window, fetched: Sequence[FetchedBatch], wish: Wish) -> None:
        self._window: Final = window
        self._fetched: Final = fetched
        self._wish: Final = wish
        self._from_count: Final = max(_ATTEMPTS_UNTHROTTLED_MIN, (wish.attempts_max + 1) // 2)
        self._delivery_count: int | None = None
        """The delivery count of each record of the lot; None if the member gets no lot."""
        self._end_offset = 0
        """The end of the batches that the lot is from."""
        self._left = 0
        """The number of records that are still to come to it."""

    def admits(self, run: Run, *, is_first: bool) -> bool:
        """True if a member may have the run beside what it has got so far; ``is_first`` if that is nothing."""
        if self._delivery_count is None and run.delivery_count >= self._from_count:
            if not is_first:
                return False
            self._begin_lot(run)
        return self._delivery_count is None or (
            run.delivery_count == self._delivery_count and run.start_offset < self._end_offset
        )

    def bound(self, size: int) -> int:
        """The number of records that a member gets of so many."""
        if self._delivery_count is not None:
            size = min(size, self._left)
            self._left -= size
        return size

    @property
    def is_complete(self) -> bool:
        """True if a member gets no more."""
        return self._delivery_count is not None and not self._left

    def _begin_lot(self, run: Run) -> None:
        """The lot of a run is from the batches of the window that make up what its member acknowledges at once.

        One by one they would say nothing of how many records fail: a producer that waits for each answer writes batches of one record.
        A member that may not have whole batches acknowledges no more at once than it asks for.
        """
        start_offset = end_offset = self._fetched[0].start_offset
        for batch in self._fetched:
            if batch.start_offset >= self._window.end_offset:
                break
            if end_offset - start_offset >= self._wish.batch_size:
                if run.start_offset < end_offset:
                    break
                start_offset = end_offset
            end_offset = min(batch.end_offset, self._window.end_offset)
        size = end_offset - start_offset
        if self._wish.mode is AcquireMode.RECORD_LIMIT:
            size = min(size, self._wish.records_max)
        is_last = run.delivery_count >= self._wish.attempts_max - 1
        part = size >> (run.delivery_count - self._from_count + 1)
        self._delivery_count = run.delivery_count
        self._end_offset = end_offset
        self._left = 1 if is_last else max(1, part)


def _acquire(
    window: Window, fetched: Sequence[FetchedBatch], place: int, wish: Wish, giving: _Giving
) -> Iterator[AcquiredRecords]:
    room = wish.records_max
    isolation = _Isolation(window, fetched, wish)
    for batch in fetched:
        if room <= 0:
            return
        if batch.end_offset <= place:
            continue
        if batch.start_offset > place or not batch.is_deliverable:
            giving.finish()
        if batch.start_offset > place and not _discard(window, place, batch.start_offset, wish):
            return
        place = max(place, batch.start_offset)
        if not batch.is_deliverable:
            if not _discard(window, place, batch.end_offset, wish):
                return
            place = batch.end_offset
            continue
        for run in _available(window, place, batch, room, wish, giving.end_offset):
            if run.delivery_count >= wish.attempts_max:
                giving.finish()
                window.change(run.start_offset, run.end_offset, _condemned if wish.has_dead_letters else _discarded)
                continue
            if not isolation.admits(run, is_first=room == wish.records_max):
                return
            size = isolation.bound(run.size if wish.mode is AcquireMode.BATCH_OPTIMIZED else min(run.size, room))
            yield giving.give(run._replace(end_offset=run.start_offset + size))
            room -= size
            if isolation.is_complete or (room <= 0 and wish.mode is AcquireMode.RECORD_LIMIT):
                return
        if giving.end_offset < batch.end_offset:
            return
        place = batch.end_offset


def _available(
    window: Window, place: int, batch: FetchedBatch, room: int, wish: Wish, window_end_offset: int
) -> list[Run]:
    """The pieces of a batch that are free, with those that are new to the window, as far as it may grow (SHARE-11)."""
    runs = [run for run in window.between(place, batch.end_offset) if run.is_free]
    start, span = max(place, window_end_offset), window_end_offset - window.start_offset
    if start < batch.end_offset and span < wish.span_max:
        end = batch.end_offset
        if wish.mode is AcquireMode.RECORD_LIMIT:
            left = room - sum(run.size for run in runs)
            end = min(end, start + min(max(0, left), wish.span_max - span))
        if end > start:
            runs.append(Run(start, end, RecordState.AVAILABLE))
    return runs


def _discard(window: Window, start_offset: int, end_offset: int, wish: Wish) -> bool:
    """No record is delivered from here to there: what is free becomes archived. False if the window may not grow so far."""
    free = [run for run in window.between(start_offset, end_offset) if run.is_free]
    for run in free:
        window.change(run.start_offset, run.end_offset, _discarded)
        window.discarded_end_offset = max(window.discarded_end_offset, run.end_offset)
    if window.end_offset >= end_offset:
        return True
    if window.span >= wish.span_max:
        return False
    window.extend(end_offset, RecordState.ARCHIVED)
    window.discarded_end_offset = end_offset
    return True


def _discarded(run: Run) -> Run:
    return run._replace(state=next_state(run.state, RecordEvent.DISCARD))


def _condemned(run: Run) -> Run:
    return run._replace(state=next_state(run.state, RecordEvent.CONDEMN))


def in_batches(pieces: Sequence[AcquiredRecords], batch_size: int) -> list[AcquiredRecords]:
    """Join neighbours with the same delivery count until they are this many records: members acknowledge what they got together faster.

    Args:
        pieces: as they were acquired.
        batch_size: the member's wish.
    """
    joined: list[AcquiredRecords] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.end_offset == piece.start_offset
            and last.delivery_count == piece.delivery_count
            and last.end_offset - last.start_offset < batch_size
        ):
            joined[-1] = last._replace(end_offset=piece.end_offset)
        else:
            joined.append(piece)
    return joined
