"""A member of the metadata quorum, as a pure state machine: time comes as an argument, effects are returned (KIP-595, 630, 853, 996).

Every node runs one. With the controller role it votes, or may come to vote; without it observes for ever. This module is the door:
:class:`RaftNode` hands each event to the part that is in charge of it in the member's role, and lets the role do what is due after it;
:class:`Reception` does the checks of a request that come before anything else (RAFT-15), and hands it on. The other parts are
:mod:`~esp.raft.elections`, :mod:`~esp.raft.following`, :mod:`~esp.raft.leading` and :mod:`~esp.raft.voter_changes`; the state that they
share is the :class:`~esp.raft.member.Member`.
"""

from collections.abc import Sequence

from esp.model.errors import ErrorCode
from esp.model.ids import NO_NODE, LeaderEpoch, NodeId
from esp.model.now import Now
from esp.ports.network import Address
from esp.raft.effects import Effect, Flush
from esp.raft.elections import Elections, find_ballot
from esp.raft.following import Following
from esp.raft.leading import Leading, QuorumDescription
from esp.raft.member import LeaderContact, Member
from esp.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    ElectionRequest,
    EndQuorumEpochRequest,
    EpochRequest,
    FetchAnswer,
    FetchRequest,
    FetchSnapshotRequest,
    LeaderRequest,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from esp.raft.roles import Election, Follower, LeaderState, Resigned, Role, Unattached
from esp.raft.snapshot import SnapshotId
from esp.raft.voter_changes import VoterChanges
from esp.raft.voters import VoterEndpoint, VoterSet, find_address


class Reception:
    """The part of a member that takes requests.

    Args:
        member: the state that the parts share.
        elections: gets requests for votes.
        following: notified when a leader has resigned.
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
        """Check a request, and hand it to the part that answers it."""
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
        elif _sender_of(request) < 0:  # a vote for a node without an id would not be known any more after a restart
            member.refuse(token, request, ErrorCode.invalid_request)
        elif not self._is_addressee(request):
            member.refuse(token, request, ErrorCode.invalid_voter_key)
        elif isinstance(request, VoteRequest):
            self._elections.on_request(request, token)
        elif request.leader_epoch == member.epoch and member.known_leader not in {NO_NODE, request.leader_id}:
            member.refuse(token, request, ErrorCode.invalid_request)
        else:
            if isinstance(request, BeginQuorumEpochRequest):
                self._on_begin_epoch(request)
            else:
                self._on_end_epoch(request)
            member.refuse(token, request, ErrorCode.none)

    def _is_addressee(self, request: ElectionRequest) -> bool:
        """True if a request is for this member; old versions do not name an addressee, and leaders that resign notify all members."""
        member = self._member
        if not member.has_controller_role:
            return False
        if isinstance(request, EndQuorumEpochRequest):
            return True
        return request.voter.node_id == NO_NODE or request.voter.is_same(member.local)

    def _on_begin_epoch(self, request: BeginQuorumEpochRequest) -> None:
        """The leader announces itself, so it is alive, even if it was believed to be gone."""
        member = self._member
        state = member.state
        is_lost = isinstance(state, Election) or (isinstance(state, Follower) and state.is_leader_gone)
        is_reached = find_address(request.leader_endpoints, member.listener_name) is not None
        if request.leader_id != member.local.node_id and is_reached and is_lost:
            member.become_follower(request.leader_epoch, request.leader_id, request.leader_endpoints)
        else:
            member.observe(request.leader_epoch, request.leader_id, request.leader_endpoints)

    def _on_end_epoch(self, request: EndQuorumEpochRequest) -> None:
        member = self._member
        member.observe(request.leader_epoch, request.leader_id, request.leader_endpoints)
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
    """True if no candidate can have such a log in such an epoch: a candidate's epoch is newer than all that it has."""
    newest = request.candidate_epoch if request.pre_vote else request.candidate_epoch - 1
    return request.last_epoch_end_offset < 0 or not 0 <= request.last_epoch <= newest


