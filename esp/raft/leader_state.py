"""What a leader remembers of its epoch: how far the replicas are, which fetches wait, which change of the voters is under way."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from esp.model.ids import NodeId
from esp.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    FetchRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
)
from esp.raft.quorum import majority_offset
from esp.raft.replica_progress import ReplicaProgress
from esp.raft.roles import Role
from esp.raft.voters import Voter, VoterKey, VoterSet


@dataclass(slots=True)
class ParkedFetch:
    """A fetch that waits for something new."""

    token: object
    request: FetchRequest
    deadline_us: int


class OtherVoter(NamedTuple):
    """A voter, not this node, and how far it is."""

    voter: Voter
    progress: ReplicaProgress


@dataclass(slots=True, kw_only=True)
class VoterChange:
    """The one change of the voters that is under way (RAFT-41)."""

    request: AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest
    token: object
    deadline_us: int
    probe: BeginQuorumEpochRequest | None = None
    """In flight to a voter that is to be added: is it there, and the one that it should be?"""
    is_reached: bool = False
    """Whether the probe was answered well."""
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
    """Whether a record of the epoch is committed; before, the high watermark is told to nobody (RAFT-13)."""
    replicas: dict[VoterKey, ReplicaProgress] = field(default_factory=dict)
    """Voters and observers, without this node."""
    parked: list[ParkedFetch] = field(default_factory=list)
    change: VoterChange | None = None
    remind_at_us: int = 0
    """No voter is to be told of the epoch before (RAFT-9)."""
    _voters: VoterSet | None = None
    """The voters of whom the next two are told."""
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
        """What a majority of the voters holds on its devices (RAFT-13); None while no record of this epoch is among it.

        This node counts only if it votes (KAFKA-16530), and by what it has flushed (RAFT-12).
        """
        held = [other.progress.log_end_offset for other in self.others(voters)]
        if len(held) < len(voters.voters):  # this node votes
            held.append(flushed_offset)
        offset = majority_offset(held)
        return offset if offset > self.epoch_start_offset else None

    def quorum_deadline_us(self, voters: VoterSet, now_us: int, timeout_us: int) -> int:
        """When a majority of the voters, this node included if it votes, will not have fetched for ``timeout_us``.

        Contacts only come nearer, so a moment that was found before is at most too early: it is found anew when it has come.
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
        """The other voters, those with the longest logs first."""
        others = sorted(self.others(voters), key=lambda other: (-other.progress.log_end_offset, other.voter.key))
        return tuple(other.voter.key for other in others)
