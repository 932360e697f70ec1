"""A partition as its fetcher sees it: what was asked for it last, and whether it may be asked for now."""

from typing import Final

from esp.broker.replicas.hosted_partition import HostedPartition
from esp.broker.replicas.replication_throttle import ReplicationThrottle, Share
from esp.broker.replicas.throttles import DirectionThrottles
from esp.model.ids import NodeId
from esp.ports.clock import Timer
from esp.replication.partition_follower import PartitionFollower

FIRST_BACKOFF_MS: Final = 20
"""The shortest pause after an error: enough for a leader to take over metadata that this node has already."""


class FollowedPartition:
    """What a :class:`~esp.broker.replicas.fetcher.ReplicaFetcher` remembers of one partition.

    ``asked`` is the position with which it was named last, in the request with the number ``sent_in``; ``is_held``: no request may name it
    now; ``timer``: ends the pause after an error, which takes ``backoff_ms`` the next time. ``is_behind``: the leader's last answer had
    more committed than is here, or there was none; ``share``: of the throttle, None while the partition is not throttled.
    """

    __slots__ = ("asked", "backoff_ms", "follower", "hosted", "is_behind", "is_held", "sent_in", "share", "timer")

    def __init__(self, hosted: HostedPartition, follower: PartitionFollower) -> None:
        self.hosted = hosted
        self.follower = follower
        self.asked = follower.position
        self.sent_in = 0
        self.is_held = False
        self.backoff_ms = FIRST_BACKOFF_MS
        self.timer: Timer | None = None
        self.is_behind = True
        self.share: Share | None = None

    def find_throttle(self, node_id: NodeId, throttles: DirectionThrottles) -> ReplicationThrottle | None:
        """What throttles the partition on this node: where there is a rate, it is named, and not in sync (THROTTLE-1, REPAIR-4).

        One that has all that is committed counts as in sync, as it is about to be.
        """
        state = self.follower.state
        if not self.is_behind or node_id in state.isr:
            return None
        listed = self.hosted.log.settings.follower_replication_throttled_replicas
        return throttles.find(self.hosted, state, listed, node_id, node_id)
