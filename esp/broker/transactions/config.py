"""The facts of its node that the coordinator of a partition of transactional ids must know."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from esp.broker.replication.hosted_partition import HostedPartition
from esp.settings.broker import BrokerSettings
from esp.transactions.settings import TransactionSettings

APPEND_TIMEOUT_MS: Final = 30_000
"""The time for which an answer waits for the commit of its record: the default of Kafka's ``request.timeout.ms``, as clients wait."""


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """See :class:`esp.broker.transactions.driver.TransactionCoordinatorDriver`."""

    settings: TransactionSettings
    on_disk_error: Callable[[HostedPartition, Exception], None]
    """Called when the partition's log could not be written."""
    feature_level: Callable[[], int]
    """Tells the cluster's ``transaction.version``, as this node has applied it."""
    is_trashed: Callable[[str], bool]
    """Tells if a topic of that name is in the trash, and none is there."""
    take_producer_id: Callable[[], int | None]
    """Gives a producer id that no other producer has; None if there is none at hand now."""


def transaction_settings(settings: BrokerSettings) -> TransactionSettings:
    """The core's part of the node's settings."""
    return TransactionSettings(
        transaction_max_timeout_ms=settings.transaction_max_timeout_ms,
        transactional_id_expiration_ms=settings.transactional_id_expiration_ms,
        abort_interval_ms=settings.transaction_abort_timed_out_transaction_cleanup_interval_ms,
        remove_interval_ms=settings.transaction_remove_expired_transaction_cleanup_interval_ms,
        append_timeout_ms=APPEND_TIMEOUT_MS,
    )
