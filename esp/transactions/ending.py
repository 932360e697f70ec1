"""EndTxn, and the aborts that the coordinator decides itself: of fenced transactions and of those that have timed out (TXN-6, TXN-9)."""

from collections.abc import Mapping
from enum import Enum, auto
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from esp.model.errors import ErrorCode
from esp.model.now import Now
from esp.schemas.transaction_records import NO_EPOCH, NO_PRODUCER_ID, TransactionStatus
from esp.transactions.coordinator_state import CoordinatorState
from esp.transactions.directory import Entry, Reply
from esp.transactions.effects import Answer
from esp.transactions.markers import Markers
from esp.transactions.requests import EndTransaction, Producer
from esp.transactions.responses import NO_PRODUCER, ProducerResult
from esp.transactions.transaction import (
    BUMPING_VERSION,
    COMPLETE,
    EPOCH_MAX,
    PREPARE,
    Transaction,
    decided,
)


class Attempt(Enum):
    """The relation of the request's producer to the id's."""

    FIRST = auto()
    """The request names the id's producer."""
    RETRY = auto()
    """The request names the producer as it was before the epoch was raised: the answer may have been lost."""


class Verdict(Enum):
    """The consequence of a request that is not refused."""

    DECIDE = auto()
    """The transaction is committed or aborted, as the request asks."""
    DONE = auto()
    """The transaction has ended already, as the request asks."""


class Cell(NamedTuple):
    """The answers to a commit and to an abort."""

    commit: Verdict | ErrorCode
    abort: Verdict | ErrorCode


_S: Final = TransactionStatus
_FENCED: Final = ErrorCode.producer_fenced
_INVALID: Final = ErrorCode.invalid_txn_state
_BUSY: Final = ErrorCode.concurrent_transactions
_DECIDE: Final = Verdict.DECIDE
_DONE: Final = Verdict.DONE
_FIRST: Final = Attempt.FIRST
_RETRY: Final = Attempt.RETRY

_DECIDED: Final = {attempt: Cell(_BUSY, _BUSY) for attempt in Attempt}
_PLAIN_DECIDED: Final = {_FIRST: Cell(_BUSY, _BUSY), _RETRY: Cell(_FENCED, _FENCED)}

BUMPING_CELLS: Final[Mapping[TransactionStatus, Mapping[Attempt, Cell]]] = MappingProxyType(
    {
        _S.EMPTY: {_FIRST: Cell(_INVALID, _DECIDE), _RETRY: Cell(_FENCED, _FENCED)},
        _S.ONGOING: {_FIRST: Cell(_DECIDE, _DECIDE), _RETRY: Cell(_FENCED, _FENCED)},
        _S.PREPARE_COMMIT: _DECIDED,
        _S.PREPARE_ABORT: _DECIDED,
        _S.COMPLETE_COMMIT: {_FIRST: Cell(_INVALID, _DECIDE), _RETRY: Cell(_DONE, _INVALID)},
        _S.COMPLETE_ABORT: {_FIRST: Cell(_INVALID, _DECIDE), _RETRY: Cell(_INVALID, _DONE)},
    }
)
"""The answer in each state if each transaction has an epoch of its own (version 5 and later)."""

PLAIN_CELLS: Final[Mapping[TransactionStatus, Mapping[Attempt, Cell]]] = MappingProxyType(
    {
        _S.EMPTY: {_FIRST: Cell(_INVALID, _INVALID), _RETRY: Cell(_FENCED, _FENCED)},
        _S.ONGOING: {_FIRST: Cell(_DECIDE, _DECIDE), _RETRY: Cell(_FENCED, _FENCED)},
        _S.PREPARE_COMMIT: _PLAIN_DECIDED,
        _S.PREPARE_ABORT: _PLAIN_DECIDED,
        _S.COMPLETE_COMMIT: {_FIRST: Cell(_DONE, _INVALID), _RETRY: Cell(_FENCED, _FENCED)},
        _S.COMPLETE_ABORT: {_FIRST: Cell(_INVALID, _DONE), _RETRY: Cell(_FENCED, _FENCED)},
    }
)
"""The answer in each state to older versions: the epoch stays, and a request that is repeated is one that finds its work done."""


def attempt_of(asked: Producer, current: Transaction, *, bumps_epoch: bool) -> Attempt | ErrorCode:
    """The relation of the request's producer to the id's, or the error for one that has none."""
    if asked.producer_id == current.producer_id:
        if current.producer_epoch > EPOCH_MAX and current.status not in PREPARE:
            return _FENCED  # no producer has that epoch, nor is any told of it
        if asked.epoch == current.producer_epoch:
            return Attempt.FIRST
        return Attempt.RETRY if asked.epoch + 1 == current.producer_epoch else _FENCED
    is_retry_of_the_last_epoch = (
        bumps_epoch
        and current.status in COMPLETE
        and asked == (current.previous_producer_id, EPOCH_MAX)
        and current.producer_epoch == 0
    )
    return Attempt.RETRY if is_retry_of_the_last_epoch else ErrorCode.invalid_producer_id_mapping


