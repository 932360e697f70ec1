"""The cluster as the planner sees it, made of what the metadata log says.

The log says nothing of sizes and disks. So all partitions count alike here, and what a plan evens out are numbers of replicas and leaders.
"""

from collections.abc import Collection, Iterable

from esp.controller.draining import is_draining
from esp.controller.image import ClusterImage
from esp.model.ids import NO_NODE, NodeId, TopicPartition
from esp.placement.cluster_view import BrokerView, ClusterView, PartitionView


def view_of(
    image: ClusterImage,
    cluster_id: str,
    unregistered: Iterable[NodeId],
    strays: Collection[TopicPartition] = (),
) -> ClusterView:
    """All brokers and partitions; a partition that is being reassigned counts for the brokers that it shall be on.

    Args:
        image: the newest state.
        cluster_id: its name.
        unregistered: brokers that replicas are assigned to though nobody knows them.
        strays: partitions in reassignment that may be moved all the same (REPAIR-5).
    """
    brokers = [
        BrokerView(
            broker_id=broker.node_id,
            rack=broker.rack,
            is_alive=broker.is_active,
            is_draining=is_draining(image, broker.node_id),
            disk_capacity_bytes=None,
            disk_used_bytes=0,
        )
        for broker in image.brokers.values()
    ]
    brokers += [BrokerView(node, None, False, False, None, 0) for node in unregistered]
    partitions = tuple(
        PartitionView(
            topic=topic.name,
            partition=state.partition,
            replicas=state.target_replicas,
            leader=None if state.leader == NO_NODE else state.leader,
            isr=state.isr,
            size_bytes=0,
            min_in_sync_replicas=image.min_insync_replicas(topic, len(state.target_replicas)),
            is_reassigning=state.is_reassigning and TopicPartition(topic.name, state.partition) not in strays,
        )
        for topic, state in image.partitions()
    )
    return ClusterView(cluster_id, tuple(brokers), partitions)
