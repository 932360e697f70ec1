"""A partition leader changes its in-sync set: AlterPartition (ISR-6 to ISR-8, ISR-11; KIP-497, KIP-704, KIP-841, KIP-903)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from esp.controller.brokers import require_broker_epoch
from esp.controller.decision import Decision
from esp.controller.image import ClusterImage, TopicImage
from esp.controller.leadership import acceptable_leaders, automatic_election
from esp.controller.partition_change import apply_partition_change, is_online, plan_partition_change
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import BrokerEpoch, LeaderEpoch, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.schemas.metadata_records import MetadataRecord, PartitionChangeRecord

log = logging.getLogger(__name__)

UNCHECKED_EPOCH = BrokerEpoch(-1)
"""The broker epoch that a leader gives where it knows none; then only the registration is checked, as in Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """A leader's proposal for one partition."""

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: int
    """The epoch of the state that the proposal rests on."""
    new_isr: tuple[tuple[NodeId, BrokerEpoch], ...]
    """Each member with the broker epoch under which it fetched (KIP-903)."""
    recovering: bool = False
    """The leader is still recovering from an unclean election (KIP-704)."""


def decide_alter_partition(
    image: ClusterImage,
    sender: NodeId,
    broker_epoch: BrokerEpoch,
    changes: Sequence[IsrProposal],
) -> Decision[list[PartitionState | ApiError]]:
    """Change in-sync sets as their leader asks; the reply has one entry for each change, in that order: the new state, or a refusal.

    Args:
        image: the newest state, committed or not.
        sender: the broker that asks; only a partition's leader may.
        broker_epoch: of the sender.
        changes: the broker's proposals.

    Raises:
        ApiError: STALE_BROKER_EPOCH, for all of it.
    """
    require_broker_epoch(image, sender, broker_epoch)
    records: list[MetadataRecord] = []
    reply: list[PartitionState | ApiError] = []
    changed: dict[tuple[TopicId, int], PartitionState] = {}
    for change in changes:
        try:
            topic, state = _find(image, change)
            state = changed.get((change.topic_id, change.partition), state)
            _validate(image, sender, state, change)
        except ApiError as error:
            log.info(
                "AlterPartition of broker %d for partition %d of topic %s is refused: %s",
                sender,
                change.partition,
                change.topic_id,
                error,
            )
            reply.append(error)
            continue
        record = plan_partition_change(
            state,
            is_acceptable=acceptable_leaders(image, state),
            min_insync_replicas=image.min_insync_replicas(topic),
            target_isr=tuple(node for node, _ in change.new_isr),
            election=automatic_election(image, topic),
            recovering=change.recovering,
        )
        # A proposal of what is so already raises the partition epoch all the same: it is how a leader makes sure that no late copy of an
        # earlier proposal of its can still be applied (ISR-9).
        record = record or PartitionChangeRecord(partition_id=change.partition, topic_id=change.topic_id)
        records.append(record)
        state = apply_partition_change(state, record)
        assert state.partition_epoch == change.partition_epoch + 1, "no copy of this proposal is taken again (ISR-9)"
        changed[change.topic_id, change.partition] = state
        if state.leader == sender:
            reply.append(state)
        else:  # what the sender proposed takes effect, and with it another leads
            reply.append(ApiError(ErrorCode.new_leader_elected, f"broker {state.leader} leads now"))
    assert len(reply) == len(changes), "each change is answered"
    return Decision(tuple(records), reply)


def _find(image: ClusterImage, change: IsrProposal) -> tuple[TopicImage, PartitionState]:
    topic = image.topics_by_id.get(change.topic_id)
    if topic is None:
        raise ApiError(ErrorCode.unknown_topic_id, "no topic has this id")
    if not 0 <= change.partition < len(topic.partitions):
        raise ApiError(ErrorCode.unknown_topic_or_partition, "the topic has no such partition")
    return topic, topic.partitions[change.partition]


def _validate(image: ClusterImage, sender: NodeId, state: PartitionState, change: IsrProposal) -> None:
    """ISR-7, in its order.

    Raises:
        ApiError: the change must not be made.
    """
    if (
        change.leader_epoch > state.leader_epoch
    ):  # the leader knows more than this controller: another is active (KAFKA-14154)
        raise ApiError(
            ErrorCode.not_controller, f"leader epoch {change.leader_epoch} is ahead of {state.leader_epoch} here"
        )
    if change.partition_epoch > state.partition_epoch:
        raise ApiError(
            ErrorCode.not_controller,
            f"partition epoch {change.partition_epoch} is ahead of {state.partition_epoch} here",
        )
    if change.leader_epoch < state.leader_epoch:
        raise ApiError(
            ErrorCode.fenced_leader_epoch, f"the leader epoch is {state.leader_epoch}, not {change.leader_epoch}"
        )
    if sender != state.leader:
        raise ApiError(ErrorCode.invalid_request, f"broker {state.leader} leads, not {sender}")
    if change.partition_epoch < state.partition_epoch:
        raise ApiError(
            ErrorCode.invalid_update_version,
            f"the partition epoch is {state.partition_epoch}, not {change.partition_epoch}",
        )
    members = [node for node, _ in change.new_isr]
    if not members or len(set(members)) != len(members) or not set(members) <= set(state.replicas):
        raise ApiError(ErrorCode.invalid_request, f"{members} is no in-sync set of the replicas {state.replicas}")
    if sender not in members:
        raise ApiError(ErrorCode.invalid_request, f"the in-sync set {members} lacks the leader {sender}")
    if change.recovering and len(members) > 1:
        raise ApiError(ErrorCode.invalid_request, f"the leader is recovering and alone, but {members} are proposed")
    if change.recovering and not state.recovering:
        raise ApiError(ErrorCode.invalid_request, "a leader that has recovered is not recovering again")
    for node, epoch in change.new_isr:
        _require_eligible(image, state, node, epoch)


def _require_eligible(image: ClusterImage, state: PartitionState, node: NodeId, epoch: BrokerEpoch) -> None:
    """KIP-841, KIP-903: a broker that does not serve, or has come back with an unknown log, is in no in-sync set.

    Beyond Kafka, neither is a replica that was not and whose log directory has failed: its leader may not know of that yet.
    """
    broker = image.brokers.get(node)
    if broker is None:
        reason = "not registered"
    elif broker.in_controlled_shutdown:
        reason = "shutting down"
    elif broker.fenced:
        reason = "fenced"
    elif epoch not in (UNCHECKED_EPOCH, broker.epoch):
        reason = f"registered with the epoch {broker.epoch}, not {epoch}"
    elif node not in state.isr and not is_online(state, broker):
        reason = "without the log directory of its replica"
    else:
        return
    raise ApiError(ErrorCode.ineligible_replica, f"broker {node} is {reason}")
