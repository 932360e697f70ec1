"""A node's settings for share groups, their coordinators and dead letters."""

from dataclasses import dataclass

from esp.settings.setting import Kind, at_least, between, setting


@dataclass(frozen=True, init=False, repr=False, eq=False)
class ShareSettings:
    """Fields of :class:`~esp.settings.broker.BrokerSettings`."""

    __slots__ = ()

    errors_deadletterqueue_auto_create_topics_enable: bool = setting(
        False, Kind.BOOLEAN, "Whether a dead-letter queue of share groups is created for its first letter."
    )
    errors_deadletterqueue_topic_name_prefix: str = setting(
        "dlq.", Kind.STRING, "The beginning of the name of every topic that may be a dead-letter queue of share groups."
    )
    group_share_session_timeout_ms: int = setting(
        45_000, Kind.INT, "Longest silence of a member of a share group, in ms.", at_least(1)
    )
    group_share_heartbeat_interval_ms: int = setting(
        5_000, Kind.INT, "Milliseconds between the heartbeats of a member of a share group.", at_least(1)
    )
    group_share_max_size: int = setting(200, Kind.INT, "Members that a share group accepts.", between(1, 1_000))
    group_share_assignment_interval_ms: int = setting(
        1_000, Kind.INT, "Least time between two assignments of one share group, in ms.", between(0, 15_000)
    )
    group_share_delivery_count_limit: int = setting(
        5, Kind.INT, "Times that a record is delivered to members of a share group at most.", between(2, 10)
    )
    group_share_max_share_sessions: int = setting(
        2_000, Kind.INT, "Share sessions that the node keeps, one for each member that fetches from it.", at_least(1)
    )
    group_share_partition_max_record_locks: int = setting(
        2_000,
        Kind.INT,
        "Span of offsets, from the first one that is not done with, in which the members of a share group have records.",
        between(100, 10_000),
    )
    group_share_record_lock_duration_ms: int = setting(
        30_000,
        Kind.INT,
        "Milliseconds for which a member of a share group keeps a record that it does not acknowledge.",
        between(1_000, 3_600_000),
    )
    share_coordinator_cold_partition_snapshot_interval_ms: int = setting(
        300_000,
        Kind.INT,
        "Age in ms at which states of share partitions are written again to prune their log.",
        at_least(1),
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = setting(
        500,
        Kind.INT,
        "Changes of a share partition's state that are kept one by one, before it is written as a whole.",
        between(0, 500),
    )
    share_coordinator_state_topic_compression_codec: int = setting(
        0, Kind.INT, "Codec of a share coordinator's records: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.", between(0, 4)
    )
    share_coordinator_state_topic_min_isr: int = setting(
        2, Kind.SHORT, "min.insync.replicas of __share_group_state; all its replicas, if there are fewer.", at_least(1)
    )
    share_coordinator_state_topic_num_partitions: int = setting(
        50, Kind.INT, "Partitions of __share_group_state when it is created.", at_least(1)
    )
    share_coordinator_state_topic_prune_interval_ms: int = setting(
        300_000,
        Kind.INT,
        "Milliseconds between two times that records which are not needed go from __share_group_state.",
        at_least(1),
    )
    share_coordinator_state_topic_replication_factor: int = setting(
        3, Kind.SHORT, "Replicas of __share_group_state; all brokers, if there are fewer.", at_least(1)
    )
    share_coordinator_state_topic_segment_bytes: int = setting(
        104_857_600, Kind.INT, "Largest size of a segment of __share_group_state.", at_least(1)
    )
    share_coordinator_write_timeout_ms: int = setting(
        5_000,
        Kind.INT,
        "Milliseconds that a share coordinator waits until its record is on all in-sync replicas.",
        at_least(1),
    )
