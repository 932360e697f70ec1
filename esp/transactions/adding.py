"""AddPartitionsToTxn and AddOffsetsToTxn: partitions join a transaction; and the question of partition leaders if they have (TXN-4)."""

from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.model.now import Now
from esp.schemas.transaction_records import TransactionStatus
from esp.transactions.coordinator_state import CoordinatorState
from esp.transactions.directory import Entry
from esp.transactions.effects import Answer
from esp.transactions.requests import AddPartitions, Producer, VerifyPartitions
from esp.transactions.responses import PartitionsResult
from esp.transactions.transaction import EPOCH_MAX, PREPARE, Transaction, joined

_S: Final = TransactionStatus
_BUSY: Final = ErrorCode.concurrent_transactions

CELLS: Final[Mapping[TransactionStatus, ErrorCode]] = MappingProxyType(
    {
        _S.EMPTY: ErrorCode.none,
        _S.ONGOING: ErrorCode.none,
        _S.PREPARE_COMMIT: _BUSY,
        _S.PREPARE_ABORT: _BUSY,
        _S.COMPLETE_COMMIT: ErrorCode.none,
        _S.COMPLETE_ABORT: ErrorCode.none,
    }
)
"""The answer in each state to the id's own producer: NONE lets partitions join, or be looked for."""


def check_producer(asked: Producer, current: Transaction) -> ErrorCode:
    """NONE for the id's producer; else INVALID_PRODUCER_ID_MAPPING, or PRODUCER_FENCED for an epoch that is lower, or higher."""
    if asked.producer_id != current.producer_id:
        return ErrorCode.invalid_producer_id_mapping
    is_current = asked.epoch == current.producer_epoch and (asked.epoch <= EPOCH_MAX or current.status in PREPARE)
    return ErrorCode.none if is_current else ErrorCode.producer_fenced


class Adding:
    """Lets partitions join, and tells if they have.

    Args:
        state: the coordinator's state.
    """

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state

    def add(self, request: AddPartitions, ticket: object, now: Now) -> None:
        """Partitions are to join; answered when that is committed, so that no data comes before it (TXN-4)."""
        entry = self._state.directory.find(request.transactional_id)
        answer = partial(self._answer, ticket, request.partitions)
        if entry is None:
            answer(ErrorCode.invalid_producer_id_mapping)
        elif entry.pending is not None or entry.current is None:
            answer(entry.busy_error)
        else:
            self._add(request, entry, entry.current, ticket, now)

    def _add(self, request: AddPartitions, entry: Entry, current: Transaction, ticket: object, now: Now) -> None:
        answer = partial(self._answer, ticket, request.partitions)
        error = CELLS[current.status]  # before the producer, whose next id may be one that the completion brings
        if error is ErrorCode.none:
            error = check_producer(request.producer, current)
        is_there = current.status is _S.ONGOING and request.partitions.items() <= current.partitions.items()
        if error is not ErrorCode.none or is_there:
            answer(error)
        else:
            after = joined(current, request.partitions, request.client_version, now)
            self._state.directory.move(entry, after, now, reply=answer)

    def verify(self, request: VerifyPartitions) -> PartitionsResult:
        """The answer for each partition: NONE if it takes part. A move on its way does not matter (KAFKA-14904): it can end nothing yet."""
        entry = self._state.directory.find(request.transactional_id)
        current = None if entry is None else entry.current
        if current is None:
            return _same(request.partitions, ErrorCode.invalid_producer_id_mapping)
        error = check_producer(request.producer, current)
        if error is ErrorCode.none:
            error = CELLS[current.status]
        if error is not ErrorCode.none:
            return _same(request.partitions, error)
        there = current.partitions
        return PartitionsResult(
            ErrorCode.none,
            {
                partition: ErrorCode.none if partition in there else ErrorCode.transaction_abortable
                for partition in request.partitions
            },
        )

    def _answer(self, ticket: object, partitions: Iterable[TopicPartition], error: ErrorCode) -> None:
        self._state.outbox.add(Answer(ticket, _same(partitions, error)))


def _same(partitions: Iterable[TopicPartition], error: ErrorCode) -> PartitionsResult:
    return PartitionsResult(error, dict.fromkeys(partitions, error))
