"""The throttles of a node: what it sends as a leader, fetches as a follower (KIP-73), and moves between its directories (KIP-113)."""

from esp.broker.replication_throttle import ReplicationThrottle
from esp.model.broker_settings import BrokerSettings
from esp.ports.clock import Clock

_US_PER_S = 1_000_000


class ReplicaThrottles:
    """All of them, each one quota for the whole node.

    Args:
        clock: of the node.
        settings: the node's own.
    """

    def __init__(self, clock: Clock, settings: BrokerSettings) -> None:
        window_us = settings.replication_quota_window_num * settings.replication_quota_window_size_seconds * _US_PER_S
        self.leader = ReplicationThrottle(clock, window_us)
        """``leader.replication.throttled.rate``, for the topics' ``leader.replication.throttled.replicas``."""
        self.follower = ReplicationThrottle(clock, window_us)
        """``follower.replication.throttled.rate``, for the topics' ``follower.replication.throttled.replicas``."""

        self.moves = ReplicationThrottle(
            clock,
            settings.alter_log_dirs_replication_quota_window_num
            * settings.alter_log_dirs_replication_quota_window_size_seconds
            * _US_PER_S,
        )
        """``replica.alter.log.dirs.io.max.bytes.per.second``, for all moves from one data directory to another."""

    def on_settings(self, settings: BrokerSettings) -> None:
        """The settings of the node, or of topics, may be others now: whoever waits looks again whether it has to."""
        self.leader.update(settings.leader_replication_throttled_rate)
        self.follower.update(settings.follower_replication_throttled_rate)
        self.moves.update(settings.replica_alter_log_dirs_io_max_bytes_per_second)
        self.leader.call_all()
        self.follower.call_all()
