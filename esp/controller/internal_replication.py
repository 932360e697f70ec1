"""Internal topics grow with their cluster: a partition that was made when brokers were few gets replicas on the brokers that came since.

Kafka refuses to make such a topic, or leaves it as it is. A new replica is assigned at once, and joins the in-sync set when it has caught
up, as any replica that was away: nothing but its own fetches is needed to end the change. Meanwhile ``min.insync.replicas`` counts it: a
partition of one replica may take no records for the moments until the second is in sync.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from esp.controller.assignment import default_directory
from esp.controller.decision import BATCH_RECORDS_MAX, Decision
from esp.controller.image import ClusterImage, TopicImage
from esp.model.ids import UNASSIGNED_DIRECTORY
from esp.schemas.metadata_records import PartitionChangeRecord


def decide_internal_replication(image: ClusterImage, wanted: Mapping[str, int]) -> Decision[int]:
    """Give internal topics their wanted replicas, as far as there are brokers; the reply is the number of changed partitions.

    Args:
        image: the newest state.
        wanted: replication factors by name of the topic; topics that are not there are passed over.
    """
    serving = [broker for broker in image.brokers.values() if broker.is_active]
    records = [
        record
        for name, factor in wanted.items()
        if (topic := image.topics_by_name.get(name)) is not None
        for record in _grow(image, topic, min(factor, len(serving)))
    ][:BATCH_RECORDS_MAX]
    return Decision(tuple(records), len(records))


def _grow(image: ClusterImage, topic: TopicImage, factor: int) -> Iterator[PartitionChangeRecord]:
    """Changes of the partitions that have fewer replicas; each broker gets as many replicas, and is preferred as often, as the others.

    Partitions that are being reassigned are left alone: an administrator, or self-repair, is changing them.
    """
    serving = {broker.node_id: broker for broker in image.brokers.values() if broker.is_active}
    if all(len(partition.replicas) >= factor for partition in topic.partitions):
        return
    held = Counter(node for partition in topic.partitions for node in partition.replicas)
    preferred = Counter(partition.replicas[0] for partition in topic.partitions if len(partition.replicas) >= factor)
    for partition in topic.partitions:
        if len(partition.replicas) >= factor or partition.is_reassigning:
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
        assert len(set(replicas)) == len(replicas), "one copy on a broker"
        first = min(replicas, key=lambda node: preferred[node])
        preferred[first] += 1
        replicas.sort(key=lambda node: node != first)
        known = dict(zip(partition.replicas, partition.directories, strict=False))
        yield PartitionChangeRecord(
            partition_id=partition.partition,
            topic_id=partition.topic_id,
            replicas=tuple(replicas),
            directories=tuple(
                known.get(node, UNASSIGNED_DIRECTORY) if node in partition.replicas else default_directory(image, node)
                for node in replicas
            ),
        )
