"""The settings of one topic, typed and complete, for the code to read. Names, ranges and texts: :mod:`esp.settings.node`."""

from dataclasses import dataclass, field

from esp.settings.throttled_replicas import NO_REPLICAS, ThrottledReplicas

LONG_MAX = 2**63 - 1

AS_PRODUCED = "producer"
"""The ``compression.type`` of batches that are kept as they came."""


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """A topic's effective settings: its own values over the broker's over Kafka's defaults.

    Each field is Kafka's topic setting of that name with dots as underscores; times in milliseconds, sizes in bytes, -1 for "no limit"
    where Kafka has it. ``rebalance_throttled_replicas`` is the controller's own mark (REPAIR-4).
    """

    cleanup_policy: str = "delete"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    follower_replication_throttled_replicas: ThrottledReplicas = NO_REPLICAS
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: ThrottledReplicas = NO_REPLICAS
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_insync_replicas: int = 1
    rebalance_throttled_replicas: ThrottledReplicas = NO_REPLICAS
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False
    keeps_batches: bool = field(init=False)
    """True if produced batches go into the log as they came: no other codec, no other timestamps. It is read for every batch."""

    def __post_init__(self) -> None:
        keeps = self.compression_type == AS_PRODUCED and self.message_timestamp_type == "CreateTime"
        object.__setattr__(self, "keeps_batches", keeps)
