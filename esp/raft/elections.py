"""Elections: asking for votes, and giving them (RAFT-1 to RAFT-8, KIP-996).

A round of pre-votes comes before each election, so that a member that cannot win disturbs no other. Rounds are short where peers answer: a
majority decides at once, a round that cannot be won any more lasts a random pause, and only silence the whole election timeout.
"""

from collections.abc import Callable

from esp.model.errors import ErrorCode
from esp.model.ids import NO_NODE, NodeId
from esp.raft.member import LAST_EPOCH, Member
from esp.raft.messages import VoteRequest, VoteResponse
from esp.raft.roles import Ballot, Election, Follower, Role
from esp.raft.voters import VoterKey, is_majority

_BACKOFF_DOUBLINGS_MAX = 4


class Elections:
    """The part of a member that elects.

    Args:
        member: the state that the parts share.
        lead: begins the epoch that was won; gets the voters that voted for this node.
    """

    def __init__(self, member: Member, lead: Callable[[frozenset[VoterKey]], None]) -> None:
        self._member = member
        self._lead = lead

    def ask(self, *, may_return: bool) -> None:
        """Begin a round of pre-votes.

        Args:
            may_return: whether the leader may be alive: a lost round then ends in following it again.
        """
        member = self._member
        member.become_prospective(self._new_round(Role.PROSPECTIVE, may_return=may_return))
        self._count()

    def poll(self, state: Election) -> None:
        """Do what is due: give up the round, or ask voters again that did not answer."""
        member = self._member
        if member.is_due(state.deadline_us):
            self._lose(state)
            return
        for key, ballot in state.ballots.items():
            if ballot.request is None and member.is_due(ballot.retry_at_us):
                self._ask(state, key, ballot)

    def next_deadline_us(self, state: Election) -> int:
        """When :meth:`poll` has something to do."""
        retries = [ballot.retry_at_us for ballot in state.ballots.values() if ballot.request is None]
        return min([state.deadline_us, *retries])

    def on_request(self, request: VoteRequest, token: object) -> None:
        """A candidate asks for this node's vote; the addressee and the cluster were checked."""
        member = self._member
        if request.candidate_epoch < member.epoch:
            member.refuse(token, request, ErrorCode.fenced_leader_epoch)
            return
        if request.candidate_epoch > member.epoch:
            member.become_unattached(request.candidate_epoch)
        is_granted = self._grants_pre_vote(request) if request.pre_vote else self._grants_vote(request)
        if is_granted and not request.pre_vote:
            member.vote_for(request.candidate)
            member.become_unattached(member.epoch)  # gives the candidate time to win
        member.reply(token, VoteResponse(**member.describe_leader(), is_granted=is_granted))

    def on_response(self, state: Election, key: VoterKey, ballot: Ballot, response: VoteResponse) -> None:
        """A voter has answered the question that it was asked in this round."""
        member = self._member
        member.observe(response.leader_epoch, response.leader_id, response.leader_endpoints)
        if member.state is not state:
            return
        ballot.request = None
        if response.leader_epoch < member.epoch:  # an answer that went with an older epoch says nothing
            ballot.retry_at_us = member.retry_us(ballot.failures)
            ballot.failures += 1
            return
        del state.ballots[key]
        if response.error is ErrorCode.none and response.is_granted:
            state.granted.add(key)
            state.rejected.discard(key)
        else:
            state.rejected.add(key)
        self._count()

    def on_send_failed(self, state: Election, key: VoterKey, ballot: Ballot, *, refused: bool) -> None:
        """A voter did not answer; if its process is gone it grants nothing in this round."""
        ballot.request = None
        ballot.retry_at_us = self._member.retry_us(ballot.failures)
        ballot.failures += 1
        if refused:
            state.rejected.add(key)
            self._count()

    def _new_round(self, role: Role, *, may_return: bool) -> Election:
        member = self._member
        voters = member.history.voters
        local = voters.find(member.local)
        assert member.may_stand, "only a voter, or a former one, stands for election"
        return Election(
            role=role,
            deadline_us=member.draw_timeout_us(member.settings.election_timeout_us),
            ballots={voter.key: Ballot() for voter in voters.voters if voter is not local},
            granted=set() if local is None else {local.key},
            may_return=may_return,
        )

    def _count(self) -> None:
        """Go on if a majority has decided."""
        member = self._member
        state = member.state
        assert isinstance(state, Election), "votes are counted in a round of them"
        voters = member.history.voters.voters
        if is_majority(len(state.granted), len(voters)):
            if state.role is Role.PROSPECTIVE and member.epoch == LAST_EPOCH:
                state.deadline_us = min(state.deadline_us, self._draw_backoff_us())
            elif state.role is Role.PROSPECTIVE:
                member.become_candidate(self._new_round(Role.CANDIDATE, may_return=False))
                self._count()
            else:
                self._lead(frozenset(state.granted))
        elif is_majority(len(voters) - len(state.rejected), len(voters)):
            self.poll(state)
        elif state.may_return:
            self._lose(state)
        else:
            state.deadline_us = min(state.deadline_us, self._draw_backoff_us())

    def _draw_backoff_us(self) -> int:
        member = self._member
        unit_us = member.settings.round_backoff_us << min(member.failed_rounds, _BACKOFF_DOUBLINGS_MAX)
        return member.after_us(unit_us + member.random.below(2 * unit_us))

    def _lose(self, state: Election) -> None:
        """The round is over and not won."""
        member = self._member
        member.failed_rounds += 1
        if state.may_return and member.known_leader != NO_NODE and member.known_address is not None:
            failed_rounds = member.failed_rounds
            member.become_follower(member.epoch, member.known_leader, member.known_endpoints)
            member.failed_rounds = failed_rounds
        elif member.may_stand:
            self.ask(may_return=False)
        else:
            member.become_unattached(member.epoch)

    def _ask(self, state: Election, key: VoterKey, ballot: Ballot) -> None:
        member = self._member
        voter = member.history.voters.find(key)
        address = None if voter is None else voter.find_address(member.listener_name)
        if address is None:
            ballot.retry_at_us = state.deadline_us
            return
        ballot.request = VoteRequest(
            cluster_id=member.cluster_id,
            voter=key,
            candidate_epoch=member.epoch,
            candidate=member.local,
            last_epoch=member.log.last_epoch,
            last_epoch_end_offset=member.log.end_offset,
            pre_vote=state.role is Role.PROSPECTIVE,
        )
        member.send(key.node_id, address, ballot.request)

    def _is_log_complete(self, request: VoteRequest) -> bool:
        """True if the candidate's log has all that this one has, as far as a comparison of their ends can tell (RAFT-3)."""
        log = self._member.log
        return (request.last_epoch, request.last_epoch_end_offset) >= (log.last_epoch, log.end_offset)

    def _grants_pre_vote(self, request: VoteRequest) -> bool:
        """True if the candidate would get this node's vote (RAFT-6). A follower whose leader has answered it says no."""
        state = self._member.state
        if state.role is Role.LEADER or (
            isinstance(state, Follower) and state.has_fetched and not state.is_leader_gone
        ):
            return False
        return self._is_log_complete(request)

    def _grants_vote(self, request: VoteRequest) -> bool:
        """True if the candidate gets this epoch's vote; the candidate that has it gets it again."""
        member = self._member
        if member.voted is not None:
            return member.known_leader == NO_NODE and member.voted.is_same(request.candidate)
        return member.known_leader == NO_NODE and self._is_log_complete(request)


def find_ballot(state: Election, node_id: NodeId, request: VoteRequest) -> tuple[VoterKey, Ballot] | None:
    """The ballot that a request of this round belongs to; None if it is of an earlier round."""
    for key, ballot in state.ballots.items():
        if key.node_id == node_id and ballot.request is request:
            return key, ballot
    return None
