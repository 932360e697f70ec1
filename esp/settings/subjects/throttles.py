"""A node's settings for throttles: quotas of clients, of replication, and of moves between log directories."""

from dataclasses import dataclass

from esp.settings.setting import LONG_MAX, Kind, at_least, setting


@dataclass(frozen=True, init=False, repr=False, eq=False)
class ThrottleSettings:
    """Fields of :class:`~esp.settings.broker.BrokerSettings`."""

    __slots__ = ()

    replication_quota_window_num: int = setting(
        11,
        Kind.INT,
        "Windows of the replication throttles; this many windows are the longest time for which a throttled fetch delays the next one.",
        at_least(1),
    )
    replication_quota_window_size_seconds: int = setting(
        1, Kind.INT, "Seconds of one window of the replication throttles.", at_least(1)
    )
    quota_window_num: int = setting(
        11, Kind.INT, "Windows over which the rates of clients are taken that have quotas.", at_least(1)
    )
    quota_window_size_seconds: int = setting(1, Kind.INT, "Seconds of one window of clients' quotas.", at_least(1))
    controller_quota_window_num: int = setting(
        11, Kind.INT, "Windows of the quota of changes to partitions: what may be saved up for a burst.", at_least(1)
    )
    controller_quota_window_size_seconds: int = setting(
        1, Kind.INT, "Seconds of one window of the quota of changes to partitions.", at_least(1)
    )
    leader_replication_throttled_rate: int = LONG_MAX
    follower_replication_throttled_rate: int = LONG_MAX
    alter_log_dirs_replication_quota_window_num: int = setting(
        11, Kind.INT, "Windows of the throttle of moves between log directories.", at_least(1)
    )
    alter_log_dirs_replication_quota_window_size_seconds: int = setting(
        1, Kind.INT, "Seconds of one window of the throttle of moves between log directories.", at_least(1)
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = LONG_MAX
