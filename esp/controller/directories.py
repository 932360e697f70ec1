"""A broker says in which of its directories it has put replicas: AssignReplicasToDirs (KIP-858)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from esp.controller.brokers import require_broker_epoch
from esp.controller.decision import Decision
from esp.controller.image import BrokerImage, ClusterImage, TopicImage
from esp.controller.leadership import acceptable_leaders, automatic_election, is_active_broker
from esp.controller.partition_change import apply_partition_change, has_others, plan_partition_change
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, BrokerEpoch, DirectoryId, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.schemas.metadata_records import MetadataRecord, PartitionChangeRecord

NOWHERE: Final = UNASSIGNED_DIRECTORY
"""The directory in a broker's report of a replica that should be in one of its directories, and is in none."""


def decide_assign_directories(
    image: ClusterImage,
    node_id: NodeId,
    broker_epoch: BrokerEpoch,
    wanted: Sequence[tuple[DirectoryId, TopicId, int]],
) -> Decision[list[ApiError | None]]:
    """Write down where a broker's replicas are; the reply has one entry for each, in that order: None, or a refusal.

    A replica in a directory that the broker has not, or has lost, leaves the in-sync set, and leadership with it. One that is said to be
    lost itself (rotten, REC-4, or stopped, TRUNC-8) is eligible no more, if others are; but the only one in sync stays what it is, unless
    one that is eligible may lead in its place.
    One that is said to be in no directory at all (:data:`NOWHERE`) has nothing left: it is neither in sync nor eligible, nor was it the
    last known leader, and is written down as lost until it is somewhere. Only if all others have said so too, it may lead what is left:
    nothing (BRK-11). It says so while it is in no in-sync set: one that is in sync has a log, and the request is an old one.

    Args:
        image: the newest state, committed or not.
        node_id: the broker.
        broker_epoch: of the broker.
        wanted: directory, topic and partition.

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
        record = _plan(image, topic, state, broker, directory)
        if record is not None:
            records.append(record)
            changed[topic_id, number] = apply_partition_change(state, record)
        reply.append(None)
    assert len(reply) == len(wanted), "each replica is answered"
    return Decision(tuple(records), reply)


def _plan(
    image: ClusterImage,
    topic: TopicImage,
    state: PartitionState,
    broker: BrokerImage,
    directory: DirectoryId,
) -> PartitionChangeRecord | None:
    """The change of one partition that follows from its broker's report; None if none does."""
    node_id = broker.node_id
    is_online, is_lost, is_gone = directory in broker.log_dirs, directory == LOST_DIRECTORY, directory == NOWHERE
    others = tuple(node for node in state.isr if node != node_id)
    place = LOST_DIRECTORY if is_gone and has_others(state, node_id) else directory
    placed = tuple(
        place if replica == node_id else other for replica, other in zip(state.replicas, state.directories, strict=True)
    )
    is_acceptable = acceptable_leaders(image, replace(state, directories=placed))
    has_successor = bool(others) or any(is_acceptable(node) for node in state.elr)
    if node_id in state.isr and (is_gone or (is_lost and not has_successor)):
        return None
    return plan_partition_change(
        state,
        is_acceptable=is_acceptable,
        min_insync_replicas=image.min_insync_replicas(topic),
        target_isr=state.isr if is_online else others,
        election=automatic_election(image, topic),
        unclean_shutdown=node_id if is_lost and {*state.isr, *state.elr} - {node_id} else None,
        directories={node_id: place},
        gone=node_id if is_gone else None,
        is_there=lambda node: is_active_broker(image, node),
    )
