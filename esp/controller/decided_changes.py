"""The invariants of a partition after each change that this controller decides, whatever the change is for.

A metadata log may hold states that contradict themselves, perhaps because another implementation wrote it. So a replayed state is not
checked here, and a change has to keep only the invariants that held before it.
"""

from collections.abc import Collection

from esp.model.ids import NO_NODE, NodeId
from esp.model.partition import PartitionState, find_contradictions


def check_decided_change(
    before: PartitionState,
    after: PartitionState,
    *,
    proposed_isr: Collection[NodeId],
    min_isr: int,
    is_clean: bool,
    unclean_shutdown: NodeId | None,
    gone: NodeId | None,
) -> None:
    """Assert the invariants of a change (ISR-8, ELR-1, ELR-2, ELECT-1, ELECT-2, BRK-2, BRK-11).

    Args:
        before: the partition as it was.
        after: the partition with the change.
        proposed_isr: the replicas that were to be in sync, before any election.
        min_isr: the number of in-sync replicas that the partition needs.
        is_clean: whether the leader, if there is one, was known to have every committed record.
        unclean_shutdown: a broker that may have lost its tail.
        gone: a replica that has lost its log.
    """
    contradictions = list(find_contradictions(after))
    if contradictions:
        known = set(find_contradictions(before))
        new = [contradiction for contradiction in contradictions if contradiction not in known]
        assert not new, f"{'; '.join(new)}: {after} after {before}"
    replicas, isr = set(after.replicas), set(after.isr)
    assert after.partition_epoch > before.partition_epoch, "every change raises the partition epoch (ISR-8)"
    assert after.leader_epoch >= before.leader_epoch, "leader epochs do not fall (ISR-8)"
    if after.leader != before.leader or not replicas.issuperset(before.replicas):
        assert after.leader_epoch > before.leader_epoch, "another leader, or a replica less, is another epoch (ISR-8)"
    assert unclean_shutdown is None or unclean_shutdown not in after.elr, "it may have lost its tail (BRK-2)"
    assert gone is None or gone not in after.elr, "it has no log to be eligible with (BRK-11)"
    if not is_clean:
        assert after.recovering, "a leader that may lack records is recovering (ELECT-4)"
        assert after.isr == (after.leader,), "a leader that may lack records is alone in sync (ELECT-4)"
        assert not after.elr, "an eligible replica may hold records that this leader lacks (ELR-2)"
        return
    complete = {*before.isr, *before.elr}
    assert gone is None or gone not in isr, "it has no log to be in sync with, nor to be elected for (BRK-11)"
    if after.leader not in (NO_NODE, before.leader):
        assert after.leader in complete or after.leader in proposed_isr, "an election outside ISR and ELR (ELECT-1)"
    if len(isr) >= min_isr:
        assert not after.elr, "with enough in sync, no other replica is eligible (ELR-1)"
    else:
        left = (complete & replicas) - isr - {unclean_shutdown, gone}
        assert left.issubset(after.elr), "below the minimum, a replica that leaves the ISR stays eligible (ELR-1)"
