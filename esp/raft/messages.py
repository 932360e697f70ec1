"""Requests and answers of the quorum's members: Kafka's raft messages without their wire form (KIP-595, 630, 853, 996).

The driver translates between these and the wire. ``cluster_id`` None means that the sender did not say it. A directory id of zero means
that the sender did not say it, or does not know it (static voters).
"""

from msgspec import Struct

from esp.model.buffers import Buffer
from esp.model.errors import ErrorCode
from esp.model.ids import NO_NODE, LeaderEpoch, NodeId
from esp.raft.snapshot import SnapshotId
from esp.raft.voters import VoterEndpoint, VoterKey


class Response(Struct, frozen=True, kw_only=True):
    """The fields of every answer: the error of the request, and the leader that the sender follows in its epoch."""

    error: ErrorCode = ErrorCode.none
    leader_epoch: LeaderEpoch
    """The epoch of the member that answers."""
    leader_id: NodeId = NO_NODE
    """The leader of that epoch, as far as it is known."""
    leader_endpoints: tuple[VoterEndpoint, ...] = ()
    """Where that leader listens, as far as it is known; the wire has the endpoint of the listener that was asked alone."""


class VoteRequest(Struct, frozen=True, kw_only=True):
    """A candidate asks for a vote, or whether it would get one (``pre_vote``; KIP-996)."""

    cluster_id: str | None
    voter: VoterKey
    """The voter that is asked; a node with another directory does not answer for it (RAFT-15)."""
    candidate_epoch: LeaderEpoch
    candidate: VoterKey
    last_epoch: int
    """Epoch of the last batch in the candidate's log."""
    last_epoch_end_offset: int
    """The candidate's log end offset."""
    pre_vote: bool


class VoteResponse(Response, frozen=True, kw_only=True):
    """The answer to a :class:`VoteRequest`."""

    is_granted: bool = False


class BeginQuorumEpochRequest(Struct, frozen=True, kw_only=True):
    """A leader makes itself known to a voter."""

    cluster_id: str | None
    voter: VoterKey
    leader_id: NodeId
    leader_epoch: LeaderEpoch
    leader_endpoints: tuple[VoterEndpoint, ...]


class BeginQuorumEpochResponse(Response, frozen=True, kw_only=True):
    """The answer to a :class:`BeginQuorumEpochRequest`."""


class EndQuorumEpochRequest(Struct, frozen=True, kw_only=True):
    """A leader gives up its epoch."""

    cluster_id: str | None
    leader_id: NodeId
    leader_epoch: LeaderEpoch
    preferred_candidates: tuple[VoterKey, ...]
    """The voters that should stand for election, the one with the longest log first."""
    leader_endpoints: tuple[VoterEndpoint, ...]


class EndQuorumEpochResponse(Response, frozen=True, kw_only=True):
    """The answer to an :class:`EndQuorumEpochRequest`."""


class EpochEnd(Struct, frozen=True):
    """The end of an epoch in the leader's log (LOG-11)."""

    epoch: int
    end_offset: int


class FetchRequest(Struct, frozen=True, kw_only=True):
    """A member asks for the records behind its log; from a voter it also says that the log below is on its device (RAFT-11)."""

    cluster_id: str | None
    replica: VoterKey
    current_leader_epoch: LeaderEpoch
    fetch_offset: int
    """The sender's log end offset."""
    last_fetched_epoch: int
    """Epoch of the last batch below ``fetch_offset``; 0 if there is none."""
    high_watermark: int | None
    """The high watermark that the sender knows (KIP-1166); None if it did not give one."""
    max_wait_ms: int
    """The time for which the leader may hold the answer back while there is nothing new."""
    max_bytes: int


class FetchResponse(Response, frozen=True, kw_only=True):
    """The answer to a :class:`FetchRequest`: records, or the end of the common epoch, or a snapshot to begin from."""

    high_watermark: int | None = None
    """None while the leader does not know it."""
    log_start_offset: int = -1
    diverging_epoch: EpochEnd | None = None
    snapshot_id: SnapshotId | None = None
    records: Buffer = b""
    """Whole batches, unchecked; the driver of the leader reads them (:class:`~esp.raft.effects.ReadRecords`)."""


class FetchSnapshotRequest(Struct, frozen=True, kw_only=True):
    """A member asks for a piece of a snapshot."""

    cluster_id: str | None
    replica: VoterKey
    current_leader_epoch: LeaderEpoch
    snapshot_id: SnapshotId
    position: int
    max_bytes: int


class FetchSnapshotResponse(Response, frozen=True, kw_only=True):
    """The answer to a :class:`FetchSnapshotRequest`."""

    snapshot_id: SnapshotId
    size: int = 0
    """Bytes of the whole snapshot."""
    position: int = 0
    data: Buffer = b""


class AddVoterRequest(Struct, frozen=True, kw_only=True):
    """An operator, or the observer itself, wants an observer to become a voter (RAFT-42)."""

    cluster_id: str | None
    voter: VoterKey
    endpoints: tuple[VoterEndpoint, ...]
    timeout_ms: int
    ack_when_committed: bool = True
    """True if the answer waits for the commit (else for the append)."""


class RemoveVoterRequest(Struct, frozen=True, kw_only=True):
    """An operator wants a voter to vote no more."""

    cluster_id: str | None
    voter: VoterKey
    timeout_ms: int = 30_000


class UpdateVoterRequest(Struct, frozen=True, kw_only=True):
    """A voter says that its endpoints are not those of the voters' record."""

    cluster_id: str | None
    current_leader_epoch: LeaderEpoch
    voter: VoterKey
    endpoints: tuple[VoterEndpoint, ...]


class VoterChangeResponse(Response, frozen=True, kw_only=True):
    """The answer to a request to add, remove or update a voter."""

    message: str | None = None


ElectionRequest = VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest
LeaderRequest = FetchRequest | FetchSnapshotRequest | AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest
Request = ElectionRequest | LeaderRequest
FetchAnswer = FetchResponse | FetchSnapshotResponse
EpochRequest = FetchRequest | FetchSnapshotRequest | UpdateVoterRequest
"""Requests to a leader that say which epoch they mean."""
