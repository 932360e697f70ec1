"""The records that retention may take of topics which groups hold (HOLD-1 to HOLD-5): none that is unread, unless a cap allows it.

A group may go back, and a commit without an answer may count or not. So a group has read up to the highest offset that it ever sent for a
partition, at most; retention of a leader that has heard of it takes less than that. What a cap lets go all the same is said in the leader's
log, of each group, with the offsets (HOLD-3). So is what a client deletes, records or a topic, before it is answered (HOLD-7).
"""

import contextlib
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from esp.model.ids import TopicPartition
from esp.model.retention_hold import DELETE_RECORDS, DELETE_TOPICS
from esp.replication.log_holds import UNHEARD, is_pattern
from esp.settings.topic import TopicSettings
from esp.simulation.checkers.group_checker import GroupHistory
from esp.simulation.checkers.log_start_checker import Taken
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note
from esp.simulation.machine.loop import Process, current_process

KNOWN_AFTER_S: Final = 20.0
"""A first commit that is older was answered before any leader asked that deletes now: questions are given up after half of that."""


TELLS: Final = "esp.broker.replication.retention_holds"
"""The logger that says which holds are broken."""

TELLS_UNKNOWN: Final = "esp.broker.holds.deletions"
"""The logger that says of which groups it is not known what they lose to a deletion."""

_ALL: Final = sys.maxsize
"""The end of what a group may have lost that is not known."""

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
    breaker: str
    """The cap or the request."""
    said_s: float


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
        self.held: set[TopicPartition] = set()
        """The partitions of which records were past the limits, and stayed for a hold alone."""
        self.breaks = 0
        """Groups that lost offsets to a cap, and of which a leader said so."""
        self.deletions = 0
        """Groups that lost offsets to a client's deletion of records, and of which a node said so."""
        self.topic_deletions = 0
        """Groups that lost offsets to the deletion of a topic, and of which a node said so."""
        self._groups = groups
        self._is_excused = is_excused
        self._clock = clock
        self._deleted: set[str] = set()
        self._broken: list[_Broken] = []
        self._said: list[_Said] = []
        self._said_of_deletions: list[_Said] = []

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
            if self._is_excused(group_id):
                continue
            if group_id in self._deleted:
                if taken.end_offset > offset:
                    note(Excuse.DELETED_GROUPS)
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

    def on_records_deleted(
        self, partition: TopicPartition, names: Iterable[str], start_offset: int, offset: int
    ) -> None:
        """A client hears that records are deleted: of each group that has not read them a node has said so by now.

        Args:
            partition: of which.
            names: the groups that hold it.
            start_offset: the offset at which the log began before, at most.
            offset: the end of what is deleted.

        Raises:
            ViolationError: INV-HOLD.
        """
        self.deletions += self._check_said(partition, names, start_offset, offset, DELETE_RECORDS)

    def on_topic_deleted(
        self, partition: TopicPartition, names: Iterable[str], start_offset: int, end_offset: int, asked_s: float
    ) -> None:
        """A client hears that a topic is deleted: of each group that has not read all of it a node has said so since it was asked.

        Args:
            partition: of the topic.
            names: the groups that hold it. Patterns are passed over: they mean groups that have committed to this topic of the name, and
                histories do not tell it from those before it.
            start_offset: the offset at which the log began, at most.
            end_offset: the end of what was committed, at least.
            asked_s: when the client asked. Lines from before are of another topic of the name.

        Raises:
            ViolationError: INV-HOLD.
        """
        exact = [name for name in names if not is_pattern(name)]
        self.topic_deletions += self._check_said(partition, exact, start_offset, end_offset, DELETE_TOPICS, asked_s)

    def _check_said(
        self,
        partition: TopicPartition,
        names: Iterable[str],
        start_offset: int,
        end_offset: int,
        breaker: str,
        since_s: float = 0.0,
    ) -> int:
        """Return the number of groups that have lost offsets to a client, of each of which a node has said so.

        Raises:
            ViolationError: INV-HOLD.
        """
        count = 0
        for group_id, read in self._read(partition, names).items():
            start = max(read, start_offset)
            if start >= end_offset or self._is_excused(group_id):
                continue
            if group_id in self._deleted:
                note(Excuse.DELETED_GROUPS)
                continue
            said = [
                each
                for each in self._said_of_deletions
                if (each.partition, each.breaker) == (partition, breaker) and each.said_s >= since_s
            ]
            if not _covers(said, group_id, start, end_offset):
                raise ViolationError(
                    "INV-HOLD",
                    f"{partition}",
                    f"is deleted from offset {start} to {end_offset - 1}, which {group_id} has not read, and no node says so",
                )
            count += 1
        return count

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
        said = [each for each in self._said if each[:2] == (broken.process, broken.partition)]
        return _covers(said, broken.group_id, broken.start_offset, broken.end_offset)

    def emit(self, record: logging.LogRecord) -> None:
        """See :class:`logging.Handler`."""
        if not isinstance(record.args, tuple):
            return
        if record.msg.startswith("%s: the hold of group %s is broken by"):
            partition, group_id, breaker, first, last = record.args
            assert isinstance(partition, TopicPartition), "a replica's name"
            assert isinstance(first, int), "an offset"
            assert isinstance(last, int), "an offset"
            said = self._said_of_deletions if breaker in (DELETE_RECORDS, DELETE_TOPICS) else self._said
            now_s = self._clock()
            said.append(
                _Said(current_process(), partition, str(group_id), first, last + 1, breaker=str(breaker), said_s=now_s)
            )
        elif record.msg.startswith("%s: groups %s hold its records, which are deleted by"):
            partition, groups, breaker = record.args
            assert isinstance(partition, TopicPartition), "a replica's name"
            now_s = self._clock()
            self._said_of_deletions += (
                _Said(current_process(), partition, group_id, 0, _ALL, breaker=str(breaker), said_s=now_s)
                for group_id in str(groups).split(", ")
            )

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Listen until the block ends."""
        loggers = [logging.getLogger(name) for name in (TELLS, TELLS_UNKNOWN)]
        levels = [logger.level for logger in loggers]
        for logger in loggers:
            logger.setLevel(logging.WARNING)
            logger.addHandler(self)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.removeHandler(self)
                logger.setLevel(level)

    def _read(self, partition: TopicPartition, names: Iterable[str]) -> dict[str, int]:
        """The groups that hold a partition, and the offset up to which each can have read it."""
        read: dict[str, int] = {}
        for name in names:
            if not is_pattern(name):
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


def _covers(said: Iterable[_Said], group_id: str, start_offset: int, end_offset: int) -> bool:
    """True if lines, in their order, name all of a group's offsets from one to another."""
    place = start_offset
    for each in said:
        if each.group_id in (group_id, UNHEARD) and each.start_offset <= place:
            place = max(place, each.end_offset)
    return place >= end_offset
