"""Holds what members of consumer groups were told against what a group promises, from outside.

Three promises: a committed offset is there for good, until a later one was committed or it was deleted, and a deleted one is gone until it
is committed again; no member commits for a generation that others have
followed; a generation has one leader, and each partition one owner in it. Committed offsets are told apart by the text beside them, which
is another one in each commit, so that an offset that came back is seen even if it is the same number.

A coordinator that is cut off may tell what was true once, as in Kafka, but can get nothing into its log; so what asks for the newest is
held against answers alone that come from the node that the newest metadata names, in the epoch of which it knew when it was asked.
The knowledge that a client has when it asks was true before.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from esp.model.ids import TopicPartition
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note
from esp.simulation.workload.group_requests import Assignment, Identity

NO_OFFSET: Final = -1

OUTSIDE: Final = -1
"""The generation of a commit by a client that is no member."""

NEVER_S: Final = float("inf")


@dataclass(slots=True, eq=False)
class Commit:
    """An offset of one partition, as a client sent it; times in seconds."""

    offset: int
    metadata: str
    identity: Identity
    sent_s: float
    committed_s: float = NEVER_S
    """The time since which it is known to be committed: it was acknowledged, or a client was told of it."""
    is_acked: bool = False
    is_refused: bool = False

    def is_before(self, other: "Commit") -> bool:
        """True if it stands before the other in the log, if both do."""
        mine, others = self.identity.generation_id, other.identity.generation_id
        return self.committed_s <= other.sent_s or OUTSIDE < mine < others


@dataclass(slots=True, eq=False)
class Deletion:
    """The deletion of one partition's offset, as a client sent it; times in seconds."""

    sent_s: float
    done_s: float = NEVER_S
    """The time at which it was acknowledged."""
    is_refused: bool = False

    def has_taken(self, commit: Commit, at_s: float) -> bool:
        """True if it was acknowledged by a moment, and the commit stands before it in the log."""
        return self.done_s <= at_s and commit.committed_s <= self.sent_s

    def may_have_taken(self, commit: Commit) -> bool:
        """True if it may stand behind the commit in the log: one without an answer may come at any time."""
        return not self.is_refused and self.done_s >= commit.sent_s


@dataclass(slots=True)
class Held:
    """An assignment that a member was told of."""

    identity: Identity
    joined_s: float
    """The time at which its client asked to join without an id."""
    known_s: float
    """The time at which it was told of its id."""
    synced_s: float


@dataclass(slots=True)
class Generation:
    """A generation whose assignment a member was told of."""

    told_s: float
    plan: str
    owners: dict[TopicPartition, str] = field(default_factory=dict)


@dataclass(slots=True)
class GroupHistory:
    """All that is known of one group."""

    commits: dict[TopicPartition, list[Commit]] = field(default_factory=dict)
    deletions: dict[TopicPartition, list[Deletion]] = field(default_factory=dict)
    generations: dict[int, Generation] = field(default_factory=dict)
    instances: dict[str, list[Held]] = field(default_factory=dict)
    joined: dict[int, float] = field(default_factory=dict)
    """The generations that members joined, and when the first of them was told."""
    acked: int = 0

    def is_bare_at(self, generation_id: int, at_s: float) -> bool:
        """True if a higher generation was joined by a moment, of which no member had its assignment by then."""
        return any(number > generation_id and told_s <= at_s for number, told_s in self.joined.items())

    def newest_at(self, at_s: float) -> int:
        """The highest generation of which a member had the assignment at a moment."""
        return max((number for number, made in self.generations.items() if made.told_s <= at_s), default=OUTSIDE)


