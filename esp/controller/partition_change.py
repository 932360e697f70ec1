"""The one place that picks a partition's next leader and in-sync set, and the one that applies a change of a partition.

Rules: ELECT-1 to ELECT-5, ELR-1 (KIP-966), REASSIGN-2, with Kafka's ``PartitionChangeBuilder`` as the precedent. Whatever a change is
for, it also ends the partition's reassignment if that can end now.

The record of an election and the state before it show how it came about: a leader from the ISR or the ELR was elected cleanly; any other
resets the ISR to the leader alone and marks it as recovering. If it was the only last-known leader, nothing is lost by the election itself
(ELECT-5); otherwise it was unclean, see :func:`is_unclean_election`.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from esp.controller.decided_changes import check_decided_change
from esp.controller.image import BrokerImage
from esp.controller.replica_sets import ReplicaSets, completed_sets, replica_sets
from esp.model.ids import LOST_DIRECTORY, NO_NODE, UNASSIGNED_DIRECTORY, ZERO_UUID, DirectoryId, LeaderEpoch, NodeId
from esp.model.partition import PartitionState
from esp.schemas.metadata_records import (
    NO_LEADER_CHANGE,
    NO_RECOVERY_CHANGE,
    RECOVERED,
    RECOVERING,
    PartitionChangeRecord,
)

_KNOWN_TO_NOBODY: Final = frozenset((UNASSIGNED_DIRECTORY, DirectoryId(ZERO_UUID)))
"""Directory ids that say "not reported yet"; such a replica counts as online."""


class Election(Enum):
    """The means by which a partition may get a leader."""

    ONLINE = "online"
    """The leader stays if that is possible; otherwise a clean election."""
    PREFERRED = "preferred"
    """The first assigned replica if it is in sync; otherwise as ONLINE (ELECT-3)."""
    UNCLEAN = "unclean"
    """As ONLINE, and if that finds no leader, any replica that is there (ELECT-1.5)."""


class _Elected(NamedTuple):
    """The next leader; ``clean`` is true if it is known to have every committed record."""

    leader: NodeId
    clean: bool


def plan_partition_change(
    state: PartitionState,
    *,
    is_acceptable: Callable[[NodeId], bool],
    min_insync_replicas: int,
    target_isr: Sequence[NodeId] | None = None,
    election: Election = Election.ONLINE,
    unclean_shutdown: NodeId | None = None,
    recovering: bool | None = None,
    directories: Mapping[NodeId, DirectoryId] | None = None,
    sets: ReplicaSets | None = None,
    gone: NodeId | None = None,
    is_there: Callable[[NodeId], bool] = lambda _node: False,
) -> PartitionChangeRecord | None:
    """The record that brings a partition to ``target_isr`` with the right leader; None if there is nothing to change.

    Args:
        state: the partition as it is.
        is_acceptable: whether a replica may lead: registered, active, its directory online (ELECT-1's *ok*).
        min_insync_replicas: of the topic; a partition with fewer replicas needs no more than it has (HW-1).
        target_isr: the replicas that shall be in sync; may be empty. As it is, unless given.
        election: the means of finding a leader.
        unclean_shutdown: a broker that may have lost its tail, and so can be in no ELR (BRK-2).
        recovering: whether the leader says that it is recovering; as it is, unless given.
        directories: new directories of some replicas, and those of new ones.
        sets: the replicas, and which of them come and go. As they are, unless given.
        gone: a replica whose log is not there any more: it is in no set from which leaders are taken, unless no other replica has anything
            either (BRK-11).
        is_there: whether a replica's broker is active. An unclean election that finds no other leader takes a replica whose log was lost.
    """
    isr = state.isr if target_isr is None else tuple(target_isr)
    sets, isr = _maybe_complete(sets or replica_sets(state), isr)
    min_isr = min(min_insync_replicas, len(sets.replicas))
    elr = _next_elr(state, sets.replicas, isr, min_isr, unclean_shutdown if gone is None else gone)
    last_known = _last_known(state, sets.replicas, gone)
    elected = _elect(state, sets.replicas, isr, elr, last_known, is_acceptable, election, is_there)
    recovering = state.recovering if recovering is None else recovering
    if elected.leader != NO_NODE and elected.leader not in isr:
        isr = (elected.leader,)
        if elected.clean:
            elr = () if len(isr) >= min_isr else tuple(node for node in elr if node != elected.leader)
            sets, isr = _maybe_complete(sets, isr)
            elr = tuple(node for node in elr if node in sets.replicas)
        else:  # eligible replicas may hold records that this leader lacks
            elr = ()
            recovering = True
    if elected.leader != NO_NODE:
        last_known = ()
    elif not isr and state.leader in sets.replicas and state.leader != gone:
        last_known = (state.leader,)  # ELECT-2
    placed = _directories(state, sets.replicas, directories or {}, elected.leader)
    leaves = not set(state.replicas) <= set(sets.replicas)
    before = dict(zip(state.replicas, state.directories, strict=False))
    rot_matters = any(
        (before.get(node) == LOST_DIRECTORY) is not (place == LOST_DIRECTORY)
        for node, place in zip(sets.replicas, placed, strict=False)
    )
    change = PartitionChangeRecord(
        partition_id=state.partition,
        topic_id=state.topic_id,
        isr=isr if isr != state.isr else None,
        # Whenever a replica leaves, the leader's epoch rises, also if the leader stays (ISR-8); and when one that has rotted, or lost its
        # log, steps out or begins anew: else it would be counted by what it had before, or by what it is about to throw away (REC-4).
        leader=elected.leader if elected.leader != state.leader or leaves or rot_matters else NO_LEADER_CHANGE,
        replicas=sets.replicas if sets.replicas != state.replicas else None,
        adding_replicas=sets.adding if sets.adding != state.adding_replicas else None,
        removing_replicas=sets.removing if sets.removing != state.removing_replicas else None,
        leader_recovery_state=(
            NO_RECOVERY_CHANGE if recovering == state.recovering else RECOVERING if recovering else RECOVERED
        ),
        eligible_leader_replicas=elr if elr != state.elr else None,
        last_known_elr=last_known if last_known != state.last_known_elr else None,
        directories=placed if placed != state.directories else None,
    )
    if change == PartitionChangeRecord(partition_id=state.partition, topic_id=state.topic_id):
        return None
    check_decided_change(
        state,
        apply_partition_change(state, change),
        proposed_isr=state.isr if target_isr is None else target_isr,
        min_isr=min_isr,
        is_clean=elected.clean,
        unclean_shutdown=unclean_shutdown,
        gone=gone,
    )
    return change


def is_unclean_election(before: PartitionState, change: PartitionChangeRecord) -> bool:
    """True if a change made a leader of a replica outside the ISR, the ELR and last-known leader, so that records may be lost (ELECT-5).

    The last-known leader counts as such only where no other replica was eligible: otherwise it was picked for being there, by an unclean
    election. A leader that came into the ISR with the same change, which ended a reassignment, is not recovering.
    """
    after = apply_partition_change(before, change)
    if (
        change.leader in (NO_LEADER_CHANGE, NO_NODE)
        or not after.recovering
        or change.leader in (*before.isr, *before.elr)
    ):
        return False
    return bool(before.isr or before.elr) or before.last_known_elr != (change.leader,)


def has_others(state: PartitionState, node: NodeId) -> bool:
    """True if a replica besides ``node`` may have records: its log is not known to be lost, or it was stopped and is a candidate."""
    places = dict(zip(state.replicas, state.directories, strict=False))
    candidates = {*state.isr, *state.elr, *state.last_known_elr}
    return any(other in candidates or places.get(other) != LOST_DIRECTORY for other in state.replicas if other != node)


def is_online(state: PartitionState, broker: BrokerImage) -> bool:
    """True if the directory that holds the broker's replica of the partition is there; also if the directory is unknown.

    The broker may hold no replica any more: the caller may not know that yet.
    """
    if broker.node_id not in state.replicas:
        return False
    if not state.directories:  # before any was written down
        return True
    directory = state.directories[state.replicas.index(broker.node_id)]
    return directory in _KNOWN_TO_NOBODY or directory in broker.log_dirs


def apply_partition_change(state: PartitionState, change: PartitionChangeRecord) -> PartitionState:
    """The partition after a committed change (ISR-8: the epochs follow from the record, they do not stand in it)."""
    leads = change.leader != NO_LEADER_CHANGE
    return PartitionState(
        topic_id=state.topic_id,
        partition=state.partition,
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
        start_offset=state.start_offset,
        restored_epoch=state.restored_epoch,
    )


def directory_ids(raw: Sequence[uuid.UUID | None]) -> tuple[DirectoryId, ...]:
    """Directory ids as they stand in records, where None is the id of zeros."""
    return tuple(DirectoryId(directory or ZERO_UUID) for directory in raw)


def _ids(changed: tuple[int, ...] | None, present: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    return present if changed is None else tuple(map(NodeId, changed))


def _maybe_complete(sets: ReplicaSets, isr: tuple[NodeId, ...]) -> tuple[ReplicaSets, tuple[NodeId, ...]]:
    """REASSIGN-2: end a reassignment that can end, for the sets and the ISR alike."""
    completed = completed_sets(sets, isr)
    if completed is None:
        return sets, isr
    return completed, tuple(node for node in isr if node in completed.replicas)


def _directories(
    state: PartitionState, replicas: tuple[NodeId, ...], given: Mapping[NodeId, DirectoryId], leader: NodeId
) -> tuple[DirectoryId, ...]:
    """The directory of each of ``replicas``: as given, else as it is, else unknown. The leader has a log somewhere, maybe an empty one."""
    known = dict(zip(state.replicas, state.directories, strict=False)) | dict(given)
    if known.get(leader) == LOST_DIRECTORY:
        known[leader] = UNASSIGNED_DIRECTORY
    elif replicas == state.replicas and not given:
        return state.directories
    return tuple(known.get(node, UNASSIGNED_DIRECTORY) for node in replicas)


def _next_elr(
    state: PartitionState,
    replicas: tuple[NodeId, ...],
    isr: Sequence[NodeId],
    min_isr: int,
    unclean_shutdown: NodeId | None,
) -> tuple[NodeId, ...]:
    """The replicas with every committed record besides the ISR (ELR-1, ELR-2), in order of assignment."""
    if len(isr) >= min_isr:
        return ()
    eligible = {*state.elr, *state.isr}.difference(isr) - {unclean_shutdown}
    return tuple(replica for replica in replicas if replica in eligible)


def _last_known(state: PartitionState, replicas: tuple[NodeId, ...], gone: NodeId | None) -> tuple[NodeId, ...]:
    """The last leader (ELECT-2). One whose log is gone only if no other replica has anything: then its election can cost nothing more."""
    if gone is not None and not has_others(state, gone):
        return (gone,)
    return tuple(node for node in state.last_known_elr if node in replicas and node != gone)


def _elect(
    state: PartitionState,
    replicas: tuple[NodeId, ...],
    isr: tuple[NodeId, ...],
    elr: tuple[NodeId, ...],
    last_known: tuple[NodeId, ...],
    is_acceptable: Callable[[NodeId], bool],
    election: Election,
    is_there: Callable[[NodeId], bool],
) -> _Elected:
    """Pick the leader by ELECT-1 and ELECT-3."""
    clean = isr or elr
    first = (state.leader, *replicas)
    if election is Election.PREFERRED:
        first = (replicas[0], *first)
    for node in first:
        if node in clean and is_acceptable(node):
            return _Elected(node, clean=True)
    if not clean and len(last_known) == 1 and is_acceptable(last_known[0]):
        return _Elected(last_known[0], clean=False)
    if election is Election.UNCLEAN:
        for node in replicas:
            if is_acceptable(node):
                return _Elected(node, clean=False)
        places = dict(zip(state.replicas, state.directories, strict=False))
        for node in replicas:
            if places.get(node) == LOST_DIRECTORY and is_there(node):
                return _Elected(node, clean=False)
    return _Elected(NO_NODE, clean=True)
