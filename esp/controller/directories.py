"""A broker says in which of its directories it has put replicas: AssignReplicasToDirs (KIP-858)."""

from collections.abc import Sequence
from dataclasses import replace

from esp.controller.brokers import require_broker_epoch
from esp.controller.decision import Decision
from esp.controller.image import ClusterImage
from esp.controller.leadership import acceptable_leaders, automatic_election
from esp.controller.partition_change import apply_partition_change, plan_partition_change
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import LOST_DIRECTORY, BrokerEpoch, DirectoryId, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.schemas.metadata_records import MetadataRecord


def decide_assign_directories(
    image: ClusterImage,
    node_id: NodeId,
    broker_epoch: BrokerEpoch,
    wanted: Sequence[tuple[DirectoryId, TopicId, int]],
    *,
    unclean_elections: bool = False,
) -> Decision[list[ApiError | None]]:
    """Write down where a broker's replicas are; the reply has one entry for each, in that order: None, or a refusal.

    A replica in a directory that the broker has not, or has lost, leaves the in-sync set, and leadership with it. One that is said to be
    lost itself (it has rotted, REC-4) is eligible no more, either; but the only one in sync stays what it is: what is left of it is needed.

    Args:
        image: the newest state, committed or not.
        node_id: the broker.
        broker_epoch: of the broker.
        wanted: directory, topic and partition.
        unclean_elections: the node's own ``unclean.leader.election.enable``.

    Raises:
        ApiError: STALE_BROKER_EPOCH, for all of it.
    """
    broker = require_broker_epoch(image, node_id, broker_epoch)
    records: list[MetadataRecord] = []
    reply: list[ApiError | None] = []
    changed: dict[tuple[TopicId, int], PartitionState] = {}
    for directory, topic_id, number in wanted:
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            reply.append(ApiError(ErrorCode.unknown_topic_id))
            continue
        if not 0 <= number < len(topic.partitions):
            reply.append(ApiError(ErrorCode.unknown_topic_or_partition))
            continue
        state = changed.get((topic_id, number), topic.partitions[number])
        if node_id not in state.replicas:
            reply.append(ApiError(ErrorCode.not_leader_or_follower))
            continue
        placed = tuple(
            directory if replica == node_id else other
            for replica, other in zip(state.replicas, state.directories, strict=True)
        )
        is_online, is_lost = directory in broker.log_dirs, directory == LOST_DIRECTORY
        others = tuple(node for node in state.isr if node != node_id)
        if is_lost and not others:
            reply.append(None)
            continue
        record = plan_partition_change(
            state,
            is_acceptable=acceptable_leaders(image, replace(state, directories=placed)),
            min_insync_replicas=image.min_insync_replicas(topic),
            target_isr=state.isr if is_online else others,
            election=automatic_election(image, topic, unclean_elections=unclean_elections),
            unclean_shutdown=node_id if is_lost else None,
            directories={node_id: directory},
        )
        if record is not None:
            records.append(record)
            changed[topic_id, number] = apply_partition_change(state, record)
        reply.append(None)
    assert len(reply) == len(wanted), "each replica is answered"
    return Decision(tuple(records), reply)
