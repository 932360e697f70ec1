"""DescribeTransactions and ListTransactions: transactional ids as administrators see them (KIP-664)."""

from typing import Final

from esp.model.errors import ErrorCode
from esp.model.now import Now
from esp.schemas.transaction_records import TransactionStatus
from esp.transactions.directory import Directory
from esp.transactions.requests import ListTransactions
from esp.transactions.responses import DescribedTransaction, ListedTransaction
from esp.transactions.transaction import PREPARE, Transaction

STATE_NAMES = frozenset(status.kafka_name for status in TransactionStatus)
"""The states that filters may name."""


_OPEN: Final = frozenset((TransactionStatus.ONGOING, *PREPARE))


def describe(directory: Directory, transactional_id: str) -> DescribedTransaction:
    """Describe a transactional id; TRANSACTIONAL_ID_NOT_FOUND if it is unknown. Partitions are named while they wait for their end."""
    entry = directory.find(transactional_id)
    if entry is None or entry.current is None:
        return DescribedTransaction(ErrorCode.transactional_id_not_found)
    current = entry.current
    return DescribedTransaction(
        ErrorCode.none,
        current.status.kafka_name,
        current.timeout_ms,
        current.start_ms,
        current.producer,
        tuple(current.partitions),
    )


def oldest_start_us(directory: Directory) -> int | None:
    """The monotonic time at which the oldest transaction that is not completed began; None if there is none."""
    return min(
        (
            entry.current.started_us
            for entry in directory
            if entry.current is not None and entry.current.status in _OPEN
        ),
        default=None,
    )


def list_transactions(directory: Directory, request: ListTransactions, now: Now) -> list[ListedTransaction]:
    """List the ids that pass the filters. The duration is that of the transaction: an id without one passes every duration."""
    return [
        ListedTransaction(entry.transactional_id, entry.current.producer_id, entry.current.status.kafka_name)
        for entry in directory
        if entry.current is not None
        and _passes(entry.current, request, now)
        and (request.matches is None or request.matches(entry.transactional_id))
    ]


def _passes(current: Transaction, request: ListTransactions, now: Now) -> bool:
    return (
        (not request.producer_ids or current.producer_id in request.producer_ids)
        and (not request.states or current.status.kafka_name in request.states)
        and (request.duration_ms < 0 or now.wall_ms - current.start_ms > request.duration_ms)
    )