class GroupChecker:
    """Keeps the history of each group, and compares every answer to its members with it.

    Args:
        clock: virtual seconds.
        is_excused: whether more of a group's partition of ``__consumer_offsets`` was lost than is promised (ELECT-5).
        is_committed: whether a commit of a group, by the text beside it, stands in that partition below what is committed of it.
        expired: the commits of a group and partition that have expired, by the texts beside them, and the times since which it is known.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        is_excused: Callable[[str], bool],
        is_committed: Callable[[str, str], bool],
        expired: Callable[[str, TopicPartition], Mapping[str, float]] = lambda _group_id, _partition: {},
    ) -> None:
        self.groups: dict[str, GroupHistory] = {}
        self.expired_answers = 0
        """Answers that told of no offset of a partition, because every acknowledged one had expired."""
        self.acked_deletions = 0
        """Deletions of offsets that were acknowledged."""
        self._clock = clock
        self._is_excused = is_excused
        self._is_committed = is_committed
        self._expired = expired

    def group(self, group_id: str) -> GroupHistory:
        """The history of a group."""
        return self.groups.setdefault(group_id, GroupHistory())

    # Offsets.

    def on_commit_sent(
        self, identity: Identity, offsets: Mapping[TopicPartition, int], metadata: str
    ) -> dict[TopicPartition, Commit]:
        """A client commits offsets."""
        commits = {
            partition: Commit(offset, metadata, identity, self._clock()) for partition, offset in offsets.items()
        }
        known = self.group(identity.group_id).commits
        for partition, commit in commits.items():
            known.setdefault(partition, []).append(commit)
        return commits

    def on_committed(self, partition: TopicPartition, commit: Commit) -> None:
        """It was acknowledged.

        Raises:
            ViolationError: INV-GROUP-FENCED.
        """
        identity = commit.identity
        group = self.group(identity.group_id)
        group.acked += 1
        commit.is_acked = True
        commit.committed_s = min(commit.committed_s, self._clock())
        if identity.generation_id == OUTSIDE or self._is_excused(identity.group_id):
            return
        newest = group.newest_at(commit.sent_s)
        if newest > identity.generation_id:
            self._fail("INV-GROUP-FENCED", identity, f"committed {partition} when {newest} had its assignment")
        held = group.instances.get(identity.instance_id or "", ())
        known_s = next((one.known_s for one in held if one.identity.member_id == identity.member_id), NEVER_S)
        for other in held:  # the same process, or one of the same name
            if known_s <= other.joined_s and other.synced_s <= commit.sent_s:
                self._fail("INV-GROUP-FENCED", identity, f"committed {partition} as {other.identity} did its work")

    def on_refused(self, commit: Commit) -> None:
        """It was refused by a check that comes before anything is written."""
        commit.is_refused = True

    def on_deletion_sent(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Deletion]:
        """A client deletes offsets of a group, or all with the group."""
        deletions = {partition: Deletion(self._clock()) for partition in partitions}
        known = self.group(group_id).deletions
        for partition, deletion in deletions.items():
            known.setdefault(partition, []).append(deletion)
        return deletions

    def on_deleted(self, deletion: Deletion) -> None:
        """It was acknowledged."""
        deletion.done_s = self._clock()
        self.acked_deletions += 1

    def on_fetched(
        self, group_id: str, partition: TopicPartition, offset: int, metadata: str, *, asked_s: float, is_newest: bool
    ) -> None:
        """A client was told what is committed.

        Raises:
            ViolationError: INV-GROUP-OFFSETS.
        """
        if self._is_excused(group_id):
            return
        who = f"{group_id}, {partition}"
        sent = self.group(group_id).commits.get(partition, [])
        told = next((commit for commit in sent if commit.metadata == metadata), None) if metadata else None
        if told is None and offset != NO_OFFSET:
            raise ViolationError(
                "INV-GROUP-OFFSETS", who, f"returned {offset} ({metadata!r}), which was never committed"
            )
        if told is not None and (told.offset != offset or told.is_refused):
            raise ViolationError(
                "INV-GROUP-OFFSETS", who, f"returned {offset}, which does not match the outcome of {told}"
            )
        if told is not None and told.committed_s == NEVER_S and not self._is_committed(group_id, metadata):
            raise ViolationError("INV-GROUP-OFFSETS", who, f"returned {told}, which is not committed yet")
        if is_newest:
            expired = self._expired(group_id, partition)
            if told is not None and expired.get(told.metadata, NEVER_S) <= asked_s:
                raise ViolationError("INV-GROUP-OFFSETS", who, f"returned {told}, which had expired")
            deletions = self.group(group_id).deletions.get(partition, ())
            if told is not None and any(deletion.has_taken(told, asked_s) for deletion in deletions):
                raise ViolationError("INV-GROUP-OFFSETS", who, f"returned {told}, which had been deleted")
            lost = [
                commit
                for commit in sent
                if commit.committed_s <= asked_s
                and (told is None or told.is_before(commit))
                and not (told is None and any(deletion.has_taken(commit, asked_s) for deletion in deletions))
            ]
            if told is None and any(deletion.may_have_taken(commit) for commit in lost for deletion in deletions):
                lost = [commit for commit in lost if not any(one.may_have_taken(commit) for one in deletions)]
                note(Excuse.POSSIBLE_DELETIONS)
            for commit in lost:
                if told is not None or commit.metadata not in expired:
                    raise ViolationError("INV-GROUP-OFFSETS", who, f"returned {told}, and lost {commit}")
            self.expired_answers += bool(lost)
        else:
            note(Excuse.REPLACED_COORDINATORS)
        if told is not None:
            told.committed_s = min(told.committed_s, self._clock())

    # Generations.

    def on_joined(self, identity: Identity, *, asked_s: float, is_newest: bool) -> None:
        """A client was told its generation.

        Raises:
            ViolationError: INV-GROUP-GENERATION.
        """
        group = self.group(identity.group_id)
        if not is_newest:
            note(Excuse.REPLACED_COORDINATORS)
        elif not self._is_excused(identity.group_id):
            newest = group.newest_at(asked_s)
            if identity.generation_id < newest:
                self._fail("INV-GROUP-GENERATION", identity, f"joined, though {newest} had its assignment")
            if group.is_bare_at(identity.generation_id, asked_s):
                note(Excuse.BARE_GENERATIONS)
        group.joined.setdefault(identity.generation_id, self._clock())

    def on_synced(self, held: Held, assignment: Assignment, *, asked_s: float, is_newest: bool) -> None:
        """A member was told its assignment.

        Raises:
            ViolationError: INV-GROUP-GENERATION, INV-GROUP-LEADER, INV-GROUP-OWNER.
        """
        identity = held.identity
        group = self.group(identity.group_id)
        if self._is_excused(identity.group_id):
            return
        self.on_joined(identity, asked_s=asked_s, is_newest=is_newest)
        generation = group.generations.get(identity.generation_id)
        if generation is None:
            generation = group.generations[identity.generation_id] = Generation(held.synced_s, assignment.plan)
        if generation.plan != assignment.plan:
            self._fail("INV-GROUP-LEADER", identity, f"has its part of {assignment.plan}, others of {generation.plan}")
        name = identity.instance_id or identity.member_id
        if not _is_for(assignment, identity):
            self._fail("INV-GROUP-OWNER", identity, f"got the part of {assignment.member_id or 'no member'}")
        for partition in assignment.partitions:
            owner = generation.owners.setdefault(partition, name)
            if owner != name:
                self._fail("INV-GROUP-OWNER", identity, f"owns {partition}, as does {owner}")
        if identity.instance_id is not None:
            group.instances.setdefault(identity.instance_id, []).append(held)

    @staticmethod
    def _fail(invariant: str, identity: Identity, details: str) -> None:
        who = f"{identity.group_id}, generation {identity.generation_id}"
        raise ViolationError(invariant, who, f"{identity.instance_id or identity.member_id} {details}")


def _is_for(assignment: Assignment, identity: Identity) -> bool:
    """True if a leader made it for this member; a static one may have come back under another id, which begins with its name."""
    if identity.instance_id is None:
        return assignment.member_id == identity.member_id
    return assignment.member_id.startswith(f"{identity.instance_id}-")
