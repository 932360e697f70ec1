"""The records that retention may take of topics which groups hold (HOLD-1 to HOLD-5): none that is unread, unless a cap allows it.

A group may go back, and a commit without an answer may count or not. So a group has read up to the highest offset that it ever sent for a
partition, at most; retention of a leader that has heard of it takes less than that. What a cap lets go all the same is said in the leader's
log, of each group, with the offsets (HOLD-3).
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from esp.model.ids import TopicPartition
from esp.replication.log_holds import UNHEARD
from esp.settings.topic import TopicSettings
from esp.simulation.checkers.group_checker import GroupHistory
from esp.simulation.checkers.log_start_checker import Taken
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.loop import Process, current_process

KNOWN_AFTER_S: Final = 20.0
"""A first commit that is older was answered before any leader asked that deletes now: questions are given up after half of that."""


TELLS: Final = "esp.broker.replication.retention_holds"
"""The logger that says which holds are broken."""

TELLING_S: Final = 5.0
"""A line about a break follows the deletion in this time, unless the process ends."""


class _Broken(NamedTuple):
    """Offsets that a group has not read, and that a cap lets go."""

    process: Process | None
    replica: str
    partition: TopicPartition
    group_id: str
    start_offset: int
    end_offset: int
    due_s: float


class _Said(NamedTuple):
    """A line of a leader's log."""

    process: Process | None
    partition: TopicPartition
    group_id: str
    start_offset: int
    end_offset: int


class HoldChecker(logging.Handler):
    """Compares what retention takes with what groups have sent, and with what leaders say.

    Args:
        groups: the histories of all groups, with the commits that they have sent; filled while the run goes on.
        is_excused: whether more of a group's commits was lost than is promised (ELECT-5).
        clock: virtual seconds.
    """

    def __init__(
        self, groups: Mapping[str, GroupHistory], is_excused: Callable[[str], bool], clock: Callable[[], float]
    ) -> None:
        super().__init__(logging.WARNING)
        self.breaks = 0
        """Groups that lost offsets to a cap, and of which a leader said so."""
        self._groups = groups
        self._is_excused = is_excused
        self._clock = clock
        self._deleted: set[str] = set()
        self._broken: list[_Broken] = []
        self._said: list[_Said] = []

    def on_deleting(self, group_id: str) -> None:
        """A group is about to be deleted: it holds nothing any more."""
        self._deleted.add(group_id)

    def on_taken(self, replica: str, partition: TopicPartition, settings: TopicSettings, taken: Taken) -> None:
        """Retention takes records.

        Args:
            replica: its name and node.
            partition: the replica's.
            settings: the topic's.
            taken: the records.

        Raises:
            ViolationError: INV-HOLD.
        """
        for group_id, offset in self._read(partition, settings.retention_hold_groups).items():
            if self._is_excused(group_id) or group_id in self._deleted:
                continue
            if taken.uncapped_end > offset:
                raise ViolationError(
                    "INV-HOLD",
                    replica,
                    f"gave up offsets below {taken.uncapped_end}; {group_id} has read up to {offset} at most",
                )
            if taken.end_offset > offset:
                start_offset, due_s = max(offset, taken.start_offset), self._clock() + TELLING_S
                self._broken.append(
                    _Broken(current_process(), replica, partition, group_id, start_offset, taken.end_offset, due_s)
                )

    def look(self) -> None:
        """Look for breaks that were not told in time. Raises ViolationError: INV-HOLD."""
        waiting = []
        for broken in self._broken:
            if self._is_told(broken):
                self.breaks += 1
            elif broken.process is None or broken.process.alive:
                if broken.due_s <= self._clock():
                    raise ViolationError(
                        "INV-HOLD",
                        broken.replica,
                        f"gave up offsets {broken.start_offset} to {broken.end_offset - 1}, which {broken.group_id} has not read, "
                        "and does not say so",
                    )
                waiting.append(broken)
        self._broken = waiting
        if not waiting:
            self._said.clear()

    def _is_told(self, broken: _Broken) -> bool:
        place = broken.start_offset
        for said in self._said:
            is_about = said.group_id in (broken.group_id, UNHEARD) and said.start_offset <= place
            if said[:2] == (broken.process, broken.partition) and is_about:
                place = max(place, said.end_offset)
        return place >= broken.end_offset

    def emit(self, record: logging.LogRecord) -> None:
        """See :class:`logging.Handler`."""
        if isinstance(record.args, tuple) and record.msg.startswith("%s: the hold of group %s is broken by"):
            partition, group_id, _cap, first, last = record.args
            assert isinstance(partition, TopicPartition), "a replica's name"
            assert isinstance(first, int), "an offset"
            assert isinstance(last, int), "an offset"
            self._said.append(_Said(current_process(), partition, str(group_id), first, last + 1))

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Listen until the block ends."""
        logger = logging.getLogger(TELLS)
        level = logger.level
        logger.setLevel(logging.WARNING)
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.setLevel(level)

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
