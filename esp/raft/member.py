"""The state that all parts of the core share: the node's identity, its persistent state, its log, its role, and the effects asked for.

Roles change here and nowhere else, so that no caller can forget what a change brings with it: ``quorum-state`` first (RAFT-1), then the
notice to the driver, then answers to all requests that waited for the leader that this node was.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypedDict

from esp.model.errors import ErrorCode
from esp.model.ids import NO_NODE, ZERO_UUID, DirectoryId, LeaderEpoch, NodeId
from esp.model.now import Now
from esp.ports.network import Address
from esp.ports.random import Random
from esp.raft.effects import (
    Commit,
    Effect,
    Fatal,
    LeaderChanged,
    Peer,
    Persist,
    ReadRecords,
    ReadSnapshot,
    Reply,
    Send,
)
from esp.raft.log_outline import LogOutline
from esp.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from esp.raft.quorum_state import STATIC_VERSION, QuorumState
from esp.raft.roles import TRANSITIONS, Election, Follower, LeaderState, Resigned, Role, Unattached
from esp.raft.settings import QuorumSettings
from esp.raft.snapshot import SnapshotId
from esp.raft.voter_history import VoterHistory
from esp.raft.voters import VoterEndpoint, VoterKey, find_address

RoleState = Unattached | Election | LeaderState | Follower | Resigned
LAST_EPOCH: Final = LeaderEpoch(2**31 - 1)
"""The last epoch that its field has room for: no member can stand for election in it, as that would begin another (decision 70)."""

BOOTSTRAP_IDS_START: Final = -2
"""Bootstrap servers are called -2, -3 and so on until they give their ids."""


class LeaderFields(TypedDict):
    """The fields of :class:`~esp.raft.messages.Response`."""

    error: ErrorCode
    leader_epoch: LeaderEpoch
    leader_id: NodeId
    leader_endpoints: tuple[VoterEndpoint, ...]


class LeaderContact(NamedTuple):
    """Which leader has answered a fetch, and when."""

    node_id: NodeId
    heard_us: int
    high_watermark: int | None = None
    """The end of what it had committed, as its last answer with records said; None if it has not said that, or did not know it."""

    def is_caught_up(self, end_offset: int, now_us: int, timeout_us: int) -> bool:
        """True if a reader of the log up to ``end_offset`` knows what was committed a moment ago, of at most ``timeout_us`` (BRK-9)."""
        is_in_touch = now_us - self.heard_us <= timeout_us
        return is_in_touch and self.high_watermark is not None and end_offset >= self.high_watermark


class Member:
    """One member of the quorum.

    Invariants: the epoch never falls (RAFT-2); within an epoch a known leader stays the known leader, and a vote stays the vote; the high
    watermark never falls.

    Args:
        local: this node, with the directory that holds its log.
        cluster_id: requests of other clusters are refused.
        has_controller_role: whether it votes, or may come to vote.
        endpoints: where its own controller listeners are reached; empty without the role.
        listener_name: which listener of a voter the others call.
        voters: the voters by the newest record of them, committed or not (RAFT-40).
        bootstrap: where to ask for the leader besides the voters.
        quorum_state: the content of the file of that name; None if there is none yet.
        log: the log after recovery.
        settings: timing.
        random: the source of all randomness.
        committed_offset: everything below was committed before this process began, and is in the log; 0 if that is not known.
    """

    def __init__(
        self,
        local: VoterKey,
        *,
        cluster_id: str,
        has_controller_role: bool,
        endpoints: tuple[VoterEndpoint, ...],
        listener_name: str,
        voters: VoterHistory,
        bootstrap: Sequence[Address],
        quorum_state: QuorumState | None,
        log: LogOutline,
        settings: QuorumSettings,
        random: Random,
        committed_offset: int = 0,
    ) -> None:
        self.local = local
        self.cluster_id = cluster_id
        self.has_controller_role = has_controller_role
        self.endpoints = endpoints
        self.listener_name = listener_name
        self.history = voters
        self.bootstrap = tuple(bootstrap)
        self.log = log
        self.settings = settings
        self.random = random
        self.now = Now(0, 0)
        self.high_watermark: int | None = None if log.snapshot_id is None else log.snapshot_id.end_offset
        self._committed_before = committed_offset
        self.leader_contact: LeaderContact | None = None
        """The leader that answered last."""
        self.installing: SnapshotId | None = None
        """The fetched snapshot that the driver is about to install; the log is not touched meanwhile."""
        self.is_shutting_down = False
        self.failed_rounds = 0
        """Rounds of votes that were lost since there was a leader."""
        self.effects: list[Effect] = []
        self._persisted = quorum_state or QuorumState()
        self.epoch = LeaderEpoch(max(self._persisted.leader_epoch, log.last_epoch))  # RAFT-4
        self.known_leader = NO_NODE
        self.known_endpoints: tuple[VoterEndpoint, ...] = ()
        self.voted: VoterKey | None = None
        """The voter that this node voted for in the epoch; a leader has forgotten it."""
        self.state: RoleState = Unattached(deadline_us=0, poll_at_us=0)
        if self._persisted.leader_epoch == self.epoch:
            self.known_leader = self._persisted.leader_id
            if self._persisted.voted_id != NO_NODE:
                self.voted = VoterKey(self._persisted.voted_id, self._persisted.voted_directory_id)
            if self.known_leader == local.node_id:
                self.state = Resigned(deadline_us=0)  # RAFT-5
        self._announced: tuple[LeaderEpoch, NodeId, Address | None] = (self.epoch, NO_NODE, None)

    @property
    def is_voter(self) -> bool:
        """True if this node, with this disk, is one of the newest voters."""
        return self.has_controller_role and self.history.voters.find(self.local) is not None

    @property
    def may_stand(self) -> bool:
        """True if this node may have to lead: it votes, or did before a change of the voters that is not known to be committed.

        The log that names the new voters may be on this node alone: no other node is elected then, and this node has to hand the log on
        before it goes (RAFT-43; Ongaro's thesis, 4.2.2).
        """
        if self.is_voter:
            return True
        is_open = self.history.end_offset > (self.high_watermark or 0)
        return self.has_controller_role and is_open and self.history.former_voters.find(self.local) is not None

    @property
    def kept_offset(self) -> int:
        """Nothing below is ever cut (RAFT-10): it is committed, as far as this process has learned or an earlier one has written down."""
        return max(self.high_watermark or 0, self.log.start_offset, self._committed_before)

    @property
    def leader_id(self) -> NodeId:
        """The leader that this node is or follows, NO_NODE if there is none or it is gone."""
        state = self.state
        if isinstance(state, LeaderState) or (isinstance(state, Follower) and not state.is_leader_gone):
            return self.known_leader
        return NO_NODE

    @property
    def leader_address(self) -> Address | None:
        """The address of :attr:`leader_id`."""
        return None if self.leader_id == NO_NODE else self.known_address

    @property
    def known_address(self) -> Address | None:
        """The address of the known leader's listener that this node calls."""
        return find_address(self.known_endpoints, self.listener_name)

    @property
    def leader_endpoints(self) -> tuple[VoterEndpoint, ...]:
        """All listeners of :attr:`leader_id` that are known: those that it has told, and others of the voters' record (KIP-853)."""
        leader_id = self.leader_id
        if leader_id == NO_NODE:
            return ()
        if leader_id == self.local.node_id:
            return self.endpoints
        told = self.known_endpoints
        listeners = {endpoint.listener for endpoint in told}
        return told + tuple(each for each in self._voter_endpoints(leader_id) if each.listener not in listeners)

    # Time and chance

    def after_us(self, delay_us: int) -> int:
        """The moment so long from now."""
        return self.now.monotonic_us + delay_us

    def is_due(self, moment_us: int) -> bool:
        """True if a moment has come."""
        return self.now.monotonic_us >= moment_us

    def draw_timeout_us(self, timeout_us: int) -> int:
        """A moment between once and twice the timeout from now (RAFT-8)."""
        return self.after_us(timeout_us + self.random.below(timeout_us + 1))

    def retry_us(self, failures: int) -> int:
        """The time of the next attempt at a peer that has failed to answer ``failures`` times in a row."""
        return self.after_us(self.settings.retry_backoff_us * min(1 << failures, 8))

    # Effects

    def send(self, node_id: NodeId, address: Address, request: Request) -> None:
        """Ask for a request to be sent."""
        self.effects.append(Send(Peer(node_id, address), request))

    def reply(self, token: object, response: Response, read: ReadRecords | ReadSnapshot | None = None) -> None:
        """Ask for an answer to be sent."""
        self.effects.append(Reply(token, response, read))

    def refuse(self, token: object, request: Request, error: ErrorCode, message: str | None = None) -> None:
        """Ask for an answer with an error, the known leader, and nothing else."""
        self.effects.append(Reply(token, self._refusal(request, error, message)))

    def describe_leader(self, error: ErrorCode = ErrorCode.none) -> "LeaderFields":
        """The fields that every answer has."""
        return LeaderFields(
            error=error, leader_epoch=self.epoch, leader_id=self.leader_id, leader_endpoints=self.leader_endpoints
        )

    def _refusal(self, request: Request, error: ErrorCode, message: str | None) -> Response:
        fields = self.describe_leader(error)
        if isinstance(request, VoteRequest):
            return VoteResponse(**fields)
        if isinstance(request, BeginQuorumEpochRequest):
            return BeginQuorumEpochResponse(**fields)
        if isinstance(request, EndQuorumEpochRequest):
            return EndQuorumEpochResponse(**fields)
        if isinstance(request, FetchRequest):
            return FetchResponse(**fields)
        if isinstance(request, FetchSnapshotRequest):
            return FetchSnapshotResponse(**fields, snapshot_id=request.snapshot_id)
        return VoterChangeResponse(**fields, message=message)

    def commit(self, high_watermark: int) -> None:
        """Everything below is committed: the one place where the high watermark changes."""
        assert high_watermark <= self.log.end_offset, f"{high_watermark} is committed, the log ends before it (RAFT-13)"
        assert self.high_watermark is None or high_watermark > self.high_watermark, "it never falls (RAFT-10)"
        self.high_watermark = high_watermark
        self.effects.append(Commit(high_watermark))

    def fail(self, reason: str) -> None:
        """Ask for the end of the node (RAFT-16)."""
        self.effects.append(Fatal(reason))

    # Roles

    def observe(self, epoch: LeaderEpoch, leader_id: NodeId, endpoints: tuple[VoterEndpoint, ...]) -> None:
        """A message named an epoch and, unless NO_NODE, its leader: follow them if they are newer than those known here."""
        if epoch < self.epoch or leader_id == self.local.node_id:
            if epoch > self.epoch:  # the epoch of another disk that this node had
                self.become_unattached(epoch, leader_id)
            return
        if find_address(endpoints, self.listener_name) is None:
            endpoints = self._voter_endpoints(leader_id)
        is_reached = leader_id != NO_NODE and find_address(endpoints, self.listener_name) is not None
        if epoch > self.epoch:
            if is_reached:
                self.become_follower(epoch, leader_id, endpoints)
            else:
                self.become_unattached(epoch, leader_id)
        elif is_reached and not isinstance(self.state, Follower | LeaderState):
            is_unattached = isinstance(self.state, Unattached) and self.known_leader == leader_id
            if self.known_leader == NO_NODE or is_unattached:
                self.become_follower(epoch, leader_id, endpoints)

    def become_unattached(self, epoch: LeaderEpoch, leader_id: NodeId | None = None) -> None:
        """Follow no leader in an epoch: a newer one, or this one without its leader."""
        known_leader = leader_id if leader_id is not None else self.known_leader if epoch == self.epoch else NO_NODE
        state = Unattached(
            deadline_us=self.draw_timeout_us(self.settings.election_timeout_us), poll_at_us=self.now.monotonic_us
        )
        self._enter(state, epoch, known_leader, self.voted if epoch == self.epoch else None, ())

    def become_follower(self, epoch: LeaderEpoch, leader_id: NodeId, endpoints: tuple[VoterEndpoint, ...]) -> None:
        """Follow the leader of an epoch; the listener that this node calls is among ``endpoints``."""
        self.failed_rounds = 0
        state = Follower(deadline_us=self.draw_timeout_us(self.settings.fetch_timeout_us))
        self._enter(state, epoch, leader_id, self.voted if epoch == self.epoch else None, endpoints)

    def become_prospective(self, state: Election) -> None:
        """Ask whether one would be elected; nothing that persists changes."""
        self._enter(state, self.epoch, self.known_leader, self.voted, self.known_endpoints)

    def become_candidate(self, state: Election) -> None:
        """Stand for election in a new epoch, with one's own vote."""
        self._enter(state, LeaderEpoch(self.epoch + 1), NO_NODE, self.local, ())

    def become_leader(self, state: LeaderState) -> None:
        """Lead the epoch in which this node stood."""
        self.failed_rounds = 0
        self._enter(state, self.epoch, self.local.node_id, None, self.endpoints)

    def become_resigned(self, state: Resigned) -> None:
        """Lead no more."""
        self._enter(state, self.epoch, self.known_leader, None, ())

    def vote_for(self, candidate: VoterKey) -> None:
        """Give this epoch's vote (RAFT-2), durably before it is sent (RAFT-1)."""
        assert self.known_leader == NO_NODE, "the epoch has a leader"
        assert self.voted is None or self.voted.is_same(candidate), "one vote in an epoch"
        self.voted = candidate
        self._persist()

    def announce(self) -> None:
        """Notify the driver of the epoch and its leader, if anything about them is new."""
        announced = (self.epoch, self.leader_id, self.leader_address)
        if announced != self._announced:
            self._announced = announced
            self.effects.append(LeaderChanged(*announced))

    def _enter(
        self,
        state: RoleState,
        epoch: LeaderEpoch,
        leader_id: NodeId,
        voted: VoterKey | None,
        endpoints: tuple[VoterEndpoint, ...],
    ) -> None:
        old = self.state
        assert state.role in TRANSITIONS[old.role], f"{old.role} cannot become {state.role}"
        assert epoch >= self.epoch, f"epoch {epoch} after {self.epoch} (RAFT-2)"
        if epoch == self.epoch:
            assert self.known_leader in {NO_NODE, leader_id}, "the leader of an epoch stays its leader (RAFT-2)"
            assert old.role is not Role.LEADER or state.role is Role.RESIGNED, "a leader can only resign in its epoch"
            assert self.voted is None or voted is None or voted.is_same(self.voted), "a vote stays the vote (RAFT-2)"
        if state.role is Role.LEADER:
            assert leader_id == self.local.node_id, "a leader knows itself as the leader"
        elif state.role is Role.FOLLOWER:
            assert leader_id not in {NO_NODE, self.local.node_id}, "a follower follows another node"
            is_reached = find_address(endpoints, self.listener_name) is not None
            assert is_reached, "a follower knows where its leader is"
        self.state, self.epoch, self.known_leader, self.voted = state, epoch, leader_id, voted
        self.known_endpoints = endpoints
        self._persist()
        self.announce()
        if isinstance(old, LeaderState):
            self._abandon(old)

    def _persist(self) -> None:
        """Ask for ``quorum-state`` to be written if its content changes. Of several states that no peer has seen the last is written."""
        kraft_version = self.history.kraft_version
        is_static = kraft_version == STATIC_VERSION
        voted = self.voted or VoterKey(NO_NODE, DirectoryId(ZERO_UUID))
        state = QuorumState(
            self.epoch,
            self.known_leader,
            voted.node_id,
            DirectoryId(ZERO_UUID) if is_static else voted.directory_id,
            kraft_version,
            tuple(voter.key.node_id for voter in self.history.voters.voters) if is_static else (),
        )
        if state == self._persisted:
            return
        self._persisted = state
        place = len(self.effects)
        while place > 0 and isinstance(self.effects[place - 1], LeaderChanged):
            place -= 1
        if place > 0 and isinstance(self.effects[place - 1], Persist):
            self.effects[place - 1] = Persist(state)
        else:
            self.effects.append(Persist(state))

    def _abandon(self, old: LeaderState) -> None:
        """Answer the requests that waited for the leader that this node was; what they waited for may come true or not (PROMISE-7)."""
        for parked in old.parked:
            self.refuse(parked.token, parked.request, ErrorCode.not_leader_or_follower)
        if old.change is not None and old.change.token is not None:
            self.refuse(old.change.token, old.change.request, ErrorCode.not_leader_or_follower)

    def _voter_endpoints(self, node_id: NodeId) -> tuple[VoterEndpoint, ...]:
        voter = self.history.voters.find_node(node_id)
        return () if voter is None else voter.endpoints
