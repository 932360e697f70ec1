"""The states of a group of the classic protocol, and what leads from one to another."""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class GroupState(Enum):
    """What a group does; the values are the names that clients see."""

    EMPTY = "Empty"
    """It has no members; its offsets stay until they expire."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """It waits for its members to join the next generation."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation stands, and waits for the assignments of its leader."""
    STABLE = "Stable"
    """Each member has its assignment."""
    DEAD = "Dead"
    """It is gone: deleted, or its coordinator is another one."""


class GroupEvent(Enum):
    """What may change a group's state; what it does beyond that is told where it happens."""

    REBALANCE_NEEDED = "members came, went or changed what they tell the leader"
    ALL_JOINED = "all members have joined, or the time for it is over and at least one has"
    NONE_JOINED = "the time to join is over, or the last member left, and nobody is there"
    ASSIGNMENT_COMMITTED = "the leader's assignments are committed in the log"
    REMOVED = "the group was deleted, or has neither members nor offsets any more, or is unloaded"


TRANSITIONS: Final[Mapping[tuple[GroupState, GroupEvent], GroupState]] = MappingProxyType(
    {
        (GroupState.EMPTY, GroupEvent.REBALANCE_NEEDED): GroupState.PREPARING_REBALANCE,
        (GroupState.EMPTY, GroupEvent.REMOVED): GroupState.DEAD,
        (GroupState.PREPARING_REBALANCE, GroupEvent.ALL_JOINED): GroupState.COMPLETING_REBALANCE,
        (GroupState.PREPARING_REBALANCE, GroupEvent.NONE_JOINED): GroupState.EMPTY,
        (GroupState.PREPARING_REBALANCE, GroupEvent.REMOVED): GroupState.DEAD,
        (GroupState.COMPLETING_REBALANCE, GroupEvent.REBALANCE_NEEDED): GroupState.PREPARING_REBALANCE,
        (GroupState.COMPLETING_REBALANCE, GroupEvent.ASSIGNMENT_COMMITTED): GroupState.STABLE,
        (GroupState.COMPLETING_REBALANCE, GroupEvent.REMOVED): GroupState.DEAD,
        (GroupState.STABLE, GroupEvent.REBALANCE_NEEDED): GroupState.PREPARING_REBALANCE,
        (GroupState.STABLE, GroupEvent.REMOVED): GroupState.DEAD,
    }
)
"""What follows each state and event; an event that has no line in a state cannot happen there."""
