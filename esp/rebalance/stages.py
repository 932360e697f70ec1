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
    """The stage of a move. The value is shown to people."""

    PLANNED = "planned"
    THROTTLED = "throttled"
    """The throttle of the move is set: it may begin."""
    SUBMITTED = "submitted"
    """The controller was asked."""
    COPYING = "copying"
    DONE = "done"
    BLOCKED = "blocked"
    """The move cannot be done, for a reason that is reported; the partition is where it was, or where another change has put it."""
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        """True if the move has ended, done or not."""
        return self in (Stage.DONE, Stage.BLOCKED, Stage.CANCELLED)

    @property
    def is_active(self) -> bool:
        """True if the cluster has been asked for the move, and it has not ended."""
        return self in (Stage.SUBMITTED, Stage.COPYING)


class Seen(Enum):
    """The place of a partition in a look at the cluster, compared with its move."""

    BEFORE = "where it was"
    MOVING = "on its way"
    AFTER = "where it goes"
    ELSEWHERE = "somewhere else"
    """Neither, or on the way to another place: another tool or the controller moves the partition."""
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
"""The next stage, by stage and place. An active move seen where it was, or elsewhere, goes on only for ``BELIEVED_AFTER_MS``."""

BELIEVED_AFTER_MS: Final = 15_000
"""The time for which an active move may be seen where it does not belong: far more than a broker's metadata lags behind the controller."""


def see(move: Move, partition: Partition | None, moving: Reassignment | None) -> Seen:
    """Return the place of a move's partition in a look at the cluster.

    ``BEFORE`` means the same replicas in any order: cancelling a move in Kafka leaves another preferred leader.
    """
    if partition is None:
        return Seen.GONE
    if moving is not None:
        return Seen.MOVING if moving.target == move.after else Seen.ELSEWHERE
    if partition.replicas == move.after:
        return Seen.AFTER
    return Seen.BEFORE if set(partition.replicas) == set(move.before) else Seen.ELSEWHERE
