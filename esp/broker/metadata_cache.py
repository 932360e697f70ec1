"""The cluster as clients are told of it: the last image whose changes this node has taken.

The image is replaced as a whole, after the replicas here follow it, so that nobody is sent to a partition that is not open yet.
"""

import uuid
from typing import Final

from esp.controller.image import EMPTY_IMAGE, ClusterImage
from esp.model.errors import ErrorCode
from esp.model.ids import NO_NODE, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.ports.network import Address

INTERNAL_TOPICS: Final = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))


class MetadataCache:
    """Answers questions about topics and brokers from the newest applied image.

    Args:
        cluster_id: as it stands in ``meta.properties``.
    """

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.image = EMPTY_IMAGE
        self.alive: frozenset[NodeId] = frozenset()
        """Brokers that serve: registered and not fenced (BRK-8)."""
        self.fenced: frozenset[NodeId] = frozenset()

    def publish(self, image: ClusterImage) -> None:
        """Tell clients of a newer image from now on."""
        assert image.offset >= self.image.offset
        self.image = image
        self.alive = frozenset(node for node, broker in image.brokers.items() if not broker.fenced)
        self.fenced = frozenset(image.brokers) - self.alive

    @property
    def controller_id(self) -> NodeId:
        """A broker that clients may send controller requests to: any one that serves, the lowest here."""
        return min(self.alive, default=NodeId(-1))

    def endpoints(self, listener: str, *, with_fenced: bool = False) -> list[tuple[NodeId, Address]]:
        """Brokers with their address on the listener that the asking client uses, by id."""
        nodes = self.alive | self.fenced if with_fenced else self.alive
        return [
            (node, self.image.brokers[node].endpoints[listener])
            for node in sorted(nodes)
            if listener in self.image.brokers[node].endpoints
        ]

    def leader(self, partition: PartitionState) -> NodeId:
        """The leader that clients are told of: -1 while there is none that serves."""
        return partition.leader if partition.leader in self.alive else NO_NODE

    def offline_replicas(self, partition: PartitionState) -> tuple[NodeId, ...]:
        """Replicas on brokers that do not serve."""
        return tuple(node for node in partition.replicas if node not in self.alive)

    def rack(self, node: NodeId) -> str | None:
        """``broker.rack`` of a registered broker."""
        return self.image.brokers[node].rack

    def is_internal(self, topic: str) -> bool:
        """Whether a topic is the cluster's own."""
        return topic in INTERNAL_TOPICS

    def why_not_here(self, topic: str | bytes, partition: int) -> ErrorCode:
        """The error for a request about a partition that has no replica here, its topic named or given by the bytes of its id."""
        if isinstance(topic, str):
            found = self.image.topics_by_name.get(topic)
            unknown = ErrorCode.unknown_topic_or_partition
        else:
            found = self.image.topics_by_id.get(TopicId(uuid.UUID(bytes=topic)))
            unknown = ErrorCode.unknown_topic_id
        if found is None:
            return unknown
        if not 0 <= partition < len(found.partitions):
            return ErrorCode.unknown_topic_or_partition
        return ErrorCode.not_leader_or_follower
