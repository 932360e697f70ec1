"""Whether a change of a partition's leader keeps what was committed."""

from esp.model.partition import PartitionState


def is_clean_step(old: PartitionState, new: PartitionState) -> bool:
    """Whether, between two states that a node has seen, nobody was elected from outside ISR, ELR and last known leader.

    Several changes may hide between the two; then only "not for sure" can be said. The recovery state alone does not tell: it is gone
    when the leader has recovered, and a last known leader begins with it as well (ELECT-5).
    """
    if new.leader_epoch == old.leader_epoch:
        return True
    if new.partition_epoch != old.partition_epoch + 1:
        return False
    return new.leader < 0 or new.leader in old.isr or (not old.isr and new.leader in (*old.elr, *old.last_known_elr))
