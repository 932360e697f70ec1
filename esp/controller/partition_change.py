"""The one place that picks a partition's next leader and in-sync set, and the one that applies a change of a partition.

Rules: ELECT-1, ELECT-2, ELR-1 (KIP-966), with Kafka's ``PartitionChangeBuilder`` as the precedent.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from esp.controller.image import BrokerImage
from esp.model.ids import NO_NODE, UNASSIGNED_DIRECTORY, ZERO_UUID, DirectoryId, LeaderEpoch, NodeId
from esp.model.partition import PartitionState
from esp.schemas.metadata_records import (
    NO_LEADER_CHANGE,
    NO_RECOVERY_CHANGE,
    RECOVERING,
    PartitionChangeRecord,
)

_KNOWN_TO_NOBODY: Final = frozenset((UNASSIGNED_DIRECTORY, DirectoryId(ZERO_UUID)))
"""Directory ids that say "not reported yet"; such a replica counts as online."""


class _Election(NamedTuple):
    """Who leads now; ``isr`` replaces the target ISR if the leader comes from outside of it."""

    leader: NodeId
    isr: tuple[NodeId, ...]
    recovering: bool


def plan_partition_change(
    state: PartitionState,
    *,
    target_isr: Sequence[NodeId],
    is_acceptable: Callable[[NodeId], bool],
    min_insync_replicas: int,
    unclean_shutdown: NodeId | None = None,
) -> PartitionChangeRecord | None:
    """The record that brings a partition to ``target_isr`` with the right leader; None if there is nothing to change.

    Args:
        state: the partition as it is.
        target_isr: who shall be in sync, in order of assignment; may be empty.
        is_acceptable: whether a replica may lead: registered, active, its directory online.
        min_insync_replicas: effective minimum (HW-1).
        unclean_shutdown: a broker that may have lost its tail, and so can be in no ELR (BRK-2).
    """
    isr = tuple(target_isr)
    elr = _next_elr(state, isr, min_insync_replicas, unclean_shutdown)
    election = _elect(state, isr, elr, is_acceptable)
    if election.isr != isr:
        isr = election.isr
        elr = () if len(isr) >= min_insync_replicas else tuple(replica for replica in elr if replica not in isr)
    last_known = state.last_known_elr
    if election.leader != NO_NODE:
        last_known = ()
    elif not isr and state.leader != NO_NODE:
        last_known = (state.leader,)  # ELECT-2
    change = PartitionChangeRecord(
        partition_id=state.partition,
        topic_id=state.topic_id,
        isr=isr if isr != state.isr else None,
        leader=election.leader if election.leader != state.leader else NO_LEADER_CHANGE,
        leader_recovery_state=RECOVERING if election.recovering and not state.recovering else NO_RECOVERY_CHANGE,
        eligible_leader_replicas=elr if elr != state.elr else None,
        last_known_elr=last_known if last_known != state.last_known_elr else None,
    )
    nothing = PartitionChangeRecord(partition_id=state.partition, topic_id=state.topic_id)
    return None if change == nothing else change


def is_online(state: PartitionState, broker: BrokerImage) -> bool:
    """Whether the directory that holds the broker's replica of the partition is there."""
    directory = state.directories[state.replicas.index(broker.node_id)]
    return directory in _KNOWN_TO_NOBODY or directory in broker.log_dirs


def apply_partition_change(state: PartitionState, change: PartitionChangeRecord) -> PartitionState:
    """The partition after a committed change (ISR-8: the epochs follow from the record, they do not stand in it)."""
    leads = change.leader != NO_LEADER_CHANGE
    return replace(
        state,
        replicas=_ids(change.replicas, state.replicas),
        isr=_ids(change.isr, state.isr),
        leader=NodeId(change.leader) if leads else state.leader,
        leader_epoch=LeaderEpoch(state.leader_epoch + leads),
        partition_epoch=state.partition_epoch + 1,
        directories=state.directories if change.directories is None else directory_ids(change.directories),
        adding_replicas=_ids(change.adding_replicas, state.adding_replicas),
        removing_replicas=_ids(change.removing_replicas, state.removing_replicas),
        elr=_ids(change.eligible_leader_replicas, state.elr),
        last_known_elr=_ids(change.last_known_elr, state.last_known_elr),
        recovering=(
            state.recovering
            if change.leader_recovery_state == NO_RECOVERY_CHANGE
            else change.leader_recovery_state == RECOVERING
        ),
    )


def directory_ids(raw: Sequence[uuid.UUID | None]) -> tuple[DirectoryId, ...]:
    """Directory ids as they stand in records, where None is the id of zeros."""
    return tuple(DirectoryId(directory or ZERO_UUID) for directory in raw)


def _ids(changed: tuple[int, ...] | None, present: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    return present if changed is None else tuple(map(NodeId, changed))


def _next_elr(
    state: PartitionState, isr: Sequence[NodeId], min_insync_replicas: int, unclean_shutdown: NodeId | None
) -> tuple[NodeId, ...]:
    """Who holds every committed record besides the ISR (ELR-1, ELR-2), in order of assignment."""
    if len(isr) >= min_insync_replicas:
        return ()
    eligible = {*state.elr, *state.isr}.difference(isr) - {unclean_shutdown}
    return tuple(replica for replica in state.replicas if replica in eligible)


def _elect(
    state: PartitionState, isr: tuple[NodeId, ...], elr: tuple[NodeId, ...], is_acceptable: Callable[[NodeId], bool]
) -> _Election:
    """Pick the leader by ELECT-1, unclean election excepted."""
    candidates = isr or elr
    if state.leader in candidates and is_acceptable(state.leader):
        leader = state.leader
    else:
        leader = next((node for node in state.replicas if node in candidates and is_acceptable(node)), NO_NODE)
    if leader != NO_NODE:
        return _Election(leader, isr or (leader,), recovering=False)
    if not candidates and len(state.last_known_elr) == 1 and is_acceptable(state.last_known_elr[0]):
        leader = state.last_known_elr[0]
        return _Election(leader, (leader,), recovering=True)
    return _Election(NO_NODE, isr, recovering=False)
