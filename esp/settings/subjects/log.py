"""A node's settings for its logs: directories, segments, retention, compaction, checkpoints, producers."""

from dataclasses import dataclass
from typing import Final

from esp.settings.setting import DOUBLE_MAX, LONG_MAX, Kind, at_least, between, one_of, setting

_LEAST_SEGMENT_BYTES: Final = 1024 * 1024
_cleanup_policy: Final = one_of("compact", "delete")


@dataclass(frozen=True, init=False, repr=False, eq=False)
class LogSettings:
    """Fields of :class:`~esp.settings.broker.BrokerSettings`."""

    __slots__ = ()

    log_dirs: tuple[str, ...] = setting(("esp-data",), Kind.LIST, "The data directories, separated by commas.")
    log_cleaner_backoff_ms: int = setting(
        15_000, Kind.LONG, "Milliseconds that compaction sleeps when no log needs it.", at_least(0)
    )
    log_cleaner_dedupe_buffer_size: int = setting(
        134_217_728, Kind.LONG, "Bytes of memory for the keys of logs that are being compacted, all threads together."
    )
    log_cleaner_delete_retention_ms: int = setting(
        86_400_000, Kind.LONG, "Milliseconds that tombstones are kept in compacted logs.", at_least(0)
    )
    log_cleaner_enable: bool = setting(True, Kind.BOOLEAN, "Whether logs are compacted.")
    log_cleaner_io_buffer_load_factor: float = setting(
        0.9, Kind.DOUBLE, "Share of log.cleaner.dedupe.buffer.size that is filled."
    )
    log_cleaner_io_buffer_size: int = setting(
        524_288, Kind.INT, "Bytes of memory for reads and writes of compaction, all threads together.", at_least(0)
    )
    log_cleaner_io_max_bytes_per_second: float = setting(
        DOUBLE_MAX, Kind.DOUBLE, "Bytes per second that compaction reads and writes at most."
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        LONG_MAX, Kind.LONG, "Milliseconds after which a record is compacted at the latest.", at_least(1)
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        0.5, Kind.DOUBLE, "Share of a log that is dirty at least when it is compacted.", between(0, 1)
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        0, Kind.LONG, "Milliseconds for which a record is not compacted.", at_least(0)
    )
    log_cleaner_threads: int = setting(1, Kind.INT, "Logs that are compacted at a time.", at_least(0))
    log_cleanup_policy: tuple[str, ...] = setting(
        ("delete",),
        Kind.LIST,
        "Policy for old segments: delete removes them, compact keeps the latest record of each key, or both.",
        _cleanup_policy,
    )
    log_flush_interval_messages: int = setting(
        LONG_MAX, Kind.LONG, "Records after which a log is flushed.", at_least(1)
    )
    log_flush_interval_ms: int = setting(LONG_MAX, Kind.LONG, "Milliseconds after which a log is flushed.")
    log_index_interval_bytes: int = setting(
        4096, Kind.INT, "Bytes of log between two entries of its index.", at_least(0)
    )
    log_index_size_max_bytes: int = setting(10_485_760, Kind.INT, "Largest size of an index in bytes.", at_least(4))
    log_message_timestamp_type: str = setting(
        "CreateTime", Kind.STRING, "The clock that stamps records.", one_of("CreateTime", "LogAppendTime")
    )
    log_message_timestamp_before_max_ms: int = setting(
        LONG_MAX, Kind.LONG, "How old a record's timestamp may be.", at_least(0)
    )
    log_message_timestamp_after_max_ms: int = setting(
        3_600_000, Kind.LONG, "How far ahead a record's timestamp may be.", at_least(0)
    )
    log_retention_bytes: int = setting(-1, Kind.LONG, "Bytes of a partition's log that are kept; -1: all.")
    log_retention_ms: int = setting(604_800_000, Kind.LONG, "Milliseconds that records are kept; -1: for ever.")
    log_roll_ms: int = setting(604_800_000, Kind.LONG, "Milliseconds after which a new segment begins.", at_least(1))
    log_roll_jitter_ms: int = setting(
        0, Kind.LONG, "Most milliseconds, chosen at random, by which a new segment begins earlier.", at_least(0)
    )
    log_segment_bytes: int = setting(
        1_073_741_824, Kind.INT, "Largest size of a segment in bytes.", at_least(_LEAST_SEGMENT_BYTES)
    )
    log_segment_delete_delay_ms: int = setting(
        60_000, Kind.LONG, "Milliseconds that deleted files stay on disk.", at_least(0)
    )
    log_initial_task_delay_ms: int = setting(
        30_000, Kind.LONG, "Milliseconds from start to the first retention.", at_least(0)
    )
    log_retention_check_interval_ms: int = setting(
        300_000, Kind.LONG, "Milliseconds between two checks for old segments.", at_least(1)
    )
    running_marker_enable: bool = setting(
        True,
        Kind.BOOLEAN,
        "Whether a broker stays eligible to lead if only its process ended, not its machine; not Kafka's.",
    )
    log_scrub_interval_ms: int = setting(
        86_400_000,
        Kind.LONG,
        "Milliseconds between two checks of old segments against their checksums; not Kafka's.",
        at_least(1),
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(
        60_000, Kind.INT, "Interval of recovery-point-offset-checkpoint.", at_least(0)
    )
    log_flush_start_offset_checkpoint_interval_ms: int = setting(
        60_000, Kind.INT, "Interval of log-start-offset-checkpoint.", at_least(0)
    )
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        5_000, Kind.LONG, "Interval of replication-offset-checkpoint."
    )
    producer_id_expiration_ms: int = setting(
        86_400_000, Kind.INT, "Milliseconds that an inactive producer's sequence is remembered.", at_least(1)
    )
    producer_id_expiration_check_interval_ms: int = setting(
        600_000, Kind.INT, "Milliseconds between two checks for inactive producers.", at_least(1)
    )
