"""The replicas of new partitions: given by the request and checked, or placed; and the record of a partition that has them.

Codes and texts are those of Kafka 4.3's ``ReplicationControlManager``.
"""

from collections.abc import Sequence

from esp.controller.draining import is_draining
from esp.controller.image import ClusterImage
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import UNASSIGNED_DIRECTORY, DirectoryId, LeaderEpoch, NodeId, TopicId
from esp.model.offset_floor import NO_FLOOR, PartitionFloor
from esp.placement.striped import PlacementBroker, PlacementError, place_replicas
from esp.ports.random import Random
from esp.schemas.metadata_records import PartitionRecord


def check_assignment(image: ClusterImage, partition: int, replicas: Sequence[NodeId], replication_factor: int) -> None:
    """Raise unless a partition may have just these replicas.

    Args:
        image: the newest state.
        partition: its number.
        replicas: the leader first.
        replication_factor: how many the topic's other partitions have.

    Raises:
        ApiError: INVALID_REPLICA_ASSIGNMENT.
    """
    check_replicas(image, replicas)
    if len(replicas) != replication_factor:
        raise invalid_assignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s)."
        )
    if not any(_is_active(image, broker) for broker in replicas):
        raise invalid_assignment(
            f"All brokers specified in the manual partition assignment for partition {partition} are fenced or in "
            "controlled shutdown."
        )


def check_replicas(image: ClusterImage, replicas: Sequence[NodeId]) -> None:
    """Raise unless these can be the replicas of a partition: at least one, all registered, each named once.

    Raises:
        ApiError: INVALID_REPLICA_ASSIGNMENT.
    """
    if not replicas:
        raise invalid_assignment("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker in sorted(replicas):
        if broker not in image.brokers:
            raise invalid_assignment(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered."
            )
        if broker == previous:
            raise invalid_assignment(f"The manual partition assignment includes the broker {broker} more than once.")
        previous = broker


def invalid_assignment(problem: str) -> ApiError:
    """INVALID_REPLICA_ASSIGNMENT, to be raised."""
    return ApiError(ErrorCode.invalid_replica_assignment, problem)


def place_partitions(
    image: ClusterImage, count: int, replication_factor: int, random: Random
) -> list[tuple[NodeId, ...]]:
    """The replicas of each of ``count`` new partitions, each with one at least that may lead.

    Brokers that are to be emptied get none, as long as enough others serve.

    Raises:
        PlacementError: there is no such place; the text is Kafka's.
    """
    brokers = [
        PlacementBroker(broker.node_id, broker.rack, broker.fenced)
        for broker in image.brokers.values()
        if not broker.in_controlled_shutdown
    ]
    staying = [broker for broker in brokers if not is_draining(image, broker.node_id)]
    if sum(not broker.fenced for broker in staying) >= replication_factor:
        brokers = staying
    replicas = place_replicas(brokers, partitions=count, replication_factor=replication_factor, random=random)
    assert len(replicas) == count, "each new partition is placed"
    assert all(len(set(placed)) == len(placed) == replication_factor for placed in replicas), "one copy on a broker"
    if not all(any(_is_active(image, broker) for broker in placed) for placed in replicas):
        raise PlacementError("All brokers are currently fenced or in controlled shutdown.")
    return replicas


def new_partition_record(
    image: ClusterImage,
    topic_id: TopicId,
    partition: int,
    replicas: tuple[NodeId, ...],
    floor: PartitionFloor = NO_FLOOR,
) -> PartitionRecord:
    """The record by which a partition begins: its active replicas are in sync, and the first of them leads.

    Args:
        image: the newest state.
        topic_id: of its topic.
        partition: its number.
        replicas: the brokers that shall have it, leader first.
        floor: where its offsets and epochs begin (FLOOR-2).
    """
    isr = tuple(broker for broker in replicas if _is_active(image, broker))
    assert isr, "a partition begins with a leader"
    assert len(set(replicas)) == len(replicas), "one copy on a broker"
    return PartitionRecord(
        partition_id=partition,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        removing_replicas=(),
        adding_replicas=(),
        leader=isr[0],
        leader_epoch=LeaderEpoch(floor.next_epoch),
        partition_epoch=0,
        directories=tuple(default_directory(image, broker) for broker in replicas),
        start_offset=floor.offset,
    )


def default_directory(image: ClusterImage, node_id: NodeId) -> DirectoryId:
    """The directory of a broker's new replica: its only one; a broker with several chooses for itself (KIP-858)."""
    log_dirs = image.brokers[node_id].log_dirs
    return log_dirs[0] if len(log_dirs) == 1 else UNASSIGNED_DIRECTORY


def _is_active(image: ClusterImage, node_id: NodeId) -> bool:
    return image.brokers[node_id].is_active
