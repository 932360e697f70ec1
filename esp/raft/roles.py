"""The roles of a quorum member, and the transitions between them: Kafka's ``QuorumState`` (KIP-595, KIP-996).

Each role has a class for what a member remembers in it, and forgets with it. The leader's, :class:`LeaderState`, holds the progress of the
other members' logs, the fetches that wait, and the change of the voters that is under way. The leader knows the progress of a member from
its fetches in this epoch, and from nothing else.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

from esp.model.ids import NodeId
from esp.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoteRequest,
)
from esp.raft.snapshot import SnapshotId
from esp.raft.voters import Voter, VoterKey, VoterSet, majority_offset


@dataclass(slots=True)
class ReplicaProgress:
    """One replica. Times are monotonic microseconds, None before the first such event."""

    log_end_offset: int = -1
    """Up to here its log is the leader's and, a voter's, on its device (RAFT-11); -1 before its first fetch."""
    last_fetch_us: int | None = None
    last_caught_up_us: int | None = None
    """The last time at which it had everything that the leader had (ISR-2)."""
    last_contact_us: int | None = None
    """The last fetch of any kind."""
    leader_end_offset: int = -1
    """The leader's log end at the last fetch."""
    begin_request: BeginQuorumEpochRequest | None = None
    """In flight."""
    begin_at_us: int = 0
    """It is not notified of the epoch again before."""
    has_begun: bool = False
    """True if it knows of the epoch."""

    def on_contact(self, now_us: int) -> None:
        """It asked for something in this epoch, so it knows of it."""
        self.last_contact_us = now_us
        self.has_begun = True

    def on_fetch(self, now_us: int, offset: int, leader_end_offset: int) -> None:
        """It fetches at ``offset``, where its log was found to be a prefix of the leader's.

        A fetch that was overtaken by a later one takes nothing back: what was durable there stays so.
        """
        if offset >= leader_end_offset:
            self.last_caught_up_us = now_us
        elif offset >= self.leader_end_offset >= 0 and self.last_fetch_us is not None:
            self.last_caught_up_us = max(self.last_caught_up_us or 0, self.last_fetch_us)
        self.log_end_offset = max(self.log_end_offset, offset)
        self.last_fetch_us = now_us
        self.leader_end_offset = leader_end_offset

    def next_begin_us(self, interval_us: int) -> int:
        """The time of its next notification of the epoch: until it knows, and whenever it has not fetched for ``interval_us`` (RAFT-9)."""
        if not self.has_begun or self.last_contact_us is None:
            return self.begin_at_us
        return max(self.begin_at_us, self.last_contact_us + interval_us)


class Role(Enum):
    """The activity of a member in its epoch."""

    UNATTACHED = "unattached"
    """It follows no leader: it knows of none, or cannot reach the one it knows."""
    PROSPECTIVE = "prospective"
    """It asks whether it would be elected (pre-vote)."""
    CANDIDATE = "candidate"
    """It asks for votes; its own is its first."""
    LEADER = "leader"
    """A majority voted for it."""
    FOLLOWER = "follower"
    """It fetches from the leader."""
    RESIGNED = "resigned"
    """It led this epoch, and never leads it again (RAFT-5)."""


TRANSITIONS: Final[Mapping[Role, frozenset[Role]]] = MappingProxyType(
    {
        Role.UNATTACHED: frozenset({Role.UNATTACHED, Role.PROSPECTIVE, Role.FOLLOWER}),
        Role.PROSPECTIVE: frozenset({Role.UNATTACHED, Role.PROSPECTIVE, Role.CANDIDATE, Role.FOLLOWER}),
        Role.CANDIDATE: frozenset({Role.UNATTACHED, Role.PROSPECTIVE, Role.LEADER, Role.FOLLOWER}),
        Role.LEADER: frozenset({Role.UNATTACHED, Role.FOLLOWER, Role.RESIGNED}),
        Role.FOLLOWER: frozenset({Role.UNATTACHED, Role.PROSPECTIVE, Role.FOLLOWER}),
        Role.RESIGNED: frozenset({Role.UNATTACHED, Role.PROSPECTIVE, Role.FOLLOWER}),
    }
)
"""The roles that may follow each role.

Only a candidate becomes leader, and only a prospective one a candidate, in a new epoch. Within its epoch a leader can only resign.
"""


@dataclass(slots=True, kw_only=True)
class Unattached:
    """No leader is followed."""

    role: ClassVar[Role] = Role.UNATTACHED
    deadline_us: int
    """When a voter asks for an election."""
    poll_at_us: int
    """When an observer asks the next member for the leader."""
    in_flight: FetchRequest | None = None
    failures: int = 0
    """The number of members in a row that knew no leader."""


@dataclass(slots=True)
class Ballot:
    """The request to one voter for its vote."""

    request: VoteRequest | None = None
    """In flight."""
    retry_at_us: int = 0
    """The time at which it is asked (again)."""
    failures: int = 0


@dataclass(slots=True, kw_only=True)
class Election:
    """A round of votes; ``role`` says whether they are asked for in earnest."""

    role: Role
    deadline_us: int
    """When the round is given up."""
    ballots: dict[VoterKey, Ballot]
    """Voters that have not answered yet."""
    granted: set[VoterKey]
    rejected: set[VoterKey] = field(default_factory=set)
    """The voters that refused, and the voters whose process is gone."""
    may_return: bool
    """True if the leader of the epoch may be alive, so that losing a pre-vote means to follow it again."""


