"""Internal topics grow with their cluster: a partition that was made when brokers were few gets replicas on those that came since.

Kafka refuses to make such a topic, or leaves it as it is. A new replica is assigned at once, and joins the in-sync set when it has caught
up, as any replica that was away: nothing but its own fetches is needed to end the change. Meanwhile ``min.insync.replicas`` counts it: a
partition of one replica may take no records for the moments until the second is in sync.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from esp.controller.decision import BATCH_RECORDS_MAX, Decision
from esp.controller.image import BrokerImage, ClusterImage, TopicImage
from esp.model.ids import UNASSIGNED_DIRECTORY, DirectoryId, NodeId
from esp.model.partition import PartitionState
from esp.schemas.metadata_records import PartitionChangeRecord


def decide_internal_replication(image: ClusterImage, wanted: Mapping[str, int]) -> Decision[int]:
    """Give internal topics the replicas that are wanted, as far as there are brokers; the reply is the number of changed partitions.

    Args:
        image: the newest state.
        wanted: replication factors by name of the topic; those that are not there are passed over.
    """
    serving = {broker.node_id: broker for broker in image.brokers.values() if broker.is_active}
    records = [
        record
        for name, factor in wanted.items()
        if (topic := image.topics_by_name.get(name)) is not None
        for record in _grow(topic, min(factor, len(serving)), serving)
    ][:BATCH_RECORDS_MAX]
    return Decision(tuple(records), len(records))


def _grow(topic: TopicImage, factor: int, serving: Mapping[NodeId, BrokerImage]) -> Iterator[PartitionChangeRecord]:
    """Changes of the partitions that have fewer replicas; each broker gets as many replicas, and is preferred as often, as the others."""
    if all(len(partition.replicas) >= factor for partition in topic.partitions):
        return
    held = Counter(node for partition in topic.partitions for node in partition.replicas)
    preferred = Counter(partition.replicas[0] for partition in topic.partitions if len(partition.replicas) >= factor)
    for partition in topic.partitions:
        if len(partition.replicas) >= factor:
            continue
        replicas = list(partition.replicas)
        racks = Counter(serving[node].rack for node in replicas if node in serving)
        while len(replicas) < factor:
            node = min(
                (broker for broker in serving if broker not in replicas),
                key=lambda broker: (racks[serving[broker].rack], held[broker], broker),
            )
            replicas.append(node)
            held[node] += 1
            racks[serving[node].rack] += 1
        first = min(replicas, key=lambda node: preferred[node])
        preferred[first] += 1
        replicas.sort(key=lambda node: node != first)
        yield PartitionChangeRecord(
            partition_id=partition.partition,
            topic_id=partition.topic_id,
            replicas=tuple(replicas),
            directories=tuple(_directory(partition, node, serving) for node in replicas),
        )


def _directory(partition: PartitionState, node: NodeId, serving: Mapping[NodeId, BrokerImage]) -> DirectoryId:
    """Where a replica is; a new one is in its broker's only directory, or where the broker will say (KIP-858)."""
    if node in partition.replicas:
        if not partition.directories:
            return UNASSIGNED_DIRECTORY
        return partition.directories[partition.replicas.index(node)]
    log_dirs = serving[node].log_dirs
    return log_dirs[0] if len(log_dirs) == 1 else UNASSIGNED_DIRECTORY
