"""Requests: the checks that come before anything else (RAFT-15), and whom each is handed to."""

from esp.model.errors import ErrorCode
from esp.model.ids import NO_NODE
from esp.ports.network import Address
from esp.raft.elections import Elections
from esp.raft.following import Following
from esp.raft.leader_state import LeaderState
from esp.raft.leading import Leading
from esp.raft.member import Member
from esp.raft.messages import (
    BeginQuorumEpochRequest,
    ElectionRequest,
    EndQuorumEpochRequest,
    EpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    LeaderRequest,
    Request,
    VoteRequest,
)
from esp.raft.role_states import Election, Follower
from esp.raft.voter_changes import VoterChanges
from esp.raft.voters import find_address


class Reception:
    """The part of a member that takes requests.

    Args:
        member: what the parts share.
        elections: gets requests for votes.
        following: told that a leader resigned.
        leading: gets fetches, when this node leads.
        changes: gets requests to change the voters, when this node leads.
    """

    def __init__(
        self, member: Member, elections: Elections, following: Following, leading: Leading, changes: VoterChanges
    ) -> None:
        self._member = member
        self._elections = elections
        self._following = following
        self._leading = leading
        self._changes = changes

    def on_request(self, request: Request, token: object) -> None:
        """Somebody asks for something."""
        member = self._member
        if request.cluster_id is not None and request.cluster_id != member.cluster_id:
            member.refuse(token, request, ErrorCode.inconsistent_cluster_id)
        elif isinstance(request, ElectionRequest):
            self._on_election_request(request, token)
        else:
            self._on_leader_request(request, token)

    def _on_election_request(self, request: ElectionRequest, token: object) -> None:
        """Requests between voters: the epoch and the addressee are checked, in the order in which Kafka does it (RAFT-15)."""
        member = self._member
        epoch = request.candidate_epoch if isinstance(request, VoteRequest) else request.leader_epoch
        if isinstance(request, VoteRequest) and _is_impossible(request):
            member.refuse(token, request, ErrorCode.invalid_request)
        elif epoch < member.epoch:
            member.refuse(token, request, ErrorCode.fenced_leader_epoch)
        elif not self._is_addressee(request):
            member.refuse(token, request, ErrorCode.invalid_voter_key)
        elif isinstance(request, VoteRequest):
            self._elections.on_request(request, token)
        elif request.leader_epoch == member.epoch and member.known_leader not in {NO_NODE, request.leader_id}:
            member.refuse(token, request, ErrorCode.invalid_request)
        else:
            address = find_address(request.leader_endpoints, member.listener_name)
            if isinstance(request, BeginQuorumEpochRequest):
                self._on_begin_epoch(request, address)
            else:
                self._on_end_epoch(request, address)
            member.refuse(token, request, ErrorCode.none)

    def _is_addressee(self, request: ElectionRequest) -> bool:
        """Whether a request is for this member; old versions do not say whom they are for, and leaders that resign tell everybody."""
        member = self._member
        if not member.has_controller_role:
            return False
        if isinstance(request, EndQuorumEpochRequest):
            return True
        return request.voter.node_id == NO_NODE or request.voter.is_same(member.local)

    def _on_begin_epoch(self, request: BeginQuorumEpochRequest, address: Address | None) -> None:
        """The leader says that it leads, so it is alive, whatever was believed here."""
        member = self._member
        state = member.state
        is_lost = isinstance(state, Election) or (isinstance(state, Follower) and state.is_leader_gone)
        if request.leader_id != member.local.node_id and address is not None and is_lost:
            member.become_follower(request.leader_epoch, request.leader_id, address)
        else:
            member.observe(request.leader_epoch, request.leader_id, address)

    def _on_end_epoch(self, request: EndQuorumEpochRequest, address: Address | None) -> None:
        member = self._member
        member.observe(request.leader_epoch, request.leader_id, address)
        if isinstance(member.state, Follower) and member.known_leader == request.leader_id:
            self._following.on_end_of_epoch(member.state, request)

    def _on_leader_request(self, request: LeaderRequest, token: object) -> None:
        """Requests to the leader: the sender's epoch is checked before the role (TRUNC-3.2)."""
        member = self._member
        state = member.state
        epoch = member.epoch
        if isinstance(request, EpochRequest):
            epoch = request.current_leader_epoch
        if isinstance(request, FetchRequest) and min(epoch, request.fetch_offset, request.last_fetched_epoch) < 0:
            member.refuse(token, request, ErrorCode.invalid_request)
        elif epoch < member.epoch:
            member.refuse(token, request, ErrorCode.fenced_leader_epoch)
        elif epoch > member.epoch:
            member.refuse(token, request, ErrorCode.unknown_leader_epoch)
        elif not isinstance(state, LeaderState):
            member.refuse(token, request, ErrorCode.not_leader_or_follower)
        elif isinstance(request, FetchRequest):
            if self._leading.on_fetch(state, request, token):
                self._changes.on_committed(state)
        elif isinstance(request, FetchSnapshotRequest):
            self._leading.on_fetch_snapshot(state, request, token)
        else:
            self._changes.on_request(state, request, token)


def _is_impossible(request: VoteRequest) -> bool:
    """Whether nobody can have such a log in such an epoch: a candidate's epoch is newer than all that it has."""
    newest = request.candidate_epoch if request.pre_vote else request.candidate_epoch - 1
    return request.last_epoch_end_offset < 0 or not 0 <= request.last_epoch <= newest