@dataclass(slots=True)
class SnapshotFetch:
    """A snapshot that is being fetched, and the number of bytes that are there."""

    snapshot_id: SnapshotId
    position: int = 0


@dataclass(slots=True, kw_only=True)
class Follower:
    """The leader is fetched from."""

    role: ClassVar[Role] = Role.FOLLOWER
    deadline_us: int
    """When the leader counts as lost."""
    has_fetched: bool = False
    """True if the leader has answered in this epoch: then it is alive, and no pre-vote is granted against it (RAFT-6)."""
    is_leader_gone: bool = False
    """True if the leader is known to lead no more: it has resigned, or its process is gone."""
    in_flight: FetchRequest | FetchSnapshotRequest | None = None
    retry_at_us: int = 0
    snapshot: SnapshotFetch | None = None
    update: UpdateVoterRequest | None = None
    update_at_us: int = 0
    """The time at which the leader is notified of this node's endpoints, if they are not in the voters' record."""


@dataclass(slots=True)
class Farewell:
    """One voter that is notified of the resignation."""

    request: EndQuorumEpochRequest | None = None
    retry_at_us: int = 0


@dataclass(slots=True, kw_only=True)
class Resigned:
    """The epoch was led by this node and is over."""

    role: ClassVar[Role] = Role.RESIGNED
    deadline_us: int
    """The time at which it asks for an election itself, if no other member has won one."""
    farewells: dict[NodeId, Farewell] = field(default_factory=dict)
    """Voters that have not confirmed yet."""
    preferred: tuple[VoterKey, ...] = ()


@dataclass(slots=True)
class ParkedFetch:
    """A fetch that waits for something new."""

    token: object
    request: FetchRequest
    deadline_us: int


class OtherVoter(NamedTuple):
    """A voter, not this node, and its progress."""

    voter: Voter
    progress: ReplicaProgress


@dataclass(slots=True, kw_only=True)
class VoterChange:
    """The one change of the voters that is under way (RAFT-41)."""

    request: AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest
    token: object
    deadline_us: int
    probe: BeginQuorumEpochRequest | None = None
    """In flight to a voter that is to be added: is it there, and is it the right one?"""
    is_reached: bool = False
    """True if the probe was answered well."""
    end_offset: int | None = None
    """The end of the batch with the new voters, once it is appended."""


@dataclass(slots=True, kw_only=True)
class LeaderState:
    """The leader of the epoch."""

    role: ClassVar[Role] = Role.LEADER
    local: VoterKey
    epoch_start_offset: int
    """Offset of the LeaderChange record."""
    began_us: int
    """When it was elected."""
    has_committed: bool = False
    """True if a record of the epoch is committed; before that, the high watermark is sent to no member (RAFT-13)."""
    replicas: dict[VoterKey, ReplicaProgress] = field(default_factory=dict)
    """Voters and observers, without this node."""
    parked: list[ParkedFetch] = field(default_factory=list)
    change: VoterChange | None = None
    remind_at_us: int = 0
    """No voter is notified of the epoch before (RAFT-9)."""
    _voters: VoterSet | None = None
    """The voters to which the next two fields belong."""
    _others: dict[NodeId, OtherVoter] = field(default_factory=dict)
    _quorum_deadline_us: int = 0

    def others(self, voters: VoterSet) -> Collection[OtherVoter]:
        """The voters without this node, each with its progress."""
        if voters is not self._voters:
            self._voters = voters
            self._quorum_deadline_us = self.remind_at_us = 0
            self._others = {
                voter.key.node_id: OtherVoter(voter, self.replicas.setdefault(voter.key, ReplicaProgress()))
                for voter in voters.voters
                if not voter.key.is_same(self.local)
            }
        return self._others.values()

    def progress(self, voters: VoterSet, replica: VoterKey) -> ReplicaProgress:
        """The progress of a replica, which is known by its voter's key if it votes."""
        self.others(voters)
        voter = voters.find(replica)
        if voter is not None and voter.key.node_id in self._others:
            return self._others[voter.key.node_id].progress
        return self.replicas.setdefault(replica if voter is None else voter.key, ReplicaProgress())

    def plan_high_watermark(self, voters: VoterSet, flushed_offset: int) -> int | None:
        """The offset up to which a majority of the voters has the log on its devices (RAFT-13); None before a record of this epoch is.

        This node counts only if it votes (KAFKA-16530), and by what it has flushed (RAFT-12).
        """
        held = [other.progress.log_end_offset for other in self.others(voters)]
        if len(held) < len(voters.voters):  # this node votes
            held.append(flushed_offset)
        offset = majority_offset(held)
        return offset if offset > self.epoch_start_offset else None

    def quorum_deadline_us(self, voters: VoterSet, now_us: int, timeout_us: int) -> int:
        """The time at which a majority of the voters, this node included if it votes, will not have fetched for ``timeout_us``.

        Contacts only move it later, so a time that was computed before is at most too early: it is computed anew when it has come.
        """
        others = self.others(voters)
        if now_us >= self._quorum_deadline_us:
            began_us = self.began_us
            contacts = [max(other.progress.last_contact_us or began_us, began_us) for other in others]
            if len(contacts) < len(voters.voters):  # this node votes
                contacts.append(now_us)
            self._quorum_deadline_us = majority_offset(contacts) + timeout_us
        return self._quorum_deadline_us

    def successors(self, voters: VoterSet) -> tuple[VoterKey, ...]:
        """The other voters, the longest logs first."""
        others = sorted(self.others(voters), key=lambda other: (-other.progress.log_end_offset, other.voter.key))
        return tuple(other.voter.key for other in others)
