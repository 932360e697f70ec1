"""Changes of partitions' replicas: AlterPartitionReassignments (REASSIGN-1, REASSIGN-3, REASSIGN-5; KIP-455).

Codes and texts are those of Kafka 4.3's ``ReplicationControlManager``. A reassignment that a request begins is ended by
:func:`~esp.controller.partition_change.plan_partition_change`, at once if every target is in sync already.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from esp.controller.assignment import check_replicas, default_directory, invalid_assignment
from esp.controller.decision import Decision
from esp.controller.image import ClusterImage, TopicImage
from esp.controller.leadership import acceptable_leaders, automatic_election
from esp.controller.partition_change import Election, apply_partition_change, plan_partition_change
from esp.controller.replica_sets import ReplicaSets, reverted_sets, sets_towards
from esp.controller.self_repair_marks import plan_marks
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId, TopicId
from esp.model.partition import PartitionState
from esp.schemas.metadata_records import MetadataRecord, PartitionChangeRecord

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The replicas that a partition shall have, preferred leader first; None cancels the reassignment that is running."""

    topic: str
    partition: int
    replicas: tuple[NodeId, ...] | None


def decide_reassignments(
    image: ClusterImage,
    wanted: Sequence[Reassignment],
    *,
    may_change_replication_factor: bool = True,
    for_repair: bool = False,
) -> Decision[list[ApiError | None]]:
    """Begin, change or cancel reassignments; the reply has one entry for each, in that order: None, or a refusal.

    Args:
        image: the newest state, committed or not.
        wanted: the requested changes; a partition may be named more than once, the later one counts from the earlier one on.
        may_change_replication_factor: if false, a target must have as many replicas as the partition has, or is about to have (KIP-860).
        for_repair: whether self-repair asks: its copies have a budget of their own (REPAIR-4).
    """
    records: list[MetadataRecord] = []
    reply: list[ApiError | None] = []
    changed: dict[tuple[TopicId, int], PartitionState] = {}
    for one in wanted:
        try:
            topic, state = _find(image, one)
            state = changed.get((topic.topic_id, one.partition), state)
            if one.replicas is None:
                record = _cancel(image, topic, state)
            else:
                check_replicas(image, one.replicas)
                if not may_change_replication_factor:
                    _require_same_factor(state, one.replicas)
                record = _start(image, topic, state, one.replicas)
        except ApiError as error:
            log.info("reassignment of %s-%d is refused: %s", one.topic, one.partition, error)
            reply.append(error)
            continue
        if record is not None:
            records.append(record)
            changed[topic.topic_id, one.partition] = apply_partition_change(state, record)
        reply.append(None)
    assert len(reply) == len(wanted), "each partition is answered"
    return Decision((*records, *plan_marks(image, changed, for_repair=for_repair)), reply)


def _find(image: ClusterImage, wanted: Reassignment) -> tuple[TopicImage, PartitionState]:
    topic = image.topics_by_name.get(wanted.topic)
    if topic is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition, f"Unable to find a topic named {wanted.topic}.")
    if not 0 <= wanted.partition < len(topic.partitions):
        raise ApiError(
            ErrorCode.unknown_topic_or_partition, f"Unable to find partition {wanted.topic}:{wanted.partition}."
        )
    return topic, topic.partitions[wanted.partition]


def _require_same_factor(state: PartitionState, target: Sequence[NodeId]) -> None:
    present = len(state.target_replicas)
    if len(target) != present:
        raise ApiError(
            ErrorCode.invalid_replication_factor,
            f"The replication factor is changed from {present} to {len(target)}",
        )


def _start(
    image: ClusterImage, topic: TopicImage, state: PartitionState, target: tuple[NodeId, ...]
) -> PartitionChangeRecord | None:
    """REASSIGN-1; the in-sync set stays, but for the replicas that the end of the reassignment takes from it."""
    sets = sets_towards(state, target)
    return _plan(image, topic, state, sets, state.isr, Election.ONLINE)


def _cancel(image: ClusterImage, topic: TopicImage, state: PartitionState) -> PartitionChangeRecord | None:
    """REASSIGN-3. Kafka only requires that one replica is left in the in-sync set; here the minimum is, if a complete copy goes."""
    if not state.is_reassigning:
        raise ApiError(ErrorCode.no_reassignment_in_progress)
    sets = reverted_sets(state)
    assert set(sets.replicas).isdisjoint(state.adding_replicas), "the added replicas are removed again (REASSIGN-3)"
    isr = tuple(node for node in state.isr if node in sets.replicas)
    election = automatic_election(image, topic)
    if election is not Election.UNCLEAN:
        name = f"{topic.name}:{state.partition}"
        if not isr:
            raise invalid_assignment(
                f"Unable to revert partition assignment for {name} because it would require an unclean leader election."
            )
        takes_copies = not {*state.isr, *state.elr} <= set(sets.replicas)
        minimum = image.min_insync_replicas(topic, len(sets.replicas))
        if takes_copies and len(isr) < minimum:
            raise invalid_assignment(
                f"Unable to revert partition assignment for {name} because it would leave {len(isr)} in-sync replica(s), "
                f"fewer than the minimum of {minimum}."
            )
    return _plan(image, topic, state, sets, isr, election)


def _plan(
    image: ClusterImage,
    topic: TopicImage,
    state: PartitionState,
    sets: ReplicaSets,
    isr: tuple[NodeId, ...],
    election: Election,
) -> PartitionChangeRecord | None:
    return plan_partition_change(
        state,
        is_acceptable=acceptable_leaders(image, state),
        min_insync_replicas=image.min_insync_replicas(topic),
        target_isr=isr,
        election=election,
        directories={node: default_directory(image, node) for node in sets.replicas if node not in state.replicas},
        sets=sets,
    )
