"""Holds what members of consumer groups (KIP-848) were told, and what stands in the log, against what a group promises.

The log is replayed, batch by batch as it is seen to be committed, into a group of its own. A member holds a partition from the answer on
that told it so, until it gives it back, or the log says that the member is gone: it left, its time was over, or another process took its
place. What a coordinator tells that has been replaced, and what comes late, counts for nothing, as the log had gone on by then.

A group may move to the classic protocol and back. There a generation ends what members held before it, but for partitions that one of
them said to have when it joined, and that no member got: those it gives back. The generation is the epoch of the other protocol.

That a classic group is empty may stand nowhere in the log, which refuses records while a partition has too few replicas: the time of its
last member is over all the same. So a classic group moves only if its members come along, and else it has given way, and another begins:
but not while one of them was heard a moment ago.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from esp.groups.consumer.group import ConsumerGroup
from esp.groups.embedded_protocol import read_assignment, read_subscription
from esp.groups.group import PROTOCOL_TYPE
from esp.groups.requests import JOIN_EPOCH
from esp.model.errors import CorruptionError
from esp.model.ids import TopicId, TopicPartition
from esp.records.batch import iterate_records
from esp.schemas.consumer_group_record_codec import decode_consumer_group_record
from esp.schemas.consumer_group_records import (
    ConsumerGroupRecord,
    ConsumerGroupRecordType,
    CurrentValue,
    GroupEpochValue,
    TargetEpochValue,
    TopicIdPartition,
)
from esp.schemas.group_record_codec import decode_group_record
from esp.schemas.group_records import GroupMetadataRecord, GroupMetadataValue
from esp.simulation.checkers.assignment_moves import Targets, count_moves, count_needed_moves
from esp.simulation.checkers.group_replay import GroupReplay
from esp.simulation.checkers.replica_view import BatchView
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note

NEVER_S: Final = -1.0
FASTEST_CLOCK: Final = 1.25
"""No clock of a node is so much faster than virtual time."""
UNIFORM: Final = "uniform"
"""The assignor that the checker knows, which is that of no wish."""

_Type = ConsumerGroupRecordType


@dataclass(slots=True)
class _Hold:
    """A member that was told of a partition, and has not given it back."""

    member_id: str
    told_s: float
    epoch: int


class _Before(NamedTuple):
    """A group before an operation."""

    assignment_epoch: int
    targets: Targets
    members: Collection[str]
    level: int
    """Its epoch, or its generation."""
    classic: GroupMetadataValue | None
    """The group of the classic protocol, if it was one."""
    came_along: set[str]
    """Members of it as a classic group that the operation has written into the consumer group."""

    @property
    def is_classic(self) -> bool:
        """True if it was a group of the classic protocol."""
        return self.classic is not None

    def note_member(self, member_id: str) -> None:
        """The operation writes a member into the consumer group; it may take it out again, as another one takes its place."""
        if self.is_classic and member_id in self.members:
            self.came_along.add(member_id)

    @property
    def has_given_way(self) -> bool:
        """True if it was a classic group, none of whose members came along."""
        return self.is_classic and not self.came_along


@dataclass(slots=True)
class _History:
    """All that is known of one group."""

    replay: GroupReplay[ConsumerGroup, ConsumerGroupRecord]
    holds: dict[TopicIdPartition, list[_Hold]] = field(default_factory=dict)
    gone_s: dict[str, float] = field(default_factory=dict)
    """The time at which the log said last that a member is gone."""
    heard_s: dict[str, float] = field(default_factory=dict)
    """The time at which a member of the classic protocol asked last what was answered as to a member."""
    epochs: dict[tuple[_Type, str], int] = field(default_factory=dict)
    """The highest epoch of the group, of the assignment and of each member."""
    classic: GroupMetadataValue | None = None
    """The group of the classic protocol, if it is one."""

    @property
    def group(self) -> ConsumerGroup:
        """The group by its committed records."""
        return self.replay.group

    @property
    def members(self) -> frozenset[str]:
        """The ids of its members, of whichever protocol."""
        classic = () if self.classic is None else self.classic.members
        return frozenset(member.member_id for member in (*self.group, *classic))

    @property
    def level(self) -> int:
        """Its epoch, or its generation."""
        return self.group.epoch if self.classic is None else self.classic.generation


class ConsumerGroupChecker:
    """Keeps the history of each group.

    Args:
        clock: virtual seconds.
        is_excused: whether more of a group's partition of ``__consumer_offsets`` was lost than is promised (ELECT-5).
        rng: decides what compaction takes from the log of a group before it is replayed once more.
        name_of: the name of a topic that stays, by its id; None of any other.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        is_excused: Callable[[str], bool],
        rng: Random,
        name_of: Callable[[TopicId], str | None] = lambda _topic_id: None,
    ) -> None:
        self.told = 0
        """Partitions of which a member was told."""
        self.outdated = 0
        """Answers that were no more true when they came."""
        self.replays = 0
        """The number of times that a coordinator's state was held against the replay of its log."""
        self.commits = 0
        """Acknowledged commits of members."""
        self.assignments = 0
        """Assignments of one subscription that were held against what balance asks for."""
        self.unwitnessed_ends = 0
        """Classic groups that gave way to another one although the last of their generations in the log has members."""
        self._clock = clock
        self._is_excused = is_excused
        self._rng = rng
        self._topic_name = name_of
        self._histories: dict[str, _History] = {}

    def history(self, group_id: str) -> _History:
        """The history of a group."""
        found = self._histories.get(group_id)
        if found is None:
            found = self._histories[group_id] = _History(GroupReplay(group_id, ConsumerGroup, self._rng))
        return found

    # The log.

    def on_committed(self, batches: Iterable[BatchView]) -> None:
        """Batches of ``__consumer_offsets`` were seen to be committed for the first time.

        Raises:
            ViolationError: INV-GROUP-EPOCH, INV-OWNER, INV-CONVERGE.
        """
        for batch in batches:
            if batch.is_control:
                continue
            touched: dict[str, _Before] = {}
            for record in iterate_records(batch.written()):
                assert record.key is not None, "a compacted topic has keys"
                decoded = decode_consumer_group_record(record.key, record.value)
                if decoded is not None:
                    before = self._touch(decoded.key.group_id, touched)
                    if decoded.key.type is _Type.MEMBER and decoded.value is not None:
                        before.note_member(decoded.key.name)
                    self._apply(decoded)
                    continue
                classic = decode_group_record(record.key, record.value)
                if isinstance(classic, GroupMetadataRecord):
                    self._touch(classic.key.group, touched)
                    self._apply_classic(classic)
            for group_id, before in touched.items():
                self._end_holds(self.history(group_id), before)
                if not self._is_excused(group_id):
                    self._check_operation(self.history(group_id), before)

    def _touch(self, group_id: str, touched: dict[str, _Before]) -> _Before:
        """Remember a group as it is before a batch."""
        before = touched.get(group_id)
        if before is None:
            history = self.history(group_id)
            group = history.group
            before = touched[group_id] = _Before(
                group.assignment_epoch,
                dict(group.targets),
                history.members,
                history.level,
                classic=history.classic,
                came_along=set(),
            )
        return before

    def _apply_classic(self, record: GroupMetadataRecord) -> None:
        history = self.history(record.key.group)
        history.classic = value = record.value
        if value is None or value.protocol_type != PROTOCOL_TYPE:
            return
        assigned = {one.member_id: _read(one.assignment) for one in value.members}
        claimed = {one.member_id: _read_owned(one.subscription) for one in value.members}
        taken = frozenset[TopicPartition]().union(*assigned.values())
        for partition, holds in history.holds.items():
            name = self._name_of(partition)
            holds[:] = [
                hold
                for hold in holds
                if name in assigned.get(hold.member_id, ())
                or (name not in taken and name in claimed.get(hold.member_id, ()))
            ]

    def _end_holds(self, history: _History, before: _Before) -> None:
        """Members that the log has no more hold nothing."""
        gone = sorted(frozenset(before.members) - history.members)
        for member_id in gone:
            history.gone_s[member_id] = self._clock()
        if gone:
            for holds in history.holds.values():
                holds[:] = [hold for hold in holds if hold.member_id not in gone]

    def _apply(self, record: ConsumerGroupRecord) -> None:
        key, value = record
        history = self.history(key.group_id)
        history.replay.apply(record)
        known = key.type, key.name
        if value is None:
            history.epochs.pop(known, None)
        elif isinstance(value, (GroupEpochValue, TargetEpochValue, CurrentValue)):
            highest = history.epochs.get(known, 0)
            if value.epoch < highest and value.epoch >= JOIN_EPOCH and not self._is_excused(key.group_id):
                what = f"the {key.type.name.lower()} of {key.name}" if key.name else f"the {key.type.name.lower()}"
                raise ViolationError("INV-GROUP-EPOCH", key.group_id, f"{what} fell from {highest} to {value.epoch}")
            history.epochs[known] = max(highest, value.epoch)

    def _check_operation(self, history: _History, before: _Before) -> None:
        """A batch is one operation, after which the group is as it must be."""
        group = history.group
        is_classic = history.classic is not None
        if is_classic and len(group):
            raise ViolationError("INV-OWNER", group.group_id, "it has members of both protocols apart from one another")
        moves = is_classic != before.is_classic and before.members and history.members
        if moves and before.has_given_way:
            self._check_end(history, before)
        elif moves and history.level < before.level:
            raise ViolationError(
                "INV-GROUP-EPOCH",
                group.group_id,
                f"it moved from one protocol to the other, and fell from {before.level} to {history.level}",
            )
        owners: dict[TopicIdPartition, str] = {}
        for member in group:
            for partition in (*member.current.assigned, *member.current.pending_revocation):
                owner = owners.setdefault(partition, member.member_id)
                if owner != member.member_id:
                    raise ViolationError(
                        "INV-OWNER", group.group_id, f"{partition} is {member.member_id}'s and {owner}'s in the log"
                    )
        if not group.is_forgotten and not len(group) and group.epoch != group.assignment_epoch:
            raise ViolationError(
                "INV-GROUP-EPOCH",
                group.group_id,
                f"it is empty, and its epoch {group.epoch} is not that of the assignment, {group.assignment_epoch}",
            )
        if len(group) and group.assignment_epoch != before.assignment_epoch and not before.is_classic:
            self._check_assignment(group, before)

    def _check_end(self, history: _History, before: _Before) -> None:
        """A classic group with members in the log has given way: no time of a member may be over a moment after the member was heard."""
        assert before.classic is not None, "a classic group"
        self.unwitnessed_ends += 1
        for member in before.classic.members:
            least_s = min(member.session_timeout_ms, member.rebalance_timeout_ms) / 1000 / FASTEST_CLOCK
            heard_s = history.heard_s.get(member.member_id, NEVER_S)
            if member.group_instance_id is None and heard_s >= 0 and self._clock() < heard_s + least_s:
                raise ViolationError(
                    "INV-GROUP-EPOCH",
                    history.group.group_id,
                    f"another group has taken its place, and {member.member_id} was heard at {heard_s:.3f}",
                )

    def _name_of(self, partition: TopicIdPartition) -> TopicPartition | None:
        name = self._topic_name(partition.topic_id)
        return None if name is None else TopicPartition(name, partition.partition)

    def _check_assignment(self, group: ConsumerGroup, before: _Before) -> None:
        """An assignment of ``uniform`` to members of one subscription is balanced, and moves no more than that asks for."""
        members = list(group)
        subscriptions = {group.topics_of(member.about) for member in members}
        asks_for_others = any(member.about.assignor not in {None, UNIFORM} for member in members)
        is_replacement = any(
            member.about.instance_id is not None and member.member_id not in before.members for member in members
        )
        if len(subscriptions) > 1 or asks_for_others or is_replacement:
            note(Excuse.UNCOUNTED_MOVES)
            return
        self.assignments += 1
        after = {member.member_id: group.target_of(member.member_id) for member in members}
        sizes = [len(partitions) for partitions in after.values()]
        if max(sizes) - min(sizes) > 1:
            raise ViolationError("INV-CONVERGE", group.group_id, f"members are to have {sizes} partitions")
        moves, needed = count_moves(before.targets, after), count_needed_moves(before.targets, after)
        if moves > needed:
            raise ViolationError(
                "INV-CONVERGE", group.group_id, f"{moves} partitions move, {needed} must: {before.targets} to {after}"
            )

    # Members.

    @staticmethod
    def on_epoch(group_id: str, member_id: str, epoch: int) -> None:
        """A heartbeat of a member that takes part was answered with this epoch.

        Raises:
            ViolationError: INV-GROUP-EPOCH: with this epoch its next heartbeat would be one that joins.
        """
        if epoch <= JOIN_EPOCH:
            raise ViolationError("INV-GROUP-EPOCH", group_id, f"{member_id} is a member in epoch {epoch}")

    def on_told(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        partitions: Iterable[TopicIdPartition],
        *,
        asked_s: float,
        is_newest: bool,
    ) -> None:
        """A member was told of its partitions.

        Raises:
            ViolationError: INV-OWNER.
        """
        history = self.history(group_id)
        if not is_newest or history.gone_s.get(member_id, NEVER_S) >= asked_s or self._is_excused(group_id):
            self.outdated += 1
            return
        for partition in partitions:
            holds = history.holds.setdefault(partition, [])
            other = next((hold for hold in holds if hold.member_id != member_id), None)
            if other is not None:
                raise ViolationError(
                    "INV-OWNER",
                    group_id,
                    f"{member_id} is given {partition}, which {other.member_id} has had since {other.told_s:.3f}",
                )
            if not holds:
                self.told += 1
                holds.append(_Hold(member_id, self._clock(), epoch))

    def on_heard(self, group_id: str, member_id: str, *, asked_s: float, is_newest: bool) -> None:
        """A member of the classic protocol got the answer of the newest coordinator, or of another one, that it is one."""
        if is_newest:
            self.history(group_id).heard_s[member_id] = asked_s

    def on_leaving(self, group_id: str, member_id: str) -> None:
        """A member of the classic protocol is about to leave."""
        self.history(group_id).heard_s.pop(member_id, None)

    def on_given_back(self, group_id: str, member_id: str, partitions: Iterable[TopicIdPartition]) -> None:
        """A member uses partitions no more; it will say so next."""
        holds = self.history(group_id).holds
        for partition in partitions:
            holds[partition] = [hold for hold in holds.get(partition, ()) if hold.member_id != member_id]

    def is_former(self, group_id: str, member_id: str, epoch: int) -> bool:
        """True if an epoch is over for a member, by the log: the coordinator knows that, too, when it hears from the member."""
        history = self.history(group_id)
        if history.classic is not None:
            return member_id not in history.members or history.classic.generation > epoch
        member = history.group.find(member_id)
        return member is None or member.current.epoch > epoch

    def on_commit(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        partition: TopicIdPartition,
        *,
        sent_s: float,
        was_former: bool,
    ) -> None:
        """A member's commit was acknowledged; ``was_former`` says what :meth:`is_former` did when it was sent.

        Raises:
            ViolationError: INV-COMMIT-OWNER.
        """
        self.commits += 1
        if not was_former:
            if all(hold.member_id != member_id for hold in self.history(group_id).holds.get(partition, ())):
                note(Excuse.UNHELD_COMMITS)
            return
        for hold in self.history(group_id).holds.get(partition, ()):
            is_others = hold.member_id != member_id and hold.told_s <= sent_s and hold.epoch > epoch
            if is_others and not self._is_excused(group_id):
                raise ViolationError(
                    "INV-COMMIT-OWNER",
                    group_id,
                    f"{member_id} committed {partition} in epoch {epoch}; "
                    f"{hold.member_id} has had it since {hold.told_s:.3f}, epoch {hold.epoch}",
                )

    def on_commit_refused(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        partition: TopicIdPartition,
        *,
        sent_s: float,
        is_newest: bool,
    ) -> None:
        """A member's commit was refused as one of a former epoch.

        Raises:
            ViolationError: INV-COMMIT-OWNER: the member has had the partition since before the answer with that epoch (KIP-1251).
        """
        history = self.history(group_id)
        if not is_newest or history.gone_s.get(member_id, NEVER_S) >= sent_s or self._is_excused(group_id):
            return
        held = next((hold for hold in history.holds.get(partition, ()) if hold.member_id == member_id), None)
        if held is not None and held.epoch <= epoch:
            raise ViolationError(
                "INV-COMMIT-OWNER",
                group_id,
                f"{member_id} may not commit {partition} in epoch {epoch}, and has had it since epoch {held.epoch}",
            )

    # Coordinators.

    def check_replay(self, where: str, group_id: str, committed: ConsumerGroup | None, *, is_classic: bool) -> None:
        """A coordinator shows its committed state, when the log has ended and nothing of it is on its way.

        Args:
            where: the coordinator's name.
            group_id: the group.
            committed: the group, if it is one of the consumer protocol.
            is_classic: whether it is one of the classic protocol.

        Raises:
            ViolationError: INV-GROUP-REPLAY.
        """
        if self._is_excused(group_id):
            return
        self.replays += 1
        classic = self.history(group_id).classic
        if (classic is None) if is_classic else (classic is not None and classic.members):
            raise ViolationError(
                "INV-GROUP-REPLAY", f"{where}, {group_id}", f"is classic: {is_classic}, its log {classic}"
            )
        self.history(group_id).replay.check(where, {} if committed is None else values(committed), values)


def _read(data: bytes) -> frozenset[TopicPartition]:
    """The partitions of an assignment; none if it is not one of consumers."""
    try:
        return frozenset(read_assignment(data).partitions)
    except CorruptionError:
        return frozenset()


def _read_owned(data: bytes) -> frozenset[TopicPartition]:
    """The partitions that a member says it has; none if it is no consumer."""
    try:
        return frozenset(read_subscription(data).owned)
    except CorruptionError:
        return frozenset()


def values(group: ConsumerGroup) -> dict[str, object]:
    """All that a group shows."""
    return {
        "epochs": (group.epoch, group.metadata_hash, group.assignment_epoch, group.assigned_ms),
        "members": {member.member_id: member for member in group},
        "targets": dict(group.targets),
        "regexes": dict(group.regexes),
    }