def _sender_of(request: ElectionRequest) -> NodeId:
    """The node that leads, or wants to; below 0 if the request names none."""
    return request.candidate.node_id if isinstance(request, VoteRequest) else request.leader_id


class RaftNode:
    """One member of the quorum. The effects that a method returns are to be done in their order.

    Args:
        member: the member as it starts.
    """

    def __init__(self, member: Member) -> None:
        self._member = member
        self._leading = Leading(member)
        self._changes = VoterChanges(member, self._leading)
        self._elections = Elections(member, self._leading.begin)
        self._following = Following(member, self._elections)
        self._reception = Reception(member, self._elections, self._following, self._leading, self._changes)

    # What the driver reads

    @property
    def role(self) -> Role:
        """The member's role in its epoch."""
        return self._member.state.role

    @property
    def epoch(self) -> LeaderEpoch:
        """The newest epoch that this member knows of."""
        return self._member.epoch

    @property
    def leader_id(self) -> NodeId:
        """The epoch's leader, NO_NODE while none is known that answers."""
        return self._member.leader_id

    @property
    def leader_address(self) -> Address | None:
        """The address of the leader's controller listener."""
        return self._member.leader_address

    @property
    def leader_endpoints(self) -> tuple[VoterEndpoint, ...]:
        """All listeners of the leader that are known."""
        return self._member.leader_endpoints

    @property
    def leader_contact(self) -> LeaderContact | None:
        """The leader that answered this member last, in whatever epoch, and when; None if none has."""
        return self._member.leader_contact

    @property
    def high_watermark(self) -> int | None:
        """Everything below is committed; None while that is unknown."""
        return self._member.high_watermark

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._member.log.end_offset

    @property
    def epoch_start_offset(self) -> int | None:
        """The offset of the LeaderChange record of the epoch that this node leads; None if it does not lead."""
        state = self._member.state
        return state.epoch_start_offset if isinstance(state, LeaderState) else None

    @property
    def voters(self) -> VoterSet:
        """The newest voters, committed or not (RAFT-40)."""
        return self._member.history.voters

    @property
    def kraft_version(self) -> int:
        """1 if the voters stand in the log; 0 for static ones."""
        return self._member.history.kraft_version

    @property
    def is_voter(self) -> bool:
        """True if this node is one of the voters."""
        return self._member.is_voter

    @property
    def has_ended(self) -> bool:
        """After :meth:`shutdown`: whether nothing is left to be said to the others."""
        state = self._member.state
        is_silent = not isinstance(state, Resigned) or not state.farewells or self._member.is_due(state.deadline_us)
        return self._member.is_shutting_down and is_silent

    @property
    def next_deadline_us(self) -> int | None:
        """The time of the next :meth:`on_tick`, in monotonic microseconds; None: not before another event."""
        member = self._member
        state = member.state
        if isinstance(state, Resigned):
            retries = [farewell.retry_at_us for farewell in state.farewells.values() if farewell.request is None]
            return None if self.has_ended else min([state.deadline_us, *retries])
        if member.is_shutting_down or (member.installing is not None and not isinstance(state, LeaderState)):
            return None
        if isinstance(state, LeaderState):
            deadline_us = self._leading.next_deadline_us(state)
            return deadline_us if state.change is None else min(deadline_us, state.change.deadline_us)
        if isinstance(state, Election):
            return self._elections.next_deadline_us(state)
        if isinstance(state, Follower):
            return self._following.next_deadline_us(state)
        if member.may_stand:
            return state.deadline_us
        return self._following.next_poll_us(state)

    def describe(self, now: Now) -> QuorumDescription | None:
        """The content of DescribeQuorum; None if this node does not lead."""
        self._member.now = now
        state = self._member.state
        return self._leading.describe(state) if isinstance(state, LeaderState) else None

    # Events

    def start(self, now: Now) -> list[Effect]:
        """Begin; called once, before everything else.

        The only voter elects itself at once. Other voters ask soon for an election, unless they know a leader to follow: a pre-vote
        disturbs no member, and its answers name the leader if there is one.
        """
        member = self._member
        member.now = now
        if member.has_controller_role and not member.log.is_flushed:
            member.effects.append(Flush())
        state = member.state
        delay_us = member.random.below(member.settings.election_timeout_us // 4 + 1)
        if member.is_voter and len(member.history.voters.voters) == 1:
            self._elections.ask(may_return=False)
        elif isinstance(state, Unattached):
            state.deadline_us = member.after_us(delay_us)
            state.poll_at_us = now.monotonic_us
            leader = member.known_leader
            voter = member.history.voters.find_node(leader)
            if voter is not None and voter.find_address(member.listener_name) is not None:
                member.become_follower(member.epoch, leader, voter.endpoints)
        elif isinstance(state, Resigned):
            state.deadline_us = member.after_us(delay_us)
        member.announce()
        return self._settle()

    def on_tick(self, now: Now) -> list[Effect]:
        """Time has passed: do what is due."""
        self._member.now = now
        return self._settle()

    def on_request(self, now: Now, request: Request, token: object) -> list[Effect]:
        """A request has arrived: exactly one :class:`~esp.raft.effects.Reply` with ``token`` follows, now or later."""
        member = self._member
        member.now = now
        self._reception.on_request(request, token)
        return self._settle()

    def on_response(self, now: Now, peer: NodeId, request: Request, response: Response) -> list[Effect]:
        """``peer`` has answered ``request``, the object that was sent. An answer that is no longer waited for is dropped (LOG-5)."""
        member = self._member
        member.now = now
        state = member.state
        if isinstance(state, Election) and isinstance(request, VoteRequest) and isinstance(response, VoteResponse):
            found = find_ballot(state, peer, request)
            if found is not None:
                self._elections.on_response(state, *found, response)
        elif isinstance(state, Follower):
            if request is state.in_flight and isinstance(response, FetchAnswer):
                self._following.on_response(state, response)
            elif request is state.update:
                self._following.on_update_done(state)
        elif isinstance(state, Unattached):
            if request is state.in_flight:
                self._following.on_poll_response(state, response)
        elif isinstance(state, Resigned):
            farewell = state.farewells.get(peer)
            if farewell is not None and farewell.request is request:
                del state.farewells[peer]
                member.observe(response.leader_epoch, response.leader_id, response.leader_endpoints)
        elif isinstance(state, LeaderState) and isinstance(response, BeginQuorumEpochResponse):
            self._on_begin_response(state, request, response)
        return self._settle()

    def on_send_failed(self, now: Now, peer: NodeId, request: Request, *, refused: bool) -> list[Effect]:
        """``request`` is not answered, for whatever reason; the peer may have done what it asked for.

        Args:
            now: the time.
            peer: the member that it was sent to.
            request: the object that was sent.
            refused: the peer's address refuses connections, so the process that listened there is gone.
        """
        member = self._member
        member.now = now
        state = member.state
        if isinstance(state, Election) and isinstance(request, VoteRequest):
            found = find_ballot(state, peer, request)
            if found is not None:
                self._elections.on_send_failed(state, *found, refused=refused)
        elif isinstance(state, Follower):
            if request is state.in_flight:
                self._following.on_fetch_failed(state, refused=refused)
            elif request is state.update:
                self._following.on_update_done(state)
        elif isinstance(state, Unattached):
            if request is state.in_flight:
                self._following.on_poll_failed(state)
        elif isinstance(state, Resigned):
            farewell = state.farewells.get(peer)
            if farewell is not None and farewell.request is request:
                farewell.request = None
                farewell.retry_at_us = member.retry_us(3)
                if refused:
                    del state.farewells[peer]
        elif isinstance(state, LeaderState):
            self._on_begin_failed(state, request)
        return self._settle()

    def on_flushed(self, now: Now, offset: int) -> list[Effect]:
        """The log is on the device up to ``offset`` (exclusive): only flushed batches count here (RAFT-11, RAFT-12)."""
        member = self._member
        member.now = now
        log = member.log
        log.flushed_offset = max(log.flushed_offset, min(offset, log.end_offset))
        if isinstance(member.state, LeaderState) and self._leading.advance(member.state):
            self._changes.on_committed(member.state)
        return self._settle()

    def on_leader_gone(self, now: Now) -> list[Effect]:
        """The address of the leader that is followed refuses connections: its process is gone, and with it its leadership (RAFT-5)."""
        self._member.now = now
        if isinstance(self._member.state, Follower):
            self._following.on_leader_gone(self._member.state)
        return self._settle()

    def on_snapshot_written(self, now: Now, snapshot_id: SnapshotId, log_start_offset: int) -> list[Effect]:
        """The driver wrote a snapshot of what is committed, durably, and the log now starts at ``log_start_offset`` (RAFT-31)."""
        member = self._member
        member.now = now
        assert snapshot_id.end_offset <= (member.high_watermark or 0), (
            "a snapshot holds committed records only (RAFT-30)"
        )
        member.log.advance_start(snapshot_id, log_start_offset)
        return self._settle()

    def on_snapshot_installed(
        self, now: Now, snapshot_id: SnapshotId, voters: VoterSet, kraft_version: int
    ) -> list[Effect]:
        """The fetched snapshot is in place of the log (:class:`~esp.raft.effects.FinishSnapshot`); ``voters`` are the snapshot's."""
        self._member.now = now
        self._following.on_snapshot_installed(snapshot_id, voters, kraft_version)
        return self._settle()

    def on_snapshot_refused(self, now: Now, snapshot_id: SnapshotId) -> list[Effect]:
        """The fetched snapshot was corrupt and is gone; it will be fetched again."""
        self._member.now = now
        self._following.on_snapshot_refused(snapshot_id)
        return self._settle()

    def propose(self, now: Now, values: Sequence[bytes]) -> list[Effect]:
        """Append one batch of records, at least one, which is committed as a whole or not at all. Only the leader does."""
        member = self._member
        member.now = now
        assert member.state.role is Role.LEADER, f"{member.state.role} proposes nothing"
        self._leading.propose(values)
        return self._settle()

    def resign(self, now: Now) -> list[Effect]:
        """Give up leadership; nothing happens if this node does not lead."""
        member = self._member
        member.now = now
        if isinstance(member.state, LeaderState):
            self._leading.resign(member.state)
        return self._settle()

    def shutdown(self, now: Now) -> list[Effect]:
        """Give up leadership and begin nothing more; requests are still answered. :attr:`has_ended` becomes true once the voters know."""
        member = self._member
        member.is_shutting_down = True
        if isinstance(member.state, Election):
            member.become_unattached(member.epoch)
        return self.resign(now)

    def _on_begin_failed(self, state: LeaderState, request: Request) -> None:
        if state.change is not None and state.change.probe is request:
            self._changes.on_probe_failed(state, state.change)
        for replica in state.replicas.values():
            if replica.begin_request is request:
                self._leading.on_begin_failed(state, replica)

    def _on_begin_response(self, state: LeaderState, request: Request, response: BeginQuorumEpochResponse) -> None:
        if (change := state.change) is not None and change.probe is request:
            self._changes.on_probe_response(state, change, response)
            return
        for replica in list(state.replicas.values()):
            if replica.begin_request is request:
                self._leading.on_begin_response(state, replica, response)

    def _settle(self) -> list[Effect]:
        """Let the role do its due work, until no role changes any more, and hand over the effects."""
        member = self._member
        state = None
        while member.state is not state:
            state = member.state
            self._poll()
        effects, member.effects = member.effects, []
        return effects

    def _poll(self) -> None:
        member = self._member
        state = member.state
        if isinstance(state, Resigned):
            self._leading.poll_resigned(state)
            if member.is_due(state.deadline_us) and not member.is_shutting_down:
                if member.may_stand:
                    self._elections.ask(may_return=False)
                else:
                    member.become_unattached(member.epoch)
        elif member.is_shutting_down:
            return
        elif isinstance(state, LeaderState):
            self._leading.poll(state)
            if member.state is state:
                self._changes.poll(state)
        elif isinstance(state, Election):
            self._elections.poll(state)
        elif isinstance(state, Follower):
            self._following.poll(state)
        else:
            self._following.poll_unattached(state)
