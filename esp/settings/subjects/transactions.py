"""A node's settings for transactions and their coordinators."""

from dataclasses import dataclass

from esp.settings.setting import Kind, at_least, setting


@dataclass(frozen=True, init=False, repr=False, eq=False)
class TransactionSettings:
    """Fields of :class:`~esp.settings.broker.BrokerSettings`."""

    __slots__ = ()

    add_partitions_to_txn_retry_backoff_ms: int = setting(
        20,
        Kind.INT,
        "Milliseconds before a partition's leader asks again about a producer whose last transaction is being completed.",
        at_least(1),
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = setting(
        100, Kind.INT, "Most milliseconds for which it asks again before the producer has to.", at_least(0)
    )
    transaction_partition_verification_enable: bool = setting(
        True,
        Kind.BOOLEAN,
        "Whether a partition's leader asks the transaction's coordinator before the first batch of a transaction.",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(
        10_000, Kind.INT, "Milliseconds between two checks for transactions that take too long.", at_least(1)
    )
    transaction_max_timeout_ms: int = setting(
        900_000, Kind.INT, "Longest transaction timeout that a producer may ask for, in ms.", at_least(1)
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        3_600_000, Kind.INT, "Milliseconds between two checks for expired transactional ids.", at_least(1)
    )
    transaction_state_log_min_isr: int = setting(
        2,
        Kind.INT,
        "min.insync.replicas of __transaction_state; all its replicas, if there are fewer.",
        at_least(1),
    )
    transaction_state_log_num_partitions: int = setting(
        50, Kind.INT, "Partitions of __transaction_state when it is created.", at_least(1)
    )
    transaction_state_log_replication_factor: int = setting(
        3, Kind.SHORT, "Replicas of __transaction_state; all brokers, if there are fewer.", at_least(1)
    )
    transaction_state_log_segment_bytes: int = setting(
        104_857_600, Kind.INT, "Largest size of a segment of __transaction_state.", at_least(1)
    )
    transactional_id_expiration_ms: int = setting(
        604_800_000, Kind.INT, "Milliseconds that an unused transactional id is remembered.", at_least(1)
    )
