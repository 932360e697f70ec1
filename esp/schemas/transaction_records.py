"""The records in the log of the transaction coordinator (``__transaction_state``): one key, the transactional id, and its state.

One shape for all versions: fields that version 0 lacks have their defaults. The bytes are in :mod:`esp.schemas.transaction_record_codec`.
"""

from enum import IntEnum
from typing import Final, NamedTuple

NO_PRODUCER_ID: Final = -1
"""A producer id that is not there."""

NO_EPOCH: Final = -1
"""A producer epoch that is not there."""

NO_TIMESTAMP: Final = -1
"""The start of a transaction that has not begun."""


class TransactionStatus(IntEnum):
    """Kafka's numbers of the states of a transactional id."""

    EMPTY = 0
    """The id has a producer id, and no transaction yet under its present epoch."""
    ONGOING = 1
    PREPARE_COMMIT = 2
    """The commit is decided; markers are on their way."""
    PREPARE_ABORT = 3
    """The abort is decided; markers are on their way."""
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """The id is being forgotten; never written, a tombstone stands for it."""
    PREPARE_EPOCH_FENCE = 7
    """Kafka's own intermediate state in memory; never written."""

    @property
    def kafka_name(self) -> str:
        """The name in answers to DescribeTransactions and ListTransactions, and in their filters."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class PartitionsOfTopic(NamedTuple):
    """The partitions of one topic that take part in a transaction."""

    topic: str
    partitions: tuple[int, ...]


class TransactionValue(NamedTuple):
    """The state of a transactional id."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: TransactionStatus
    partitions: tuple[PartitionsOfTopic, ...] | None
    """The partitions in the transaction; None (null) in the state Empty."""
    last_update_ms: int
    start_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the transition that wrote this value; from version 1 on."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id that follows when an exhausted epoch ends; from version 1 on."""
    client_version: int = 0
    """The transaction version that the client spoke; from version 1 on."""


class TransactionRecord(NamedTuple):
    """The state of a transactional id; without a value the id is forgotten."""

    transactional_id: str
    value: TransactionValue | None
