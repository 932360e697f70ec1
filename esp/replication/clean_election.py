"""Whether a change of a partition's leader keeps what was committed."""

from esp.model.partition import PartitionState


def is_clean_step(old: PartitionState, new: PartitionState) -> bool:
    """Whether, between two states that a node has seen, nobody was elected from outside ISR, ELR and last known leader.

    Several changes may hide between the two; then only "not for sure" can be said. A single one that leaves no leader recovering elected
    none from outside, also if the leader came into the ISR with it and so ended a reassignment (REASSIGN-2). One that does may have elected
    the last known leader (ELECT-5).
    """
    if new.leader_epoch == old.leader_epoch:
        return True
    if new.partition_epoch != old.partition_epoch + 1:
        return False
    if new.leader < 0 or not new.recovering:
        return True
    return new.leader in old.isr or (not old.isr and new.leader in (*old.elr, *old.last_known_elr))