class Ending:
    """Decides how transactions end.

    Args:
        state: the coordinator's state.
        markers: carries decisions out.
    """

    def __init__(self, state: CoordinatorState, markers: Markers) -> None:
        self._state = state
        self._markers = markers

    def end(self, request: EndTransaction, ticket: object, now: Now) -> None:
        """EndTxn. If the epoch rises with each transaction, a move that is on its way is looked at before the producer is (TXN-1): the
        epoch may be what it changes.
        """
        entry = self._state.directory.find(request.transactional_id)
        if entry is None:
            self._answer(ticket, ErrorCode.invalid_producer_id_mapping)
        elif entry.current is None or (request.bumps_epoch and entry.pending is not None):
            self._answer(ticket, entry.busy_error)
        else:
            self._judge(request, entry, entry.current, ticket, now)

    def _judge(self, request: EndTransaction, entry: Entry, current: Transaction, ticket: object, now: Now) -> None:
        cells = BUMPING_CELLS if request.bumps_epoch else PLAIN_CELLS
        attempt = attempt_of(request.producer, current, bumps_epoch=request.bumps_epoch)
        if cells[current.status] is _DECIDED:
            self._answer(ticket, _BUSY)
        elif isinstance(attempt, ErrorCode):
            self._answer(ticket, attempt)
        elif entry.pending is not None:
            self._answer(ticket, entry.busy_error if attempt is Attempt.FIRST else _FENCED)
        else:
            cell = cells[current.status][attempt]
            verdict = cell.commit if request.is_commit else cell.abort
            if isinstance(verdict, ErrorCode):
                self._answer(ticket, verdict)
            elif verdict is Verdict.DONE:
                self._answer(ticket, ErrorCode.none, current.producer)
            else:
                self._decide(request, entry, current, ticket, now)

    def _decide(self, request: EndTransaction, entry: Entry, current: Transaction, ticket: object, now: Now) -> None:
        next_producer_id = self._next_producer_id(current, is_needed=request.bumps_epoch)
        if next_producer_id is None:
            self._answer(ticket, ErrorCode.coordinator_load_in_progress)
            return
        after = decided(
            current,
            now,
            is_commit=request.is_commit,
            client_version=BUMPING_VERSION if request.bumps_epoch else 0,
            bumps_epoch=request.bumps_epoch,
            last_epoch=current.producer_epoch if request.bumps_epoch else current.last_epoch,
            next_producer_id=next_producer_id,
        )
        reply = partial(self._answer, ticket, producer=after.next_producer)
        self._state.directory.move(entry, after, now, reply=reply, settled=self._on_decided)

    def fence(self, entry: Entry, current: Transaction, now: Now, *, by_itself: bool, reply: Reply) -> None:
        """A producer claims the id: abort its open transaction with a raised epoch. After the claim of a newer one the producer before it
        gets no epoch any more; a producer that claims its own id asks again for the raised one.
        """
        self._abort(entry, current, now, last_epoch=current.producer_epoch if by_itself else NO_EPOCH, reply=reply)

    def time_out(self, entry: Entry, current: Transaction, now: Now) -> None:
        """Abort a transaction that has taken too long, with a raised epoch (KAFKA-6119). Its producer may ask for the new epoch."""
        self._abort(entry, current, now, last_epoch=current.producer_epoch)

    def _abort(
        self, entry: Entry, current: Transaction, now: Now, *, last_epoch: int, reply: Reply | None = None
    ) -> None:
        level = self._state.feature_level()
        next_producer_id = self._next_producer_id(current, is_needed=level >= BUMPING_VERSION)
        if next_producer_id is None:
            if reply is not None:
                reply(ErrorCode.coordinator_load_in_progress)
            return
        after = decided(
            current,
            now,
            is_commit=False,
            client_version=level,
            bumps_epoch=True,
            last_epoch=last_epoch,
            next_producer_id=next_producer_id,
        )
        self._state.directory.move(entry, after, now, reply=reply, settled=self._on_decided)

    def _next_producer_id(self, current: Transaction, *, is_needed: bool) -> int | None:
        """The producer id that follows an exhausted epoch, NO_PRODUCER_ID if none has to; None if there is none at hand now (TXN-3)."""
        return self._state.take_producer_id() if is_needed and current.is_exhausted else NO_PRODUCER_ID

    def _on_decided(self, entry: Entry, is_committed: bool, now: Now) -> None:
        if is_committed:
            self._markers.begin(entry, now)

    def _answer(self, ticket: object, error: ErrorCode, producer: Producer = NO_PRODUCER) -> None:
        result = ProducerResult(error, producer) if error is ErrorCode.none else ProducerResult(error)
        self._state.outbox.add(Answer(ticket, result))
