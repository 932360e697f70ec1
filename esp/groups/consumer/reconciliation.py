"""The way of one member to its target: what it may use, what it must give back first, and what it waits for (KIP-848).

A member's epoch rises to that of the assignment once nothing is left to give back. A partition is granted only where no other member has it
or has still to give it back, so that two members never have one partition.
"""

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Final, NamedTuple

from esp.schemas.consumer_group_records import CurrentValue, MemberState, TopicIdPartition

_NONE: Final[dict[TopicIdPartition, int]] = {}


class MemberStep(Enum):
    """A step of a member on its way."""

    RETURN = "return"
    """It is to give back what its target does not have, and keeps its epoch until it has."""
    WAIT = "wait"
    """It has the new epoch, and gets the rest of its target when other members have given it back."""
    ARRIVE = "arrive"
    """It has its target."""


TRANSITIONS: Final[Mapping[tuple[MemberState, MemberStep], MemberState]] = {
    (MemberState.STABLE, MemberStep.RETURN): MemberState.UNREVOKED_PARTITIONS,
    (MemberState.STABLE, MemberStep.WAIT): MemberState.UNRELEASED_PARTITIONS,
    (MemberState.STABLE, MemberStep.ARRIVE): MemberState.STABLE,
    (MemberState.UNREVOKED_PARTITIONS, MemberStep.RETURN): MemberState.UNREVOKED_PARTITIONS,
    (MemberState.UNREVOKED_PARTITIONS, MemberStep.WAIT): MemberState.UNRELEASED_PARTITIONS,
    (MemberState.UNREVOKED_PARTITIONS, MemberStep.ARRIVE): MemberState.STABLE,
    (MemberState.UNRELEASED_PARTITIONS, MemberStep.RETURN): MemberState.UNREVOKED_PARTITIONS,
    (MemberState.UNRELEASED_PARTITIONS, MemberStep.WAIT): MemberState.UNRELEASED_PARTITIONS,
    (MemberState.UNRELEASED_PARTITIONS, MemberStep.ARRIVE): MemberState.STABLE,
}
"""The state after a step; a new target, or another subscription, may ask for a further one in any state."""


class Goal(NamedTuple):
    """Where a member is to come to."""

    epoch: int
    """The assignment epoch."""
    partitions: frozenset[TopicIdPartition]
    """Its target, of topics to which it is subscribed."""
    has_subscription_changed: bool
    """True if the heartbeat at hand has changed what it is subscribed to."""
    is_subscribed: Callable[[TopicIdPartition], bool]
    """Tells whether the member is subscribed to a partition's topic."""


def reconcile(
    current: CurrentValue,
    goal: Goal,
    owned: Collection[TopicIdPartition] | None,
    is_free: Callable[[TopicIdPartition], bool],
) -> CurrentValue:
    """The member's next place; the same value if it stays where it is.

    Args:
        current: its place.
        goal: where it is to come to.
        owned: the partitions that it says it has; None if it does not say.
        is_free: whether no other member has a partition, nor has to give it back.
    """
    if current.state is MemberState.STABLE and current.epoch == goal.epoch:
        return _drop_unsubscribed(current, goal, owned) if goal.has_subscription_changed else current
    if current.state is MemberState.UNREVOKED_PARTITIONS and _may_own(owned, current.pending_revocation):
        return _drop_unsubscribed(current, goal, owned) if goal.has_subscription_changed else current
    return _advance(current, goal, owned, is_free)


def _advance(
    current: CurrentValue,
    goal: Goal,
    owned: Collection[TopicIdPartition] | None,
    is_free: Callable[[TopicIdPartition], bool],
) -> CurrentValue:
    """Nothing is left to give back from before: give back what the target does not have, else take what is free of it."""
    kept = {partition: epoch for partition, epoch in current.assigned.items() if partition in goal.partitions}
    returned = {partition: epoch for partition, epoch in current.assigned.items() if partition not in kept}
    if returned and _may_own(owned, returned):
        return _going_back(current, kept, returned)
    wanted = goal.partitions - kept.keys()
    granted = {partition: goal.epoch for partition in wanted if is_free(partition)}
    step = MemberStep.ARRIVE if len(granted) == len(wanted) else MemberStep.WAIT
    return CurrentValue(goal.epoch, current.epoch, TRANSITIONS[current.state, step], kept | granted, _NONE)


def _drop_unsubscribed(current: CurrentValue, goal: Goal, owned: Collection[TopicIdPartition] | None) -> CurrentValue:
    """Take the partitions of topics away to which the member is no longer subscribed, before a new target is computed."""
    kept = {partition: epoch for partition, epoch in current.assigned.items() if goal.is_subscribed(partition)}
    if len(kept) == len(current.assigned):
        return current
    dropped = {partition: epoch for partition, epoch in current.assigned.items() if partition not in kept}
    if not _may_own(owned, dropped):
        return current._replace(assigned=kept)
    pending = {**current.pending_revocation, **dropped}
    return _going_back(current, kept, pending)


def _going_back(
    current: CurrentValue, kept: Mapping[TopicIdPartition, int], pending: Mapping[TopicIdPartition, int]
) -> CurrentValue:
    state = TRANSITIONS[current.state, MemberStep.RETURN]
    return CurrentValue(current.epoch, current.epoch, state, kept, pending)


def _may_own(owned: Collection[TopicIdPartition] | None, partitions: Mapping[TopicIdPartition, int]) -> bool:
    """True if the member may use some of these partitions still: it says so, or does not say what it has."""
    return owned is None or any(partition in partitions for partition in owned)
