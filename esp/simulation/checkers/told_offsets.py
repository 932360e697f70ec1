"""Holds what clients were told of a partition's offsets against what others were told before, across leaders (READ-1 to READ-6).

An answer counts as being of the leader epoch in which its broker led or followed, as the request named it or as the broker's own state
showed it when the request was sent and when the answer came. Where these differ the epoch is not known: the answer is held against what is
committed alone, and what it tells counts as told by the newest leader of that moment, which is the latest that it can be of.

The order is that of epochs first, and in one epoch that of time: of two answers of one leader epoch the later one is that whose request was
sent after the other had come. A leader that was replaced and does not know it may tell old offsets (BRK-9), so nothing that newer leaders
told is asked of it.
"""

import dataclasses
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from esp.model.ids import TopicId
from esp.simulation.checkers.committed import CommittedLog
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note
from esp.simulation.outcome import Outcome

Key = tuple[TopicId, int]

REPLACED_S: Final = 12.0
"""So long after its replacement a leader that reaches only clients may still believe that it leads: two heartbeats and a fetch time-out by
its own clock, on links that delay packets by seconds (BRK-9)."""

NEWEST_TIMES: Final = 3
"""The number of the newest known times of records, which a new leader may not have committed yet."""

UNKNOWN: Final = -1
"""An epoch or an offset that is not there."""


class Role(NamedTuple):
    """The role of a broker for a partition at a moment: its leader, or a follower of that."""

    life: int
    """The number of the life of its process."""
    is_leader: bool
    leader_epoch: int


class Asked(NamedTuple):
    """A request: its sender, partition and node, its time, and the leader epoch in which the asker believes, -1 if it does not say."""

    who: str
    key: Key
    node_id: int
    sent_s: float
    role: Role | None
    """The role of the node when the request was sent; None if it had no such replica, or none in service."""
    named_epoch: int = UNKNOWN


class Position(NamedTuple):
    """A reader's position: behind a record of this leader epoch."""

    offset: int
    epoch: int


class Rise:
    """The highest value that was told, by the leader epoch that told it and by when."""

    def __init__(self) -> None:
        self._told: dict[int, tuple[list[float], list[int]]] = {}

    def add(self, epoch: int, at_s: float, value: int) -> None:
        """A value was told."""
        times, values = self._told.setdefault(epoch, ([], []))
        if not values or value > values[-1]:
            times.append(at_s)
            values.append(value)

    def before(self, epoch: int, at_s: float) -> int:
        """The highest that was told in an epoch up to a moment; -1 if nothing was."""
        times, values = self._told.get(epoch, ((), ()))
        count = bisect_right(times, at_s)
        return values[count - 1] if count else UNKNOWN

    def up_to(self, epoch: int, at_s: float) -> int:
        """The highest of all earlier epochs, whenever it was told, and of this one up to a moment."""
        earlier = (values[-1] for told, (_, values) in self._told.items() if told < epoch)
        return max(self.before(epoch, at_s), max(earlier, default=UNKNOWN))

    @property
    def highest(self) -> int:
        """The highest of all."""
        return max((values[-1] for _, values in self._told.values()), default=UNKNOWN)


class _Partition:
    """The answers about one partition."""

    def __init__(self) -> None:
        self.ends = Rise()
        """High watermarks and latest offsets, and the ends of what was acknowledged; an epoch is the latest that it can be of."""
        self.own_ends = Rise()
        """High watermarks and offsets of which the leader and its epoch are known for certain."""
        self.starts = Rise()
        """Log starts, of leaders that are known for certain."""
        self.settled = Rise()
        """Leader epochs in which a client was told the latest offset: the high watermark has reached the epoch's start (HW-8)."""
        self.reads: dict[int, Rise] = {}
        """By the epoch of records, how far they were read."""
        self.first_read: dict[int, tuple[int, int]] = {}
        """By the epoch of records, the least offset at which any was read, and the latest epoch of a leader that can have told so."""
        self.at_time: dict[int, tuple[int, int, float]] = {}
        """By timestamp: the least offset of a record that is not older, the latest epoch of the leader that told it, and when."""
        self.newest_record = Rise()
        """The largest timestamps that were told of."""
        self.record_at: dict[int, int] = {}
        """Their offsets."""
        self.epochs: dict[int, float] = {}
        """Leader epochs by the metadata, ascending, and since when at the latest."""

    def replaced_s(self, epoch: int) -> float | None:
        """Since when there has been another leader than that of an epoch; None if there is none."""
        return next((since_s for newer, since_s in self.epochs.items() if newer > epoch), None)


