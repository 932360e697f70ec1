"""InitProducerId: a producer begins, and fences the one before it (TXN-2, TXN-3, KIP-360)."""

from collections.abc import Mapping
from enum import Enum, auto
from functools import partial
from types import MappingProxyType
from typing import Final

from esp.model.errors import ErrorCode
from esp.model.now import Now
from esp.schemas.transaction_records import NO_EPOCH, TransactionStatus
from esp.transactions.coordinator_state import CoordinatorState
from esp.transactions.directory import Entry
from esp.transactions.effects import Answer
from esp.transactions.ending import Ending
from esp.transactions.requests import InitProducerId, Producer
from esp.transactions.responses import ProducerResult
from esp.transactions.transaction import EPOCH_MAX, Transaction, created, renewed, repeated, rotated

NO_PRODUCER_ID_NOW: Final = ErrorCode.coordinator_load_in_progress
"""Kafka's answer while the controller gives out no producer ids: clients ask again."""


class Claim(Enum):
    """The claim of a request to the transactional id."""

    NEW = auto()
    """The request names no producer: it comes from a new instance of the application, which fences the others."""
    CURRENT = auto()
    """The producer that the id has."""
    PREVIOUS = auto()
    """The producer that the id had before an answer that may have been lost."""
    FOREIGN = auto()
    """Any other producer: a zombie."""


class Step(Enum):
    """The consequence of a claim."""

    NEXT = auto()
    """The next epoch, or another producer id if there is none."""
    NEXT_OF_KNOWN = auto()
    """As NEXT, and the epoch before is kept, by which a repetition of the request is known."""
    REPEAT = auto()
    """The producer that was given before."""
    FENCE = auto()
    """The open transaction is aborted; the client asks again."""


_S: Final = TransactionStatus
_FENCED: Final = ErrorCode.producer_fenced
_BUSY: Final = ErrorCode.concurrent_transactions

_Row = Mapping[Claim, Step | ErrorCode]

_AT_REST: Final[_Row] = {
    Claim.NEW: Step.NEXT,
    Claim.CURRENT: Step.NEXT_OF_KNOWN,
    Claim.PREVIOUS: Step.REPEAT,
    Claim.FOREIGN: _FENCED,
}
_OPEN: Final[_Row] = {Claim.NEW: Step.FENCE, Claim.CURRENT: Step.FENCE, Claim.PREVIOUS: _FENCED, Claim.FOREIGN: _FENCED}
_DECIDED: Final[_Row] = dict.fromkeys(Claim, _BUSY)

CELLS: Final[Mapping[TransactionStatus, _Row]] = MappingProxyType(
    {
        _S.EMPTY: _AT_REST,
        _S.ONGOING: _OPEN,
        _S.PREPARE_COMMIT: _DECIDED,
        _S.PREPARE_ABORT: _DECIDED,
        _S.COMPLETE_COMMIT: _AT_REST,
        _S.COMPLETE_ABORT: _AT_REST,
    }
)
"""The answer in each state to each claim. An old epoch changes nothing in an open transaction: a zombie does not end its owner's."""


def claim_of(expected: Producer | None, current: Transaction) -> Claim:
    """The claim of a request that names this producer."""
    if expected is None:
        return Claim.NEW
    if expected == current.producer:
        return Claim.CURRENT
    is_same_id = expected.producer_id == current.producer_id
    was_exhausted = expected.producer_id == current.previous_producer_id and expected.epoch == EPOCH_MAX
    if expected.epoch == current.last_epoch != NO_EPOCH and (is_same_id or was_exhausted):
        return Claim.PREVIOUS
    return Claim.FOREIGN


class Initialising:
    """Answers InitProducerId.

    Args:
        state: the coordinator's state.
        ending: aborts transactions that are fenced.
    """

    def __init__(self, state: CoordinatorState, ending: Ending) -> None:
        self._state = state
        self._ending = ending

    def init_producer_id(self, request: InitProducerId, ticket: object, now: Now) -> None:
        """InitProducerId with a transactional id."""
        if not 0 < request.timeout_ms <= self._state.settings.transaction_max_timeout_ms:
            self._refuse(ticket, ErrorCode.invalid_transaction_timeout)
            return
        entry = self._state.directory.find(request.transactional_id)
        if entry is None:
            self._create(request, ticket, now)
        elif entry.pending is not None or entry.current is None:
            self._refuse(ticket, entry.busy_error)
        else:
            self._take_step(request, entry, entry.current, ticket, now)

    def _create(self, request: InitProducerId, ticket: object, now: Now) -> None:
        producer_id = self._state.take_producer_id()
        if producer_id is None:
            self._refuse(ticket, NO_PRODUCER_ID_NOW)
            return
        entry = self._state.directory.create(request.transactional_id)
        self._move(entry, created(producer_id, request.timeout_ms, now), ticket, now)

    def _take_step(self, request: InitProducerId, entry: Entry, current: Transaction, ticket: object, now: Now) -> None:
        step = CELLS[current.status][claim_of(request.expected, current)]
        if isinstance(step, ErrorCode):
            self._refuse(ticket, step)
        elif step is Step.FENCE:
            by_itself = request.expected is not None
            self._ending.fence(entry, current, now, by_itself=by_itself, reply=partial(self._on_fenced, ticket))
        elif step is Step.REPEAT and current.producer_epoch <= EPOCH_MAX:
            self._move(entry, repeated(current, request.timeout_ms, now), ticket, now)
        else:
            last_epochs = {Step.NEXT_OF_KNOWN: current.producer_epoch, Step.REPEAT: current.last_epoch}
            last_epoch = last_epochs.get(step, NO_EPOCH)
            self._give_next(request, entry, current, last_epoch, ticket, now)

    def _give_next(
        self, request: InitProducerId, entry: Entry, current: Transaction, last_epoch: int, ticket: object, now: Now
    ) -> None:
        if not current.is_exhausted:
            self._move(entry, renewed(current, request.timeout_ms, now, last_epoch=last_epoch), ticket, now)
            return
        producer_id = self._state.take_producer_id()
        if producer_id is None:
            self._refuse(ticket, NO_PRODUCER_ID_NOW)
            return
        after = rotated(current, producer_id, request.timeout_ms, now, last_epoch=last_epoch)
        self._move(entry, after, ticket, now)

    def _move(self, entry: Entry, after: Transaction, ticket: object, now: Now) -> None:
        def reply(error: ErrorCode) -> None:
            result = ProducerResult(error, after.producer) if error is ErrorCode.none else ProducerResult(error)
            self._state.outbox.add(Answer(ticket, result))

        self._state.directory.move(entry, after, now, reply=reply)

    def _on_fenced(self, ticket: object, error: ErrorCode) -> None:
        """The old transaction is being aborted: the client asks again until that is done."""
        self._refuse(ticket, _BUSY if error is ErrorCode.none else error)

    def _refuse(self, ticket: object, error: ErrorCode) -> None:
        self._state.outbox.add(Answer(ticket, ProducerResult(error)))
