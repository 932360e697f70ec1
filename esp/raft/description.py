"""What a leader knows of its quorum: the content of DescribeQuorum (KIP-595, KIP-836, KIP-853)."""

from dataclasses import dataclass

from esp.model.ids import LeaderEpoch, NodeId
from esp.raft.voters import VoterKey, VoterSet


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """One replica, the leader among them. Times are monotonic microseconds of the leader, None if there was no such event."""

    key: VoterKey
    log_end_offset: int
    """-1 if the replica has not fetched in this epoch."""
    last_fetch_us: int | None
    last_caught_up_us: int | None


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The quorum as its leader sees it."""

    leader_id: NodeId
    leader_epoch: LeaderEpoch
    high_watermark: int | None
    voter_set: VoterSet
    voters: tuple[ReplicaDescription, ...]
    observers: tuple[ReplicaDescription, ...]