class ToldOffsets:
    """Remembers, for each partition, the offsets that clients were told, and compares each answer with them.

    Args:
        committed: what is committed, by topic and partition; filled while the run goes on.
        newest_epoch: the leader epoch of a partition by the newest committed metadata; -1 if it is gone.
        log_start: the highest log start of any replica of a partition.
        clock: virtual seconds.
    """

    def __init__(
        self,
        committed: Mapping[Key, CommittedLog],
        newest_epoch: Callable[[TopicId, int], int],
        log_start: Callable[[Key], int],
        clock: Callable[[], float],
    ) -> None:
        self.answers = 0
        """The answers that were judged."""
        self.unplaced = 0
        """Answers of brokers that changed their roles meanwhile: they are held against what is committed alone."""
        self.stale = 0
        """Answers of leaders that had been replaced, behind what newer leaders had told (BRK-9)."""
        self.lower_starts = 0
        """Leaders that told a log start below that of a leader before them, whose log start they had not heard of yet (READ-3)."""
        self.unknown_newest = 0
        """Searches for the largest timestamp that found it in what is not committed yet, and so told nothing (READ-4)."""
        self._committed = committed
        self._newest_epoch = newest_epoch
        self._log_start = log_start
        self._clock = clock
        self._partitions: dict[Key, _Partition] = {}

    # What others see, too.

    def on_ack(self, key: Key, end_offset: int) -> None:
        """A producer was told that everything below an offset is committed."""
        told = self._of(key)
        told.ends.add(self._newest_epoch(*key), self._clock(), end_offset)

    def told_end(self, key: Key) -> int:
        """The highest end that any client was told of; 0 if none was."""
        return max(0, self._of(key).ends.highest)

    # Fetch.

    def on_fetched(
        self, asked: Asked, role: Role | None, high_watermark: int, log_start: int, reads: list[tuple[int, Position]]
    ) -> None:
        """A fetch was answered without an error.

        Args:
            asked: the request.
            role: what the node was when the answer came.
            high_watermark: as told.
            log_start: as told.
            reads: where each batch that came begins, and where one stands behind it.

        Raises:
            ViolationError: INV-READ-COMMITTED-HW, INV-READ-EPOCH, INV-READ-MONO.
        """
        committed = self._judge(asked)
        if committed is None:
            return
        told, now_s = self._of(asked.key), self._clock()
        self._check_end(asked, committed, high_watermark)
        place = self._place(asked, role)
        latest = self._latest(asked, place)
        if place is not None and place.is_leader:
            epoch = place.leader_epoch
            due = told.own_ends.before(epoch, asked.sent_s)
            if told.settled.before(epoch, asked.sent_s) != UNKNOWN:
                due = max(due, told.ends.up_to(epoch, asked.sent_s))
            if high_watermark < due:
                self._fail(
                    "INV-READ-MONO", asked, committed, f"is answered the high watermark {high_watermark}, after {due}"
                )
            self._count_stale(told, epoch, asked, high_watermark)
            self._take_start(asked, committed, epoch, log_start)
            told.own_ends.add(epoch, now_s, high_watermark)
        told.ends.add(latest, now_s, high_watermark)
        for begin, position in reads:
            told.reads.setdefault(position.epoch, Rise()).add(latest, now_s, position.offset)
            first = told.first_read.get(position.epoch)
            if first is None or begin < first[0]:
                told.first_read[position.epoch] = (begin, latest)

    def on_out_of_range(self, asked: Asked, role: Role | None, offset: int, last_epoch: int = UNKNOWN) -> None:
        """A fetch was answered with OFFSET_OUT_OF_RANGE.

        Just at the log start an asker that names the epoch before may be told so: an empty log may know no epoch any more (TRUNC-3).

        Raises:
            ViolationError: INV-READ-POSITION: a client had been told of that offset.
        """
        committed = self._judge(asked)
        log_start = self._log_start(asked.key)
        if committed is None or offset < log_start:
            return
        if offset == log_start and last_epoch != UNKNOWN:
            note(Excuse.FORGOTTEN_EPOCHS)
            return
        told = self._of(asked.key)
        place = self._place(asked, role)
        if offset > told.ends.highest or place is None:
            return
        due = told.ends.up_to(place.leader_epoch, asked.sent_s)
        replaced_s = told.replaced_s(place.leader_epoch)
        if offset <= due or (replaced_s is not None and replaced_s + REPLACED_S < asked.sent_s):
            since = "" if replaced_s is None else f", by a leader that was replaced at {replaced_s:.3f}"
            self._fail("INV-READ-POSITION", asked, committed, f"is answered that {offset} is out of range{since}")
        self.stale += 1

    def on_diverging(self, asked: Asked, role: Role | None, position: Position, epoch: int, end_offset: int) -> None:
        """A fetch was answered with another epoch end: the asker should cut its log.

        Raises:
            ViolationError: INV-EPOCH-END: it stands behind a committed record.
        """
        committed = self._judge(asked)
        place = self._place(asked, role)
        if committed is None or place is None:
            return
        due = self._known_end(asked, place, position.epoch)
        if position.offset <= due and position.offset > self._log_start(asked.key):
            self._fail(
                "INV-EPOCH-END",
                asked,
                committed,
                f"stands at {position} and is answered that epoch {epoch} ends at {end_offset}",
            )

    # ListOffsets.

    def on_latest(self, asked: Asked, role: Role | None, offset: int, leader_epoch: int) -> None:
        """A client was told the latest offset, by the leader of an epoch.

        Raises:
            ViolationError: INV-READ-COMMITTED-HW, INV-READ-EPOCH, INV-READ-MONO.
        """
        committed = self._judge(asked)
        if committed is None:
            return
        self._place(asked, role)
        told, now_s = self._of(asked.key), self._clock()
        self._check_end(asked, committed, offset)
        if UNKNOWN not in (asked.named_epoch, leader_epoch) and asked.named_epoch != leader_epoch:
            self._fail("INV-READ-EPOCH", asked, committed, f"is answered in epoch {leader_epoch}")
        due = told.ends.up_to(leader_epoch, asked.sent_s)
        if offset < due:
            self._fail(
                "INV-READ-MONO",
                asked,
                committed,
                f"is answered in epoch {leader_epoch} that {offset} is the latest, after {due}",
            )
        self._count_stale(told, leader_epoch, asked, offset)
        told.ends.add(leader_epoch, now_s, offset)
        told.own_ends.add(leader_epoch, now_s, offset)
        told.settled.add(leader_epoch, now_s, 0)

    def on_earliest(self, asked: Asked, role: Role | None, offset: int) -> None:
        """A client was told the earliest offset. Raises ViolationError: INV-READ-COMMITTED-HW, INV-READ-EPOCH, INV-READ-MONO."""
        committed = self._judge(asked)
        if committed is None:
            return
        self._check_end(asked, committed, offset)
        place = self._place(asked, role)
        if place is not None and place.is_leader:
            self._take_start(asked, committed, place.leader_epoch, offset)

    def on_time(self, asked: Asked, role: Role | None, wanted: int, timestamp: int, offset: int) -> None:
        """A client was told the first record that is not older than ``wanted``; -1 if there is none.

        Raises:
            ViolationError: INV-READ-COMMITTED-HW, INV-READ-EPOCH, INV-READ-MONO.
        """
        committed = self._judge(asked)
        if committed is None:
            return
        self._check_record(asked, committed, offset)
        if offset != UNKNOWN and timestamp < wanted:
            self._fail("INV-READ-MONO", asked, committed, f"asks for {wanted}, and is answered {timestamp} at {offset}")
        told, place = self._of(asked.key), self._place(asked, role)
        known = told.at_time.get(wanted)
        if known is not None and place is not None and known[0] >= self._log_start(asked.key):
            known_offset, known_epoch, known_s = known
            is_later = known_epoch < place.leader_epoch or (
                known_epoch == place.leader_epoch and known_s <= asked.sent_s
            )
            if is_later and (offset == UNKNOWN or offset > known_offset):
                self._fail(
                    "INV-READ-MONO",
                    asked,
                    committed,
                    f"asks for {wanted}, and is answered {offset}; a record at {known_offset} is not older",
                )
        if offset != UNKNOWN:
            self._note_time(told, wanted, offset, self._latest(asked, place))

    def on_record(self, key: Key, timestamp: int, offset: int) -> None:
        """A client read a record."""
        self._note_time(self._of(key), timestamp, offset, self._newest_epoch(*key))

    def known_time(self, key: Key, chance: float) -> int | None:
        """A timestamp of a record that a client knows; ``chance``, from 0 to 1, chooses: it is one of the last few half of the time."""
        times = list(self._of(key).at_time)
        if chance >= 0.5:
            times = times[-NEWEST_TIMES:]
        return times[int(2 * chance % 1 * len(times))] if times else None

    def on_max_timestamp(self, asked: Asked, role: Role | None, timestamp: int, offset: int) -> None:
        """A client was told which record has the largest timestamp; -1 if that is not known.

        Raises:
            ViolationError: INV-READ-COMMITTED-HW, INV-READ-EPOCH, INV-READ-MONO.
        """
        committed = self._judge(asked)
        if committed is None:
            return
        self._check_record(asked, committed, offset)
        told, place = self._of(asked.key), self._place(asked, role)
        if offset == UNKNOWN:
            self.unknown_newest += 1
            return
        if place is not None:
            due = told.newest_record.up_to(place.leader_epoch, asked.sent_s)
            if timestamp < due and told.record_at[due] >= self._log_start(asked.key):
                self._fail(
                    "INV-READ-MONO", asked, committed, f"is answered that {timestamp} is the largest time, after {due}"
                )
        told.newest_record.add(self._latest(asked, place), self._clock(), timestamp)
        told.record_at[timestamp] = offset

    # OffsetForLeaderEpoch.

    def on_epoch_end(self, asked: Asked, role: Role | None, wanted: int, epoch: int, end_offset: int) -> None:
        """A client was told where an epoch ends: that epoch, or the last one before it that is known; -1 if nothing is.

        Raises:
            ViolationError: INV-READ-EPOCH, INV-EPOCH-END.
        """
        committed = self._judge(asked)
        place = self._place(asked, role)
        if committed is None or place is None or wanted > place.leader_epoch:
            return
        due = self._known_end(asked, place, wanted)
        if due > self._log_start(asked.key) and (epoch != wanted or end_offset < due):
            self._fail(
                "INV-EPOCH-END",
                asked,
                committed,
                f"asks for epoch {wanted}, which reaches {due}, and is answered that {epoch} ends at {end_offset}",
            )
        for later, (begin, told_in) in self._of(asked.key).first_read.items():
            if later > wanted and told_in <= place.leader_epoch and end_offset > begin >= self._log_start(asked.key):
                self._fail(
                    "INV-EPOCH-END",
                    asked,
                    committed,
                    f"is answered that epoch {epoch} ends at {end_offset}; at {begin} stands a record of epoch {later}",
                )

    # -----------------------------------------------------------------------------------------------------------------------------

    def added_to(self, outcome: Outcome) -> Outcome:
        """The outcome of a run with the answers that were held against the rules, and those that were not."""
        return dataclasses.replace(
            outcome,
            told_offsets=self.answers,
            told_unplaced=self.unplaced,
            told_stale=self.stale,
            told_lower_starts=self.lower_starts,
            told_unknown_newest=self.unknown_newest,
        )

    def _of(self, key: Key) -> _Partition:
        return self._partitions.setdefault(key, _Partition())

    def _judge(self, asked: Asked) -> CommittedLog | None:
        """The committed log of the partition, if it has to keep what it promises."""
        committed = self._committed.get(asked.key)
        if committed is None or committed.is_excused:
            return None
        if self._newest_epoch(*asked.key) == UNKNOWN:
            note(Excuse.ANSWERS_OF_DELETED)
            return None
        self._of(asked.key).epochs.setdefault(self._newest_epoch(*asked.key), self._clock())
        if asked.role is None:  # it may even have answered for an older topic of that name
            self.unplaced += 1
            return None
        self.answers += 1
        return committed

    def _place(self, asked: Asked, role: Role | None) -> Role | None:
        """In which role and epoch the node answered, if that is certain.

        Raises:
            ViolationError: INV-READ-EPOCH: it answered for an epoch in which it is not.
        """
        if role is None or asked.role != role:
            self.unplaced += 1
            return None
        if asked.named_epoch not in (UNKNOWN, role.leader_epoch):
            committed = self._committed[asked.key]
            self._fail("INV-READ-EPOCH", asked, committed, f"is answered in epoch {role.leader_epoch}")
        return role

    def _latest(self, asked: Asked, place: Role | None) -> int:
        """The latest leader epoch of which an answer that has just come can be."""
        return place.leader_epoch if place is not None else self._newest_epoch(*asked.key)

    def _known_end(self, asked: Asked, place: Role, epoch: int) -> int:
        """The end of an epoch's records, by what clients got of leaders that were no newer than this one."""
        reads = self._of(asked.key).reads.get(epoch)
        return reads.up_to(place.leader_epoch, asked.sent_s) if reads is not None else UNKNOWN

    def _check_end(self, asked: Asked, committed: CommittedLog, offset: int) -> None:
        if offset > committed.end_offset:
            self._fail(
                "INV-READ-COMMITTED-HW", asked, committed, f"is answered {offset}, committed is {committed.end_offset}"
            )

    def _check_record(self, asked: Asked, committed: CommittedLog, offset: int) -> None:
        self._check_end(asked, committed, offset + 1 if offset != UNKNOWN else 0)

    def _take_start(self, asked: Asked, committed: CommittedLog, epoch: int, log_start: int) -> None:
        starts = self._of(asked.key).starts
        due = starts.before(epoch, asked.sent_s)
        if log_start < due:
            self._fail("INV-READ-MONO", asked, committed, f"is answered the log start {log_start}, after {due}")
        self.lower_starts += log_start < starts.up_to(epoch, asked.sent_s)
        starts.add(epoch, self._clock(), log_start)

    def _count_stale(self, told: _Partition, epoch: int, asked: Asked, offset: int) -> None:
        self.stale += epoch < self._newest_epoch(*asked.key) and offset < told.ends.highest

    def _note_time(self, told: _Partition, timestamp: int, offset: int, epoch: int) -> None:
        known = told.at_time.get(timestamp)
        if known is None or offset < known[0]:
            told.at_time[timestamp] = (offset, epoch, self._clock())

    @staticmethod
    def _fail(invariant: str, asked: Asked, committed: CommittedLog, details: str) -> None:
        where = f"{asked.who} of node {asked.node_id}, {committed.name}"
        epoch = f" for epoch {asked.named_epoch}" if asked.named_epoch != UNKNOWN else ""
        raise ViolationError(invariant, where, f"asked at {asked.sent_s:.6f}{epoch} {details}")
