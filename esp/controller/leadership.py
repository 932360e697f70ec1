"""Changes of all partitions that the coming or going of one broker causes."""

from collections.abc import Iterator

from esp.controller.image import ClusterImage, TopicImage
from esp.controller.partition_change import is_online, plan_partition_change
from esp.model.ids import NO_NODE, NodeId
from esp.model.partition import PartitionState
from esp.schemas.metadata_records import PartitionChangeRecord


def plan_broker_gone(image: ClusterImage, gone: NodeId, *, unclean: bool) -> Iterator[PartitionChangeRecord]:
    """Take a broker out of all in-sync sets, and after an unclean shutdown out of the eligible ones, and elect others where it led."""
    for topic, partition in image.partitions():
        if gone in partition.isr or (unclean and gone in partition.elr):
            isr = tuple(node for node in partition.isr if node != gone)
            yield from _change(image, topic, partition, isr, gone=gone, unclean_shutdown=gone if unclean else None)


def plan_leaderless(image: ClusterImage, back: NodeId) -> Iterator[PartitionChangeRecord]:
    """Elect leaders for partitions without one, now that a broker is back."""
    for topic, partition in image.partitions():
        if partition.leader == NO_NODE:
            yield from _change(image, topic, partition, partition.isr, back=back)


def _change(
    image: ClusterImage,
    topic: TopicImage,
    partition: PartitionState,
    target_isr: tuple[NodeId, ...],
    *,
    gone: NodeId = NO_NODE,
    back: NodeId = NO_NODE,
    unclean_shutdown: NodeId | None = None,
) -> Iterator[PartitionChangeRecord]:
    """The change of one partition, if there is one, with ``gone`` counted as inactive and ``back`` as active."""

    def is_acceptable(node: NodeId) -> bool:
        broker = image.brokers.get(node)
        if node == gone or broker is None:
            return False
        return (node == back or broker.is_active) and is_online(partition, broker)

    change = plan_partition_change(
        partition,
        target_isr=target_isr,
        is_acceptable=is_acceptable,
        min_insync_replicas=image.min_insync_replicas(topic, len(partition.replicas)),
        unclean_shutdown=unclean_shutdown,
    )
    if change is not None:
        yield change
