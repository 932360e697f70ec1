"""The throttles of a node: what it sends as a leader, fetches as a follower (KIP-73), and moves between its directories (KIP-113)."""

from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.replication_throttle import ReplicationThrottle
from esp.model.ids import NodeId
from esp.model.partition import PartitionState
from esp.ports.clock import Clock
from esp.settings.broker import BrokerSettings
from esp.settings.throttled_replicas import ThrottledReplicas

_US_PER_S = 1_000_000


class DirectionThrottles:
    """The throttles of what a node sends, or of what it fetches, for replicas that are being built.

    A replica goes by one of them only: what an operator says of it counts instead of the budget of self-repair (REPAIR-4).

    Args:
        clock: the node's clock.
        window_us: the quota window.
    """

    __slots__ = ("is_active", "listed", "repair")

    def __init__(self, clock: Clock, window_us: int) -> None:
        self.listed = ReplicationThrottle(clock, window_us)
        """An operator's, for replicas that topics list."""
        self.repair = ReplicationThrottle(clock, window_us)
        """``rebalance.bytes.per.second.max``, for replicas that self-repair adds."""
        self.is_active = False
        """True if one of them has a rate; while none has, no caller needs to ask for more."""

    def update(self, listed_rate: int, repair_rate: int, *, repairs: bool) -> None:
        """Use other rates from now on: each waiting partition checks again if it has to wait.

        The budget of self-repair lasts across rounds of moves; otherwise each round would begin with the debt of the last one forgiven.
        """
        self.listed.update(listed_rate)
        self.repair.update(repair_rate)
        self.is_active = self.listed.is_active or (repairs and self.repair.is_active)
        self.listed.call_all()
        self.repair.call_all()

    def find(
        self,
        hosted: HostedPartition,
        state: PartitionState,
        listed: ThrottledReplicas,
        listed_node: NodeId,
        follower: NodeId,
    ) -> ReplicationThrottle | None:
        """The throttle for the copy of a partition that is not in sync; None if none applies.

        Args:
            hosted: the replica here.
            state: the partition's state, as it counts here.
            listed: the replicas that an operator has throttled in the role that this node has.
            listed_node: the node that has to be among them: this node.
            follower: the follower that gets the copy.
        """
        number = hosted.name.partition
        if self.listed.is_active and listed.covers(number, listed_node):
            return self.listed
        if (
            self.repair.is_active
            and follower in state.adding_replicas
            and hosted.log.settings.rebalance_throttled_replicas.covers(number, follower)
        ):
            return self.repair
        return None


class ReplicaThrottles:
    """The throttles of replication, each one quota for the whole node.

    Args:
        clock: the node's clock.
        settings: the node's own.
    """

    def __init__(self, clock: Clock, settings: BrokerSettings) -> None:
        window_us = settings.replication_quota_window_num * settings.replication_quota_window_size_seconds * _US_PER_S
        self.leader = DirectionThrottles(clock, window_us)
        """``leader.replication.throttled.rate``, for the topics' ``leader.replication.throttled.replicas``; and self-repair's."""
        self.follower = DirectionThrottles(clock, window_us)
        """``follower.replication.throttled.rate``, for the topics' ``follower.replication.throttled.replicas``; and self-repair's."""
        self.moves = ReplicationThrottle(
            clock,
            settings.alter_log_dirs_replication_quota_window_num
            * settings.alter_log_dirs_replication_quota_window_size_seconds
            * _US_PER_S,
        )
        """``replica.alter.log.dirs.io.max.bytes.per.second``, for all moves from one data directory to another."""

    def on_settings(self, settings: BrokerSettings, *, repairs: bool) -> None:
        """The settings of the node, or of topics, may be others now.

        Args:
            settings: the node's settings.
            repairs: whether self-repair is building replicas anywhere.
        """
        repair_rate = settings.rebalance_bytes_per_second_max
        self.leader.update(settings.leader_replication_throttled_rate, repair_rate, repairs=repairs)
        self.follower.update(settings.follower_replication_throttled_rate, repair_rate, repairs=repairs)
        self.moves.update(settings.replica_alter_log_dirs_io_max_bytes_per_second)
