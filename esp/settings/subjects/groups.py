"""A node's settings for consumer groups and committed offsets."""

from dataclasses import dataclass

from esp.settings.setting import INT_MAX, Kind, at_least, between, one_of, setting


@dataclass(frozen=True, init=False, repr=False, eq=False)
class GroupSettings:
    """Fields of :class:`~esp.settings.broker.BrokerSettings`."""

    __slots__ = ()

    group_initial_rebalance_delay_ms: int = setting(
        3_000,
        Kind.INT,
        "Milliseconds that an empty consumer group waits for more members before its first rebalance.",
    )
    group_max_session_timeout_ms: int = setting(
        1_800_000, Kind.INT, "Longest session timeout that a member may ask for, in ms."
    )
    group_min_session_timeout_ms: int = setting(
        6_000, Kind.INT, "Shortest session timeout that a member may ask for, in ms."
    )
    group_max_size: int = setting(INT_MAX, Kind.INT, "Members that a consumer group accepts.", at_least(1))
    group_consumer_session_timeout_ms: int = setting(
        45_000,
        Kind.INT,
        "Longest silence of a member of a consumer group that speaks the consumer protocol, in ms.",
        at_least(1),
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        5_000, Kind.INT, "Milliseconds between the heartbeats of such members.", at_least(1)
    )
    group_consumer_max_size: int = setting(
        INT_MAX, Kind.INT, "Members that a consumer group of the consumer protocol accepts.", at_least(1)
    )
    group_consumer_assignors: tuple[str, ...] = setting(
        ("uniform", "range"),
        Kind.LIST,
        "Assignors that members of the consumer protocol may ask for; the first is taken where none asks.",
        one_of("uniform", "range"),
    )
    group_consumer_assignment_interval_ms: int = setting(
        1_000,
        Kind.INT,
        "Least time between two assignments of one group of the consumer protocol, in ms.",
        between(0, 15_000),
    )
    group_consumer_migration_policy: str = setting(
        "bidirectional",
        Kind.STRING,
        "Whether a group with members moves between the protocols: bidirectional, upgrade (to the consumer protocol), downgrade, disabled.",
        one_of("disabled", "downgrade", "upgrade", "bidirectional"),
    )
    offset_metadata_max_bytes: int = setting(4_096, Kind.INT, "Longest text that may be committed with an offset.")
    offsets_commit_timeout_ms: int = setting(
        5_000, Kind.INT, "Milliseconds that a commit waits for the replicas of __consumer_offsets.", at_least(1)
    )
    offsets_retention_check_interval_ms: int = setting(
        600_000, Kind.LONG, "Milliseconds between two checks for expired committed offsets.", at_least(1)
    )
    offsets_retention_exempt_groups: tuple[str, ...] = setting(
        ("esp-capture.*", "esp-sink.*"),
        Kind.LIST,
        "Groups whose committed offsets never expire: ids, in which * stands for any characters. Not Kafka's.",
    )
    offsets_retention_minutes: int = setting(
        10_080,
        Kind.INT,
        "Minutes after which committed offsets expire if no member of their group needs them.",
        at_least(1),
    )
    offsets_topic_compression_codec: int = setting(
        0, Kind.INT, "Codec of a group coordinator's records: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.", between(0, 4)
    )
    offsets_topic_num_partitions: int = setting(
        50, Kind.INT, "Partitions of __consumer_offsets when it is created.", at_least(1)
    )
    offsets_topic_replication_factor: int = setting(
        3,
        Kind.SHORT,
        "Replicas of __consumer_offsets; all brokers, if there are fewer.",
        at_least(1),
    )
    offsets_topic_segment_bytes: int = setting(
        104_857_600, Kind.INT, "Largest size of a segment of __consumer_offsets.", at_least(1)
    )
