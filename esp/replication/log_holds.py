"""The groups that hold the records of one log, while this node leads it in one epoch (HOLD-1, HOLD-2).

A group is named exactly, or by a pattern in which ``*`` stands for any characters. A pattern means the groups that have committed an offset
of the partition. An exact name means its group from before the first commit on, with nothing read; once the leader has seen an offset of
it, the lack of one says that the group or its offset was deleted, and ends the hold. A new leader has seen none, and holds again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from esp.model.retention_hold import BrokenHold, RetentionHold

UNHEARD: Final = "(not known)"
"""Stands for a group while a coordinator has not told its groups' offsets."""


class GroupHold(NamedTuple):
    """A group, and the first offset that it has not read."""

    group_id: str
    offset: int


class Break(NamedTuple):
    """Offsets that went before a group had read them."""

    group_id: str
    from_offset: int
    end_offset: int
    cap: str
    """The setting that let them go, or the request."""


def is_pattern(name: str) -> bool:
    """True if a name of ``retention.hold.groups`` may mean several groups."""
    return "*" in name


class LogHolds:
    """The readers of one log, as far as they are known in one epoch of its leader.

    Args:
        leader_epoch: the epoch.
    """

    def __init__(self, leader_epoch: int) -> None:
        self.leader_epoch = leader_epoch
        self._have_committed: set[str] = set()
        """Groups with exact names that had an offset when the coordinators were asked before."""

    def find_holds(
        self, names: Sequence[str], positions: Mapping[str, int] | None, high_watermark: int
    ) -> tuple[GroupHold, ...]:
        """Return the groups that hold, with their offsets.

        Args:
            names: the groups of ``retention.hold.groups``.
            positions: the committed offsets of all groups that the names mean; None: not every coordinator has told.
            high_watermark: of the log. An offset behind it is of another log of this name, or of records that were lost, so that it does
                not say what was read of this one.
        """
        if positions is None:
            return (GroupHold(UNHEARD, 0),)
        holds = [
            GroupHold(group_id, max(0, offset) if offset <= high_watermark else 0)
            for group_id, offset in positions.items()
        ]
        for name in dict.fromkeys(names):
            if is_pattern(name):
                continue
            if name in positions:
                self._have_committed.add(name)
            elif name not in self._have_committed:
                holds.append(GroupHold(name, 0))
        return tuple(holds)


def find_hold(holds: Iterable[GroupHold], max_ms: int, max_bytes: int) -> RetentionHold | None:
    """Return the hold of these groups together, with the caps of the topic; None if there are none."""
    offsets = [hold.offset for hold in holds]
    return RetentionHold(min(offsets), max_ms, max_bytes) if offsets else None


def find_breaks(holds: Iterable[GroupHold], broken: Iterable[BrokenHold]) -> list[Break]:
    """Return for each group the offsets that it has lost to a cap."""
    broken = tuple(broken)
    return [
        Break(hold.group_id, max(hold.offset, each.from_offset), each.end_offset, each.cap)
        for hold in holds
        for each in broken
        if hold.offset < each.end_offset
    ]
