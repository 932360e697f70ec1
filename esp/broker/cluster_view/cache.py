"""The cluster as clients see it: the last image whose changes this node has applied.

The image is replaced as a whole, after the replicas here follow it, so that no client is sent to a partition that is not open yet.
"""

import asyncio
import uuid
from collections.abc import Callable

from esp.controller.image import CLUSTER_DEFAULT, EMPTY_IMAGE, ClusterImage
from esp.model.errors import ErrorCode
from esp.model.ids import INTERNAL_TOPICS, NO_NODE, UNASSIGNED_DIRECTORY, DirectoryId, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.ports.network import Address


class MetadataCache:
    """Answers questions about topics and brokers from the newest applied image.

    Args:
        cluster_id: as it stands in ``meta.properties``.
        node_id: this broker.
    """

    def __init__(self, cluster_id: str, node_id: NodeId) -> None:
        self.cluster_id = cluster_id
        self._node_id = node_id
        self.image = EMPTY_IMAGE
        self.alive: frozenset[NodeId] = frozenset()
        """Brokers that serve: registered and not fenced (BRK-8)."""
        self.fenced: frozenset[NodeId] = frozenset()
        self._awaited: list[tuple[Callable[[ClusterImage], bool], asyncio.Future[None]]] = []
        self._late_offset: int | None = None
        """The offset of the last image whose successor was reported late."""

    def publish(self, image: ClusterImage) -> None:
        """Tell clients of a newer image from now on."""
        assert image.offset >= self.image.offset
        self.image = image
        self.alive = frozenset(node for node, broker in image.brokers.items() if not broker.fenced)
        self.fenced = frozenset(image.brokers) - self.alive
        waiting = []
        for condition, future in self._awaited:
            if future.done():
                continue
            if condition(image):
                future.set_result(None)
            else:
                waiting.append((condition, future))
        self._awaited = waiting

    async def until(self, condition: Callable[[ClusterImage], bool]) -> None:
        """Return once clients see an image for which ``condition`` holds."""
        if not condition(self.image):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._awaited.append((condition, future))
            await future

    def dynamic_setting(self, name: str) -> str | None:
        """The text of a setting that this broker was given in the metadata, or all brokers were."""
        configs = self.image.broker_configs
        own = configs.get(str(self._node_id), {}).get(name)
        return configs.get(CLUSTER_DEFAULT, {}).get(name) if own is None else own

    def begin_complaint(self) -> bool:
        """True if the lateness of the next image has not been reported yet: one cause, however many clients wait for it."""
        is_first = self._late_offset != self.image.offset
        self._late_offset = self.image.offset
        return is_first

    @property
    def controller_id(self) -> NodeId:
        """A broker that clients may send controller requests to: any one that serves.

        It is this one, which has just shown that it is alive: a client that is told of one that has died meanwhile waits for it.
        """
        return self._node_id if self._node_id in self.alive else min(self.alive, default=NO_NODE)

    def endpoints(
        self, listener: str, *, with_fenced: bool = False, also: frozenset[NodeId] = frozenset()
    ) -> list[tuple[NodeId, Address]]:
        """Brokers with their address on the listener that the asking client uses, by id.

        Args:
            listener: its name.
            with_fenced: include all brokers that do not serve.
            also: brokers that do not serve and are included nevertheless, if they are registered.
        """
        nodes = self.alive | (self.fenced if with_fenced else self.fenced & also)
        return [
            (node, self.image.brokers[node].endpoints[listener])
            for node in sorted(nodes)
            if listener in self.image.brokers[node].endpoints
        ]

    def leader(self, partition: PartitionState) -> NodeId:
        """The leader that clients see: -1 while there is none that serves."""
        return partition.leader if partition.leader in self.alive else NO_NODE

    def offline_replicas(self, partition: PartitionState) -> tuple[NodeId, ...]:
        """Replicas on brokers that do not serve, or in log directories that have failed (KIP-858)."""
        directories = partition.directories or (UNASSIGNED_DIRECTORY,) * len(partition.replicas)
        return tuple(
            node
            for node, directory in zip(partition.replicas, directories, strict=True)
            if node not in self.alive or self._is_offline(node, directory)
        )

    def _is_offline(self, node: NodeId, directory: DirectoryId) -> bool:
        known = self.image.brokers[node].log_dirs
        return directory != UNASSIGNED_DIRECTORY and bool(known) and directory not in known

    def rack(self, node: NodeId) -> str | None:
        """``broker.rack`` of a registered broker."""
        return self.image.brokers[node].rack

    def has_partition(self, topic: str, partition: int) -> bool:
        """True if there is a partition of that name."""
        found = self.image.topics_by_name.get(topic)
        return found is not None and 0 <= partition < len(found.partitions)

    def is_internal(self, topic: str) -> bool:
        """True if the topic is one of the cluster's internal topics."""
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
