"""Changes of the voters, one at a time (RAFT-40 to RAFT-43, KIP-853)."""

from esp.model.errors import ErrorCode
from esp.model.ids import ZERO_UUID
from esp.raft.leading import Leading
from esp.raft.member import Member
from esp.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
)
from esp.raft.quorum_state import STATIC_VERSION
from esp.raft.roles import LeaderState, VoterChange
from esp.raft.voters import Voter, VoterKey, VoterSet, find_address


class VoterChanges:
    """The part of a leader that changes the voters.

    Args:
        member: the state that the parts share.
        leading: appends the records.
    """

    def __init__(self, member: Member, leading: Leading) -> None:
        self._member = member
        self._leading = leading

    def on_request(
        self,
        state: LeaderState,
        request: AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest,
        token: object,
    ) -> None:
        """Begin a change, or refuse it."""
        member = self._member
        voters = member.history.voters
        voter_keys = voters.keys()
        if member.history.kraft_version == STATIC_VERSION:
            member.refuse(
                token, request, ErrorCode.unsupported_version, "The voters are static (controller.quorum.voters)."
            )
        elif not isinstance(request, UpdateVoterRequest) and not _names_a_voter(request.voter):
            message = "The request names no voter: its id is negative, or the id of its directory is missing."
            member.refuse(token, request, ErrorCode.invalid_request, message)
        elif isinstance(request, UpdateVoterRequest) and self._is_up_to_date(request):
            member.refuse(token, request, ErrorCode.none)
        elif not self._can_change(state):
            member.refuse(
                token, request, ErrorCode.request_timed_out, "The leader cannot change the voters yet; try again."
            )
        elif isinstance(request, AddVoterRequest):
            if voters.find_node(request.voter.node_id) is not None:
                message = f"Node {request.voter.node_id} is a voter already."
                member.refuse(token, request, ErrorCode.duplicate_voter, message)
            elif find_address(request.endpoints, member.listener_name) is None:
                message = f"The voter has no endpoint of the listener {member.listener_name}."
                member.refuse(token, request, ErrorCode.invalid_request, message)
            else:
                deadline_us = member.after_us(request.timeout_ms * 1000)
                state.change = VoterChange(request=request, token=token, deadline_us=deadline_us)
        elif request.voter not in voter_keys or (isinstance(request, RemoveVoterRequest) and len(voters.voters) == 1):
            message = f"Node {request.voter.node_id} with that directory is no voter, or the only one."
            member.refuse(token, request, ErrorCode.voter_not_found, message)
        elif isinstance(request, RemoveVoterRequest):
            deadline_us = member.after_us(request.timeout_ms * 1000)
            state.change = VoterChange(request=request, token=token, deadline_us=deadline_us)
            self._append(state.change, voters.without(request.voter))
        elif find_address(request.endpoints, member.listener_name) is None:
            member.refuse(
                token, request, ErrorCode.invalid_request, f"No endpoint of the listener {member.listener_name}."
            )
        else:
            deadline_us = member.after_us(member.settings.fetch_timeout_us)
            state.change = VoterChange(request=request, token=token, deadline_us=deadline_us)
            self._append(state.change, voters.with_voter(Voter(request.voter, request.endpoints)))

    def poll(self, state: LeaderState) -> None:
        """Take the change that is under way one step further, if it can be."""
        member = self._member
        change = state.change
        if change is None:
            return
        if member.is_due(change.deadline_us):
            self._end(state, change, ErrorCode.request_timed_out, "The change was not done in time.")
        elif isinstance(change.request, AddVoterRequest) and change.end_offset is None:
            if change.is_reached:
                if self._is_caught_up(state, change.request):
                    voter = Voter(change.request.voter, change.request.endpoints)
                    self._append(change, member.history.voters.with_voter(voter))
            elif change.probe is None:
                address = find_address(change.request.endpoints, member.listener_name)
                assert address is not None, "a voter without an address is refused at once"
                change.probe = self._leading.new_begin_request(change.request.voter)
                member.send(change.request.voter.node_id, address, change.probe)

    def on_probe_response(self, state: LeaderState, change: VoterChange, response: BeginQuorumEpochResponse) -> None:
        """The node that is to be added has answered, so it is there, and knows whether it is meant."""
        member = self._member
        member.observe(response.leader_epoch, response.leader_id, response.leader_endpoints)
        if member.state is not state:
            return
        if response.error is ErrorCode.none:
            change.is_reached = True
        else:
            self._end(state, change, response.error, "The new voter refused the leader's request.")

    def on_probe_failed(self, state: LeaderState, change: VoterChange) -> None:
        """The node that is to be added does not answer at the address that was given for it."""
        self._end(state, change, ErrorCode.request_timed_out, "The new voter cannot be reached at its endpoint.")

    def on_committed(self, state: LeaderState) -> None:
        """The high watermark has moved: a change may be done, and this node may have to go or to move with it."""
        member = self._member
        high_watermark = member.high_watermark
        assert high_watermark is not None, "something was committed"
        change = state.change
        if change is not None and change.end_offset is not None and change.end_offset <= high_watermark:
            self._end(state, change, ErrorCode.none, None)
        if not self._can_change(state):
            return
        local = member.history.voters.find(member.local)
        if local is None:
            self._leading.resign(state)  # RAFT-43
        elif member.history.kraft_version > STATIC_VERSION and member.endpoints not in {(), local.endpoints}:
            self._append_voters(member.history.voters.with_voter(Voter(local.key, member.endpoints)))

    def _can_change(self, state: LeaderState) -> bool:
        """True if nothing of this leader, and no voters, are uncommitted (RAFT-41)."""
        member = self._member
        return (
            state.change is None and state.has_committed and member.history.end_offset <= (member.high_watermark or 0)
        )

    def _is_up_to_date(self, request: UpdateVoterRequest) -> bool:
        voter = self._member.history.voters.find(request.voter)
        return voter is not None and voter.endpoints == request.endpoints

    def _is_caught_up(self, state: LeaderState, request: AddVoterRequest) -> bool:
        """True if the node had all of the leader's log a moment ago, so that commits will not wait for it (RAFT-42)."""
        member = self._member
        replica = state.replicas.get(request.voter)
        if replica is None or replica.last_caught_up_us is None:
            return False
        return not member.is_due(replica.last_caught_up_us + member.settings.fetch_timeout_us)

    def _append(self, change: VoterChange, voters: VoterSet) -> None:
        self._append_voters(voters)
        change.end_offset = self._member.log.end_offset
        if isinstance(change.request, AddVoterRequest) and not change.request.ack_when_committed:
            self._member.refuse(change.token, change.request, ErrorCode.none)
            change.token = None

    def _append_voters(self, voters: VoterSet) -> None:
        present = self._member.history.voters.keys()
        assert self._member.history.end_offset <= (self._member.high_watermark or 0), "one change at a time (RAFT-41)"
        assert len(present ^ voters.keys()) <= 1, "one voter comes, goes or moves (RAFT-41)"
        assert voters.voters, "a quorum has voters"
        self._leading.append_control([voters.to_record()])

    def _end(self, state: LeaderState, change: VoterChange, error: ErrorCode, message: str | None) -> None:
        state.change = None
        if change.token is not None:
            self._member.refuse(change.token, change.request, error, message)


def _names_a_voter(key: VoterKey) -> bool:
    """True if a key can be that of a voter that stands in the log: one without a directory would be any disk of the node (RAFT-45)."""
    return key.node_id >= 0 and key.directory_id != ZERO_UUID
