"""The state of one transactional id, and the moves between its states.

A :class:`Transaction` never changes: a move makes another one, which counts from the time at which its record is committed (TXN-1). So a
move whose append fails leaves nothing behind, and no epoch is raised twice for one fence (KAFKA-9666).
"""

import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from esp.model.ids import TopicPartition
from esp.model.now import Now
from esp.schemas.transaction_records import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    PartitionsOfTopic,
    TransactionStatus,
    TransactionValue,
)
from esp.transactions.requests import Producer

EPOCH_MAX: Final = 32_766
"""The last epoch that a producer gets; 32767 stands only in the markers that end it (TXN-3)."""

BUMPING_VERSION: Final = 2
"""The transaction version from which each transaction has an epoch of its own (KIP-890)."""

_S: Final = TransactionStatus

COMPLETE: Final = frozenset((_S.COMPLETE_COMMIT, _S.COMPLETE_ABORT))
PREPARE: Final = frozenset((_S.PREPARE_COMMIT, _S.PREPARE_ABORT))

VALID_MOVES: Final[Mapping[TransactionStatus, frozenset[TransactionStatus]]] = MappingProxyType(
    {
        _S.EMPTY: frozenset((_S.EMPTY, *COMPLETE)),
        _S.ONGOING: frozenset((_S.ONGOING, _S.EMPTY, *COMPLETE)),
        _S.PREPARE_COMMIT: frozenset((_S.ONGOING,)),
        _S.PREPARE_ABORT: frozenset((_S.ONGOING, _S.EMPTY, *COMPLETE)),
        _S.COMPLETE_COMMIT: frozenset((_S.PREPARE_COMMIT,)),
        _S.COMPLETE_ABORT: frozenset((_S.PREPARE_ABORT,)),
        _S.DEAD: frozenset((_S.EMPTY, *COMPLETE)),
        _S.PREPARE_EPOCH_FENCE: frozenset(),
    }
)
"""The states that each state may follow."""

NO_PARTITIONS: Final[Mapping[TopicPartition, uuid.UUID | None]] = MappingProxyType({})
_US_PER_MS: Final = 1_000


class Transaction(NamedTuple):
    """The state of a transactional id at one time. Made with the names of its fields."""

    status: TransactionStatus
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    last_update_ms: int
    partitions: Mapping[TopicPartition, uuid.UUID | None] = NO_PARTITIONS
    """The partitions, with the ids that their topics had when they joined; None for partitions that were read from the log."""
    start_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_epoch: int = NO_EPOCH
    """The epoch by which the producer may ask again for the present one, because the answer was lost (KIP-360). It is not stored."""
    client_version: int = 0
    used_us: int = 0
    """The monotonic time of the last update, from which the id's expiration is counted."""
    started_us: int = 0
    """The monotonic time of the start, from which the timeout is counted (TXN-9)."""

    @property
    def producer(self) -> Producer:
        """The producer that the transaction belongs to."""
        return Producer(self.producer_id, self.producer_epoch)

    @property
    def next_producer(self) -> Producer:
        """The producer after the transaction that is being ended."""
        return self.producer if self.next_producer_id == NO_PRODUCER_ID else Producer(self.next_producer_id, 0)

    @property
    def is_exhausted(self) -> bool:
        """True if no further epoch can be given to a producer."""
        return self.producer_epoch >= EPOCH_MAX

    @property
    def is_commit(self) -> bool:
        """The decision of a transaction that is being ended, or has ended."""
        return self.status in (_S.PREPARE_COMMIT, _S.COMPLETE_COMMIT)


def stored_value(transaction: Transaction) -> TransactionValue:
    """The value of the record that stores it."""
    partitions: tuple[PartitionsOfTopic, ...] = ()
    if transaction.partitions:
        topics: dict[str, list[int]] = {}
        for topic, partition in transaction.partitions:
            topics.setdefault(topic, []).append(partition)
        partitions = tuple([PartitionsOfTopic(topic, tuple(numbers)) for topic, numbers in topics.items()])
    return TransactionValue(
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.timeout_ms,
        transaction.status,
        None if transaction.status is _S.EMPTY else partitions,
        transaction.last_update_ms,
        transaction.start_ms,
        transaction.previous_producer_id,
        transaction.next_producer_id,
        transaction.client_version,
    )


def loaded(value: TransactionValue, now: Now) -> Transaction:
    """The transaction of a stored value. Times of the wall clock become times of the monotonic one, once and for all; a wall clock that
    stands before them lets them begin now.
    """
    return Transaction(
        status=value.status,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.timeout_ms,
        partitions={
            TopicPartition(topic, number): None for topic, numbers in value.partitions or () for number in numbers
        },
        last_update_ms=value.last_update_ms,
        start_ms=value.start_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_version,
        used_us=_monotonic(value.last_update_ms, now),
        started_us=_monotonic(value.start_ms, now),
    )


