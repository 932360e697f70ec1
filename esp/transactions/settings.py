"""The settings of a transaction coordinator, by Kafka's names."""

from dataclasses import dataclass
from typing import Final

RETRY_US: Final = 100_000
"""The time after which the record that completes a transaction is appended again, if the append before has failed."""

REFUSED_RETRY_US: Final = 10_000_000
"""The time after which a marker that a partition refused is sent again: the refusal ends only when an operator or a newer epoch ends it."""

TOMBSTONES_BYTES_MAX: Final = 16 * 1024
"""Keys of expired ids that are forgotten with one batch (Kafka's size of such batches)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """The settings of an operator."""

    transaction_max_timeout_ms: int
    """``transaction.max.timeout.ms``: the longest timeout that a producer may ask for."""
    transactional_id_expiration_ms: int
    """``transactional.id.expiration.ms``: how long an id is remembered that is not used."""
    abort_interval_ms: int
    """``transaction.abort.timed.out.transaction.cleanup.interval.ms``: how often transactions are looked at that may have timed out."""
    remove_interval_ms: int
    """``transaction.remove.expired.transaction.cleanup.interval.ms``: how often ids are looked at that may have expired."""
    append_timeout_ms: int
    """``request.timeout.ms``: how long an answer waits until its record is committed."""
