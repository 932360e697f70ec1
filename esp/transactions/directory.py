"""The transactional ids of a coordinator, each with the move that is on its way into the log (TXN-1).

A move becomes the state when its record is committed. Until then the state before it stands, and no other move of the same id begins: not
even after the answer of the request has been given up, because the record may be committed all the same.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from esp.model.errors import ErrorCode
from esp.model.now import Now
from esp.records.builder import NewRecord
from esp.schemas.transaction_record_codec import (
    FLEXIBLE_VERSION,
    PLAIN_VERSION,
    encode_transaction_key,
    encode_transaction_value,
)
from esp.schemas.transaction_records import TransactionStatus
from esp.transactions.effects import Append, Outbox
from esp.transactions.transaction import Transaction, stored_value

_ANSWERS: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
}
"""The errors for clients if a record could not be appended; every other one is UNKNOWN_SERVER_ERROR."""

_US_PER_MS: Final = 1_000

Reply = Callable[[ErrorCode], None]
"""Answers a request: with NONE once its move is committed, else with an error."""

Settled = Callable[["Entry", bool, Now], None]
"""Called when the log has decided about a move: with True if it is committed."""


@dataclass(slots=True, eq=False)
class Entry:
    """A transactional id: its committed state, and the move that is on its way into the log."""

    transactional_id: str
    current: Transaction | None = None
    """The committed state; None while the first record of the id is on its way."""
    pending: Transaction | None = None
    """The state that is on its way into the log; None if there is none."""
    is_late: bool = False
    """True if that takes so long that the answer of its request was given up."""

    @property
    def busy_error(self) -> ErrorCode:
        """The answer to other requests while a state is on its way: COORDINATOR_NOT_AVAILABLE once it is late, as another node may lead the
        partition by now, and only a client that looks for it finds it.
        """
        return ErrorCode.coordinator_not_available if self.is_late else ErrorCode.concurrent_transactions


@dataclass(slots=True)
class _Move:
    entries: tuple[Entry, ...]
    settled: Settled | None
    reply: Reply | None
    deadline_us: int
    is_late: bool = field(default=False)


class Directory:
    """The transactional ids of a partition, and their moves that have not settled, in the order of the log.

    Args:
        outbox: takes the effects.
        feature_level: tells the cluster's ``transaction.version``, which the form of the records follows.
        timeout_ms: the longest time that an answer waits.
    """

    def __init__(self, outbox: Outbox, feature_level: Callable[[], int], timeout_ms: int) -> None:
        self._outbox = outbox
        self._feature_level = feature_level
        self._timeout_us = timeout_ms * _US_PER_MS
        self._entries: dict[str, Entry] = {}
        self._moves: dict[int, _Move] = {}
        self._last_token = 0

    def find(self, transactional_id: str) -> Entry | None:
        """The id's entry; None if the id is not known."""
        return self._entries.get(transactional_id)

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over the ids that have a committed state."""
        return (entry for entry in tuple(self._entries.values()) if entry.current is not None)

    def install(self, transactional_id: str, transaction: Transaction) -> None:
        """Add the state of an id that was found in the log."""
        self._entries[transactional_id] = Entry(transactional_id, transaction)

    def create(self, transactional_id: str) -> Entry:
        """Make the entry of an id that is not known; it has no state until its first move is committed."""
        entry = self._entries[transactional_id] = Entry(transactional_id)
        return entry

    def move(
        self, entry: Entry, after: Transaction, now: Now, *, reply: Reply | None = None, settled: Settled | None = None
    ) -> None:
        """Let the driver append the record of a move.

        Args:
            entry: the id, which has no move on its way.
            after: the state that the move leads to.
            now: the time.
            reply: answers the request that asked for it, after ``settled``.
            settled: called when the log has decided.
        """
        self._begin((entry,), (after,), now, settled, reply)

    def forget(self, gone: Sequence[tuple[Entry, Transaction]], now: Now) -> None:
        """Let the driver append tombstones of ids, in one batch."""
        self._begin(tuple(entry for entry, _ in gone), tuple(after for _, after in gone), now, None, None)

    def on_committed(self, token: int, now: Now) -> None:
        """The driver reports that the append is committed."""
        move = self._moves.pop(token)
        for entry in move.entries:
            after, entry.pending, entry.is_late = entry.pending, None, False
            if after is not None and after.status is TransactionStatus.DEAD:
                del self._entries[entry.transactional_id]
            else:
                entry.current = after
        self._settle(move, ErrorCode.none, now)

    def on_failed(self, token: int, error: ErrorCode, now: Now) -> None:
        """The driver reports that the append has failed: the state is what it was."""
        move = self._moves.pop(token)
        for entry in move.entries:
            entry.pending, entry.is_late = None, False
            if entry.current is None:
                del self._entries[entry.transactional_id]
        self._settle(move, _ANSWERS.get(error, ErrorCode.unknown_server_error), now)

    def abandon(self) -> None:
        """Answer open requests with NOT_COORDINATOR: no append will be reported any more."""
        moves, self._moves = self._moves, {}
        for move in moves.values():
            self._answer(move, ErrorCode.not_coordinator)

    @property
    def next_deadline_us(self) -> int | None:
        """The time at which the next answer is given up; None for never."""
        for move in self._moves.values():
            if not move.is_late:
                return move.deadline_us
        return None

    def give_up_late_answers(self, now: Now) -> None:
        """Answer the requests whose records are not committed in time; their moves go on."""
        for move in self._moves.values():
            if move.deadline_us > now.monotonic_us:
                break
            if not move.is_late:
                move.is_late = True
                for entry in move.entries:
                    entry.is_late = True
                self._answer(move, _ANSWERS[ErrorCode.request_timed_out])

    def _begin(
        self,
        entries: tuple[Entry, ...],
        states: tuple[Transaction, ...],
        now: Now,
        settled: Settled | None,
        reply: Reply | None,
    ) -> None:
        records = []
        for entry, after in zip(entries, states, strict=True):
            assert entry.pending is None, "an id has one move at a time"
            entry.pending = after
            records.append(self._record(entry.transactional_id, after))
        self._last_token += 1
        self._moves[self._last_token] = _Move(entries, settled, reply, now.monotonic_us + self._timeout_us)
        self._outbox.add(Append(self._last_token, tuple(records), now.wall_ms))

    def _record(self, transactional_id: str, after: Transaction) -> NewRecord:
        key = encode_transaction_key(transactional_id)
        if after.status is TransactionStatus.DEAD:
            return NewRecord(None, key)
        version = FLEXIBLE_VERSION if self._feature_level() > 0 else PLAIN_VERSION
        return NewRecord(encode_transaction_value(stored_value(after), version), key)

    def _settle(self, move: _Move, error: ErrorCode, now: Now) -> None:
        if move.settled is not None:
            for entry in move.entries:
                move.settled(entry, error is ErrorCode.none, now)
        self._answer(move, error)

    @staticmethod
    def _answer(move: _Move, error: ErrorCode) -> None:
        """Answer the request of a move, unless it was given up."""
        if move.reply is not None:
            move.reply(error)
            move.reply = None
