"""A partition as a follower's session at the leader sees it: what was asked last, and what the follower was told."""

from esp.broker.replicas.hosted_partition import HostedPartition
from esp.broker.replicas.replication_throttle import Share
from esp.protocol.fetch_codec import FetchPartition


class SessionPartition:
    """What a :class:`~esp.broker.replicas.session.ReplicaSession` remembers of one partition.

    ``stated``: the request that named it last has not been looked at yet. ``open``: it may be answered with records.
    ``told``: high watermark and log start of the last answer. ``share``: of the throttle, None while the partition is not throttled.
    """

    __slots__ = ("hosted", "open", "share", "stated", "told", "wanted")

    def __init__(self, wanted: FetchPartition) -> None:
        self.wanted = wanted
        self.hosted: HostedPartition | None = None
        self.stated = True
        self.open = True
        self.told: tuple[int, int] | None = None
        self.share: Share | None = None
