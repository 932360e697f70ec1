"""The stages of one move, and the table that leads from one to the next.

A look at the cluster shows one of a few things of a partition. What it means depends on what was done before: the table has a row for
every pair. A broker's metadata lag behind the controller's list of reassignments, so a partition that was moving and is where it was
before is given time before that is believed.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from esp.placement.step import Move
from esp.rebalance.cluster import Partition, Reassignment


class Stage(Enum):
    """How far a move is. The value is what people read."""

    PLANNED = "planned"
    THROTTLED = "throttled"
    """Its throttle is set: it may begin."""
    SUBMITTED = "submitted"
    """The controller was asked."""
    COPYING = "copying"
    DONE = "done"
    BLOCKED = "blocked"
    """It cannot be done, for a reason that is told; the partition is where it was, or where somebody else has put it."""
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self in (Stage.DONE, Stage.BLOCKED, Stage.CANCELLED)

    @property
    def is_active(self) -> bool:
        """Whether the cluster has been asked for it, and it has not ended."""
        return self in (Stage.SUBMITTED, Stage.COPYING)


class Seen(Enum):
    """What a look at the cluster shows of a partition, beside its move."""

    BEFORE = "where it was"
    MOVING = "on its way"
    AFTER = "where it goes"
    ELSEWHERE = "somewhere else"
    """Neither, or on the way to somewhere else: somebody else moves it."""
    GONE = "gone"
    """There is no such partition any more."""


NEXT: Final[Mapping[Stage, Mapping[Seen, Stage]]] = {
    Stage.PLANNED: {
        Seen.BEFORE: Stage.PLANNED,
        Seen.MOVING: Stage.COPYING,
        Seen.AFTER: Stage.DONE,
        Seen.ELSEWHERE: Stage.BLOCKED,
        Seen.GONE: Stage.BLOCKED,
    },
    Stage.THROTTLED: {
        Seen.BEFORE: Stage.THROTTLED,
        Seen.MOVING: Stage.COPYING,
        Seen.AFTER: Stage.DONE,
        Seen.ELSEWHERE: Stage.BLOCKED,
        Seen.GONE: Stage.BLOCKED,
    },
    Stage.SUBMITTED: {
        Seen.BEFORE: Stage.SUBMITTED,
        Seen.MOVING: Stage.COPYING,
        Seen.AFTER: Stage.DONE,
        Seen.ELSEWHERE: Stage.SUBMITTED,
        Seen.GONE: Stage.BLOCKED,
    },
    Stage.COPYING: {
        Seen.BEFORE: Stage.COPYING,
        Seen.MOVING: Stage.COPYING,
        Seen.AFTER: Stage.DONE,
        Seen.ELSEWHERE: Stage.COPYING,
        Seen.GONE: Stage.BLOCKED,
    },
    Stage.DONE: dict.fromkeys(Seen, Stage.DONE),
    Stage.BLOCKED: dict.fromkeys(Seen, Stage.BLOCKED),
    Stage.CANCELLED: dict.fromkeys(Seen, Stage.CANCELLED),
}
"""From a stage, by what is seen. An active move seen where it was, or elsewhere, goes on for a while only (``BELIEVED_AFTER_MS``)."""

BELIEVED_AFTER_MS: Final = 15_000
"""How long an active move may be seen where it does not belong: what a broker's metadata may lag behind the controller, and far more."""


def see(move: Move, partition: Partition | None, moving: Reassignment | None) -> Seen:
    """What a look shows of a move's partition.

    Where it was means the same replicas in whatever order: who cancels a move in Kafka gets another preferred leader.
    """
    if partition is None:
        return Seen.GONE
    if moving is not None:
        return Seen.MOVING if moving.target == move.after else Seen.ELSEWHERE
    if partition.replicas == move.after:
        return Seen.AFTER
    return Seen.BEFORE if set(partition.replicas) == set(move.before) else Seen.ELSEWHERE
