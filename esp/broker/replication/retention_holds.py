"""The holds of the logs that this node leads, as retention asks for them, and what became of them (HOLD-1 to HOLD-5).

Nothing is known of groups between two passes of retention but the exact names that had committed. Groups are asked for when retention
would take something if nothing were held, right before it does: so holds cost nothing as long as nothing is due, and a new leader has
nothing to hear first.
"""

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from esp.broker.replication.hosted_partition import HostedPartition
from esp.model.ids import NO_LEADER_EPOCH, TopicPartition
from esp.model.retention_hold import WHOLE_LOG, BrokenHold, RetentionHold
from esp.model.shown_names import in_line
from esp.replication.log_holds import GroupHold, LogHolds, find_breaks, find_hold

log = logging.getLogger(__name__)


class Questions(Protocol):
    """The group coordinators; :class:`esp.broker.holds.position_questions.PositionQuestions` asks them."""

    async def ask(self, wanted: dict[TopicPartition, tuple[str, ...]]) -> dict[TopicPartition, dict[str, int] | None]:
        """Return by partition the offsets of the groups that hold it; None where they are not known."""


class Held(NamedTuple):
    """The answers about one log, and the groups and the epoch for which they count."""

    leader_epoch: int
    names: tuple[str, ...]
    groups: tuple[GroupHold, ...]


class RetentionHolds:
    """The holds of one node.

    Args:
        make_questions: called before group coordinators are asked for the first time, so that a node without holds loads nothing.
    """

    def __init__(self, make_questions: Callable[[], Questions]) -> None:
        self._make_questions = make_questions
        self._questions: Questions | None = None
        self._logs: dict[HostedPartition, LogHolds] = {}
        self.held_bytes: dict[HostedPartition, int] = {}
        """The bytes of each log that would have gone if nothing held them, as the last pass found it; of those that have some."""
        self.breaks: Counter[str] = Counter()
        """The times that records went which a group had not read, by the cap or the deletion that took them."""
        self.lost_offsets: Counter[str] = Counter()
        """The offsets that groups have lost so, by the same."""

    def hold_unasked(self, hosted: HostedPartition) -> RetentionHold | None:
        """The hold with which one finds out whether there is anything to ask for: replicas that do not lead take nothing."""
        return WHOLE_LOG if _has_holds(hosted) and hosted.leader is None else None

    def hold_of(self, hosted: HostedPartition, held: Held | None) -> RetentionHold | None:
        """The hold of a log at this moment.

        A replica that does not lead takes nothing but what is below the leader's log start, and so does a leader that has not asked: what
        was heard for another epoch, or for other groups, does not count.
        """
        if not _has_holds(hosted):
            return None
        settings, leader = hosted.log.settings, hosted.leader
        if (
            leader is None
            or held is None
            or (held.leader_epoch, held.names) != (leader.leader_epoch, settings.retention_hold_groups)
        ):
            return WHOLE_LOG
        return find_hold(held.groups, settings.retention_hold_max_ms, settings.retention_hold_max_bytes)

    async def hear(self, due: Iterable[HostedPartition]) -> dict[HostedPartition, Held]:
        """Ask for the groups that hold the logs among these which have holds and are led here."""
        asked = [
            (hosted, hosted.leader.leader_epoch, hosted.log.settings.retention_hold_groups)
            for hosted in due
            if _has_holds(hosted) and hosted.leader is not None
        ]
        if not asked:
            return {}
        heard = await self.ask({hosted.name: names for hosted, _epoch, names in asked})
        return {
            hosted: Held(
                epoch,
                names,
                self._log_of(hosted, epoch).find_holds(names, heard[hosted.name], hosted.log.high_watermark),
            )
            for hosted, epoch, names in asked
        }

    async def ask(self, wanted: dict[TopicPartition, tuple[str, ...]]) -> dict[TopicPartition, dict[str, int] | None]:
        """Ask the coordinators of the groups that hold these partitions, as :meth:`Questions.ask`."""
        if self._questions is None:
            self._questions = self._make_questions()
        return await self._questions.ask(wanted)

    def find_groups(
        self,
        hosted: HostedPartition | None,
        names: Sequence[str],
        positions: Mapping[str, int] | None,
        high_watermark: int | None,
    ) -> tuple[GroupHold, ...]:
        """The groups that hold a partition, wherever it is led, by what was heard of them.

        Args:
            hosted: its replica here. If that leads, what is known of groups that were deleted counts.
            names: the groups of ``retention.hold.groups``.
            positions: the positions that coordinators have sent.
            high_watermark: its leader's high watermark; None if it is not known.
        """
        leader = None if hosted is None else hosted.leader
        known = (
            LogHolds(NO_LEADER_EPOCH) if hosted is None or leader is None else self._log_of(hosted, leader.leader_epoch)
        )
        return known.find_holds(names, positions, sys.maxsize if high_watermark is None else high_watermark)

    def _log_of(self, hosted: HostedPartition, leader_epoch: int) -> LogHolds:
        known = self._logs.get(hosted)
        if known is None or known.leader_epoch != leader_epoch:
            known = self._logs[hosted] = LogHolds(leader_epoch)
        return known

    def on_broken(self, partition: TopicPartition, groups: Sequence[GroupHold], broken: Sequence[BrokenHold]) -> None:
        """Records have gone that these groups held."""
        for lost in find_breaks(groups, broken):
            self.breaks[lost.cap] += 1
            self.lost_offsets[lost.cap] += lost.end_offset - lost.from_offset
            log.warning(
                "%s: the hold of group %s is broken by %s: offsets %d to %d are deleted and were not read",
                partition,
                in_line(lost.group_id),
                lost.cap,
                lost.from_offset,
                lost.end_offset - 1,
            )

    def note_held(self, hosted: HostedPartition, held_bytes: int) -> None:
        """Take in the bytes of a log that a pass found to be kept by a hold alone."""
        if held_bytes and hosted.leader is not None:
            self.held_bytes[hosted] = held_bytes
        else:
            self.held_bytes.pop(hosted, None)

    def retain(self, replicas: Iterable[HostedPartition]) -> None:
        """Drop what is known of replicas that are not among ``replicas``."""
        if not self._logs and not self.held_bytes:
            return
        here = frozenset(replicas)
        self._logs = {hosted: known for hosted, known in self._logs.items() if hosted in here}
        self.held_bytes = {hosted: size for hosted, size in self.held_bytes.items() if hosted in here}


def _has_holds(hosted: HostedPartition) -> bool:
    """True if groups hold the records of the replica's topic."""
    return bool(hosted.log.settings.retention_hold_groups)
