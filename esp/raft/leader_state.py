"""What a leader remembers of its epoch: how far the replicas are, which fetches wait, which change of the voters is under way."""

from dataclasses import dataclass, field
from typing import ClassVar

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
from esp.raft.voters import VoterKey, VoterSet


@dataclass(slots=True)
class ParkedFetch:
    """A fetch that waits for something new."""

    token: object
    request: FetchRequest
    deadline_us: int


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

    def progress(self, voters: VoterSet, replica: VoterKey) -> ReplicaProgress:
        """The progress of a replica, which is known by its voter's key if it votes."""
        voter = voters.find(replica)
        return self.replicas.setdefault(replica if voter is None else voter.key, ReplicaProgress())

    def plan_high_watermark(self, voters: VoterSet, flushed_offset: int) -> int | None:
        """What a majority of the voters holds on its devices (RAFT-13); None while no record of this epoch is among it.

        This node counts only if it votes (KAFKA-16530), and by what it has flushed (RAFT-12).
        """
        offset = majority_offset([self._held(voter.key, flushed_offset) for voter in voters.voters])
        return offset if offset > self.epoch_start_offset else None

    def _held(self, key: VoterKey, flushed_offset: int) -> int:
        if key.is_same(self.local):
            return flushed_offset
        replica = self.replicas.get(key)
        return -1 if replica is None else replica.log_end_offset

    def majority_contact_us(self, voters: VoterSet, now_us: int) -> int:
        """The last time at which a majority of the voters, this node included if it votes, had fetched since."""
        return majority_offset([self._contact_us(voter.key, now_us) for voter in voters.voters])

    def _contact_us(self, key: VoterKey, now_us: int) -> int:
        if key.is_same(self.local):
            return now_us
        replica = self.replicas.get(key)
        contact_us = None if replica is None else replica.last_contact_us
        return self.began_us if contact_us is None else max(contact_us, self.began_us)

    def successors(self, voters: VoterSet) -> tuple[VoterKey, ...]:
        """The other voters, those with the longest logs first."""
        others = [voter.key for voter in voters.voters if not voter.key.is_same(self.local)]
        return tuple(sorted(others, key=lambda key: (-self._held(key, -1), key)))