def created(producer_id: int, timeout_ms: int, now: Now) -> Transaction:
    """A new id."""
    return Transaction(
        status=_S.EMPTY,
        producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        last_update_ms=now.wall_ms,
        previous_producer_id=producer_id,
        used_us=now.monotonic_us,
    )


def renewed(before: Transaction, timeout_ms: int, now: Now, *, last_epoch: int) -> Transaction:
    """InitProducerId with an epoch to spare: the next epoch (TXN-2)."""
    assert not before.is_exhausted, "an epoch that is exhausted has no next one"
    return _emptied(before, timeout_ms, now, producer_epoch=before.producer_epoch + 1, last_epoch=last_epoch)


def rotated(before: Transaction, producer_id: int, timeout_ms: int, now: Now, *, last_epoch: int) -> Transaction:
    """InitProducerId without an epoch to spare: another producer id (TXN-3)."""
    return _emptied(before, timeout_ms, now, producer_id=producer_id, producer_epoch=0, last_epoch=last_epoch)


def repeated(before: Transaction, timeout_ms: int, now: Now) -> Transaction:
    """InitProducerId again, because the answer was lost: the same producer (KIP-360)."""
    return _emptied(before, timeout_ms, now)._replace(previous_producer_id=before.previous_producer_id)


def joined(
    before: Transaction, partitions: Mapping[TopicPartition, uuid.UUID | None], client_version: int, now: Now
) -> Transaction:
    """More partitions take part; the first ones begin the transaction."""
    begins = before.status is not _S.ONGOING
    return _moved(
        before,
        _S.ONGOING,
        now,
        partitions=dict(partitions) if begins else {**before.partitions, **partitions},
        start_ms=now.wall_ms if begins else before.start_ms,
        started_us=now.monotonic_us if begins else before.started_us,
        client_version=client_version,
    )


def decided(
    before: Transaction,
    now: Now,
    *,
    is_commit: bool,
    client_version: int,
    bumps_epoch: bool,
    last_epoch: int,
    next_producer_id: int = NO_PRODUCER_ID,
) -> Transaction:
    """The decision, which never changes once it is committed (TXN-6).

    Args:
        before: the state until now.
        now: the time.
        is_commit: the decision.
        client_version: the transaction version of the request, or of the cluster if the coordinator itself aborts.
        bumps_epoch: whether the markers carry the next epoch.
        last_epoch: see :attr:`Transaction.last_epoch`.
        next_producer_id: the producer id that follows an exhausted epoch.
    """
    is_open = before.status is _S.ONGOING
    return _moved(
        before,
        _S.PREPARE_COMMIT if is_commit else _S.PREPARE_ABORT,
        now,
        producer_epoch=min(before.producer_epoch + bumps_epoch, EPOCH_MAX + 1),
        last_epoch=last_epoch,
        partitions=before.partitions if is_open else NO_PARTITIONS,
        start_ms=before.start_ms if is_open else now.wall_ms,
        started_us=before.started_us if is_open else now.monotonic_us,
        client_version=client_version,
        next_producer_id=next_producer_id,
    )


def completed(before: Transaction, now: Now) -> Transaction:
    """Return the state after all markers are written."""
    producer_id, epoch = before.next_producer
    return _moved(
        before,
        _S.COMPLETE_COMMIT if before.is_commit else _S.COMPLETE_ABORT,
        now,
        producer_id=producer_id,
        producer_epoch=epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=NO_PARTITIONS,
    )


def forgotten(before: Transaction, now: Now) -> Transaction:
    """Return the state of an id that has expired; a tombstone stands for it."""
    return _moved(before, _S.DEAD, now)


def _emptied(before: Transaction, timeout_ms: int, now: Now, **changes: int) -> Transaction:
    return _moved(
        before, _S.EMPTY, now, timeout_ms=timeout_ms, partitions=NO_PARTITIONS, start_ms=NO_TIMESTAMP, **changes
    )


def _moved(before: Transaction, status: TransactionStatus, now: Now, **changes: object) -> Transaction:
    assert before.status in VALID_MOVES[status], f"{before.status.name} is not followed by {status.name}"
    after = before._replace(
        status=status,
        previous_producer_id=before.producer_id,
        last_update_ms=now.wall_ms,
        used_us=now.monotonic_us,
        **changes,  # type: ignore[arg-type]
    )
    assert after.producer_epoch <= EPOCH_MAX + 1, "an epoch is a signed number of 16 bits"
    return after


def _monotonic(timestamp_ms: int, now: Now) -> int:
    elapsed_ms = max(0, now.wall_ms - timestamp_ms) if timestamp_ms != NO_TIMESTAMP else 0
    return now.monotonic_us - elapsed_ms * _US_PER_MS
