"""The replicas of a partition while it is reassigned: the arithmetic of REASSIGN-1 to REASSIGN-3 on sets, and nothing else (KIP-455).

A reassignment runs from the *original* replicas, which are all but those being added, to its *target*, which are all but those being
removed. A replica in both sets is of neither: an earlier reassignment added it, and it is not wanted any more. It goes with the end of this
one, because until then its copy may be one of the few that are complete.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from esp.model.ids import NodeId
from esp.model.partition import PartitionState


class ReplicaSets(NamedTuple):
    """All replicas of a partition in their order, preferred leader first, and which of them come and go."""

    replicas: tuple[NodeId, ...]
    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()


def replica_sets(state: PartitionState) -> ReplicaSets:
    """The sets of a partition as it is."""
    return ReplicaSets(state.replicas, state.adding_replicas, state.removing_replicas)


def sets_towards(state: PartitionState, target: Sequence[NodeId]) -> ReplicaSets:
    """REASSIGN-1: the sets by which a reassignment to ``target`` begins, from the original replicas, also if one is running.

    Of the replicas that a running reassignment was adding and that are not wanted any more, it drops the ones without a complete copy. The
    others stay until the end, so that the beginning takes away no complete copy (REASSIGN-5).
    """
    original = set(state.original_replicas)
    complete = {*state.isr, *state.elr, *state.last_known_elr}
    wanted = set(target)
    kept = complete.intersection(state.adding_replicas) - wanted
    removing = tuple(sorted((original - wanted) | kept))
    replicas = (*target, *removing)
    assert len(set(replicas)) == len(replicas), "one copy on a broker"
    assert original.issubset(replicas), "the original replicas stay until the end (REASSIGN-5)"
    assert complete.intersection(state.replicas).issubset(replicas), "no complete copy goes (REASSIGN-5)"
    return ReplicaSets(replicas, tuple(sorted((wanted - original) | kept)), removing)


def completed_sets(sets: ReplicaSets, isr: Collection[NodeId]) -> ReplicaSets | None:
    """REASSIGN-2: the sets when the reassignment has ended; None if there is none, or it cannot end while ``isr`` is in sync.

    It ends only when every target is in sync (KAFKA-15665). Then the in-sync set is the target, so it has the minimum of members too.
    """
    if not (sets.adding or sets.removing):
        return None
    target = tuple(node for node in sets.replicas if node not in sets.removing)
    assert target, "a reassignment leaves replicas"
    return ReplicaSets(target) if set(target) <= set(isr) else None


def reverted_sets(state: PartitionState) -> ReplicaSets:
    """REASSIGN-3: the sets when the reassignment was cancelled."""
    return ReplicaSets(state.original_replicas)
