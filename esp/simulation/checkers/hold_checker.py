"""The records that retention may take of topics which groups hold (HOLD-1 to HOLD-5): none that is unread, unless a cap allows it.

A group may go back, and a commit without an answer may count or not. So a group has read up to the highest offset that it ever sent for a
partition, at most; retention of a leader that has heard of it takes less than that.
"""

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

from esp.model.ids import TopicPartition
from esp.settings.topic import TopicSettings
from esp.simulation.checkers.group_checker import GroupHistory
from esp.simulation.checkers.violation import ViolationError

KNOWN_AFTER_S: Final = 20.0
"""A first commit that is older was answered before any leader asked that deletes now: questions are given up after half of that."""


class HoldChecker:
    """Compares what retention takes with what groups have sent.

    Args:
        groups: the histories of all groups, with the commits that they have sent; filled while the run goes on.
        is_excused: whether more of a group's commits was lost than is promised (ELECT-5).
        clock: virtual seconds.
    """

    def __init__(
        self, groups: Mapping[str, GroupHistory], is_excused: Callable[[str], bool], clock: Callable[[], float]
    ) -> None:
        self._groups = groups
        self._is_excused = is_excused
        self._clock = clock

    def on_taken(self, replica: str, partition: TopicPartition, settings: TopicSettings, end_offset: int) -> None:
        """Retention takes records below an offset, and no cap allows the last of them to go.

        Args:
            replica: its name and node.
            partition: the replica's.
            settings: the topic's.
            end_offset: the offset.

        Raises:
            ViolationError: INV-HOLD.
        """
        for group_id, offset in self._read(partition, settings.retention_hold_groups).items():
            if end_offset > offset and not self._is_excused(group_id):
                raise ViolationError(
                    "INV-HOLD",
                    replica,
                    f"gave up offsets below {end_offset}; {group_id} has read up to {offset} at most",
                )

    def _read(self, partition: TopicPartition, names: Iterable[str]) -> dict[str, int]:
        """The groups that hold a partition, and the offset up to which each can have read it."""
        read: dict[str, int] = {}
        for name in names:
            if "*" not in name:
                group = self._groups.get(name)
                sent = () if group is None else group.commits.get(partition, ())
                read[name] = max((each.offset for each in sent), default=0)
                continue
            for group_id, group in self._groups.items():
                sent = group.commits.get(partition, ())
                since = min((each.committed_s for each in sent if each.is_acked), default=None)
                if fnmatchcase(group_id, name) and since is not None and since <= self._clock() - KNOWN_AFTER_S:
                    read[group_id] = max(each.offset for each in sent)
        return read
