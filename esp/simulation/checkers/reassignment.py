"""INV-REASSIGN: what each single change of a partition may do to its replicas (REASSIGN-1 to REASSIGN-5). Two tiers ask."""

from esp.model.partition import PartitionState
from esp.simulation.checkers.violation import ViolationError


def check_reassignment(
    old: PartitionState, new: PartitionState, who: str, *, min_isr: int, may_be_unclean: bool = False
) -> None:
    """A beginning takes no complete copy, an end has every target in sync, a cancel that takes one leaves the minimum.

    An end that leads back to the original replicas cannot be told from a cancel, and is judged as one.

    Args:
        old: the partition before the change.
        new: and after it.
        who: what it is called.
        min_isr: how many have to be in sync, of the replicas after the change.
        may_be_unclean: true if elections outside ISR and ELR are allowed.

    Raises:
        ViolationError: INV-REASSIGN, or INV-EPOCHS-MONO (ISR-8).
    """
    gone = set(old.replicas).difference(new.replicas)
    taken = gone.intersection((*old.isr, *old.elr))
    if gone and new.leader_epoch == old.leader_epoch:
        raise ViolationError(
            "INV-EPOCHS-MONO", who, f"{sorted(gone)} went, and the leader epoch stays: {new} after {old} (ISR-8)"
        )
    if not {*new.adding_replicas, *new.removing_replicas} <= set(new.replicas):
        raise ViolationError("INV-REASSIGN", who, f"comes or goes without being a replica: {new}")
    if new.is_reassigning:
        if taken:
            raise ViolationError("INV-REASSIGN", who, f"{sorted(taken)} are taken before the end: {new} after {old}")
    elif old.is_reassigning and set(new.replicas) == set(old.original_replicas):
        if taken and len(new.isr) < min_isr and not may_be_unclean:
            raise ViolationError("INV-REASSIGN", who, f"the cancel leaves fewer than {min_isr}: {new} after {old}")
    elif (gone or old.is_reassigning) and set(new.isr) != set(new.replicas):
        raise ViolationError("INV-REASSIGN", who, f"it ends before every target is in sync: {new} after {old}")
