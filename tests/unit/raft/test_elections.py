"""Who gets votes, who is asked for them, and how fast a round ends (RAFT-1 to RAFT-8, KIP-996)."""

import msgspec
import pytest

from esp.model.errors import ErrorCode
from esp.model.ids import LeaderEpoch, NodeId
from esp.raft.effects import Persist, Reply
from esp.raft.member import LAST_EPOCH
from esp.raft.messages import BeginQuorumEpochRequest, EndQuorumEpochRequest, FetchRequest, VoteRequest
from esp.raft.quorum_state import QuorumState
from esp.raft.roles import Role
from esp.raft.voters import Voter, VoterEndpoint, VoterKey, VoterSet
from tests.unit.raft.members import (
    CLUSTER,
    address,
    at,
    deadline,
    elect,
    endpoints,
    fetched,
    granted,
    key,
    log,
    member,
    persisted,
    prospective,
    rejected,
    reply,
    sent,
    vote,
)


def _ask(node, request):
    return reply(node.on_request(at(1), request, "token"))


def _begin(epoch, leader=2):
    return BeginQuorumEpochRequest(
        cluster_id=CLUSTER,
        voter=key(1),
        leader_id=NodeId(leader),
        leader_epoch=LeaderEpoch(epoch),
        leader_endpoints=endpoints(leader),
    )


def _follower(*, has_fetched):
    node = member(1, log=log(5, (3, 0)))
    node.start(at(0))
    request = sent(node.on_request(at(0.1), _begin(3), "begin"), FetchRequest)[2]
    if has_fetched:
        node.on_response(at(0.2), NodeId(2), request, fetched(3))
    return node


def _secure(number):
    return VoterEndpoint("CONTROLLER_SSL", "host", 9500 + number)


def test_a_follower_tells_all_listeners_of_its_leader():
    node = member(1)
    node.start(at(0))
    begin = msgspec.structs.replace(_begin(3), leader_endpoints=(*endpoints(2, 9999), _secure(2)))
    assert _ask(node, begin).leader_endpoints == (*endpoints(2, 9999), _secure(2))
    assert _ask(node, vote(2)).leader_endpoints == (*endpoints(2, 9999), _secure(2))


def test_listeners_that_the_leader_has_not_told_are_those_of_the_voters_record():
    others = tuple(Voter(key(number), (*endpoints(number), _secure(number))) for number in (1, 2, 3))
    node = member(1, voters=VoterSet(others))
    node.start(at(0))
    assert _ask(node, _begin(3)).leader_endpoints == (*endpoints(2), _secure(2))
    moved = msgspec.structs.replace(_begin(4, 3), leader_endpoints=endpoints(3, 9999))
    assert _ask(node, moved).leader_endpoints == (*endpoints(3, 9999), _secure(3)), "what it told counts more"


def test_a_leader_tells_all_its_own_listeners():
    own = (*endpoints(1), _secure(1))
    node = member(1, own=own)
    elect(node)
    assert _ask(node, vote(node.epoch - 1)).leader_endpoints == own


def test_a_vote_is_written_before_it_is_told():
    node = member(1)
    node.start(at(0))
    effects = node.on_request(at(0), vote(4), "token")
    kinds = [type(effect) for effect in effects]
    assert kinds.index(Persist) < kinds.index(Reply)  # RAFT-1
    assert persisted(effects)[-1] == QuorumState(
        LeaderEpoch(4), voted_id=NodeId(2), voted_directory_id=key(2).directory_id
    )
    assert reply(effects).is_granted


def test_there_is_one_vote_in_an_epoch_also_after_a_restart():
    node = member(1)
    node.start(at(0))
    state = persisted(node.on_request(at(0), vote(4), "token"))[-1]
    for again in (node, member(1, state=state)):
        assert not _ask(again, vote(4, 3)).is_granted  # RAFT-2
        assert _ask(again, vote(4, 2)).is_granted
        assert not _ask(again, vote(4, 2, disk=1)).is_granted


@pytest.mark.parametrize(
    ("last_epoch", "end", "is_granted"), [(3, 5, True), (3, 6, True), (4, 1, True), (3, 4, False), (2, 99, False)]
)
@pytest.mark.parametrize("pre", [True, False])
def test_a_vote_needs_a_log_that_is_as_complete(last_epoch, end, is_granted, pre):
    node = member(1, log=log(5, (3, 0)))
    node.start(at(0))
    assert _ask(node, vote(5, last_epoch=last_epoch, end=end, pre=pre)).is_granted == is_granted  # RAFT-3


@pytest.mark.parametrize("epoch", [0, 7])
@pytest.mark.parametrize("node_id", [-1, -7])
def test_a_leader_or_candidate_without_an_id_is_refused_and_changes_nothing(node_id, epoch):
    """It cannot be followed, and a vote for it would be forgotten with a restart (RAFT-2)."""
    node = member(1)
    prospective(node)
    candidate = msgspec.structs.replace(vote(epoch), candidate=VoterKey(NodeId(node_id), key(2).directory_id))
    end = EndQuorumEpochRequest(
        cluster_id=CLUSTER,
        leader_id=NodeId(node_id),
        leader_epoch=LeaderEpoch(epoch),
        preferred_candidates=(),
        leader_endpoints=endpoints(2),
    )
    begin = msgspec.structs.replace(_begin(epoch, node_id), leader_endpoints=endpoints(2))
    for request in (begin, candidate, end):
        effects = node.on_request(at(0.3), request, "token")
        assert reply(effects).error is ErrorCode.invalid_request
        assert persisted(effects) == []
    assert (node.epoch, node.role) == (0, Role.PROSPECTIVE)


@pytest.mark.parametrize("voters", [(1, 2, 3), (1,)])
def test_no_member_stands_for_election_in_the_last_epoch(voters):
    """The next one has no place in any message, nor in ``quorum-state`` for Kafka (decision 70)."""
    node = member(1, voters=voters)
    node.start(at(0))
    _ask(node, vote(LAST_EPOCH))
    now = deadline(node)
    for _ in range(20):
        effects = node.on_tick(now)
        for peer, request in sent(effects, VoteRequest).items():
            assert request.pre_vote
            effects += node.on_response(now, peer, request, granted(LAST_EPOCH))
        assert persisted(effects) == []
        assert deadline(node) > now, "it asks again, after a while"
        now = deadline(node)
    assert (node.epoch, node.role) == (LAST_EPOCH, Role.PROSPECTIVE)


def test_a_member_leads_the_last_epoch_if_it_stood_in_the_one_before():
    node = member(1)
    node.start(at(0))
    _ask(node, vote(LAST_EPOCH - 1))
    requests = sent(node.on_tick(deadline(node)), VoteRequest)
    effects = node.on_response(at(2), NodeId(2), requests[2], granted(LAST_EPOCH - 1))
    node.on_response(at(2), NodeId(2), sent(effects, VoteRequest)[2], granted(LAST_EPOCH))
    assert (node.epoch, node.role) == (LAST_EPOCH, Role.LEADER)


def test_no_vote_is_given_in_an_epoch_with_a_leader():
    node = _follower(has_fetched=False)
    assert not _ask(node, vote(3, 3, last_epoch=2, end=9)).is_granted
    assert node.leader_id == 2


def test_a_candidate_of_an_older_epoch_is_fenced():
    assert _ask(_follower(has_fetched=False), vote(2)).error is ErrorCode.fenced_leader_epoch


@pytest.mark.parametrize(
    "impossible",
    [
        vote(9, last_epoch=9),
        vote(9, last_epoch=10, pre=True),
        vote(9, last_epoch=-1),
        vote(9, end=-1),
        vote(2, last_epoch=2),
    ],
)
def test_a_candidate_with_a_log_that_nobody_can_have_is_refused_and_changes_nothing(impossible):
    node = _follower(has_fetched=False)
    effects = node.on_request(at(0.3), impossible, "token")
    assert reply(effects).error is ErrorCode.invalid_request
    assert (node.role, node.epoch, persisted(effects)) == (Role.FOLLOWER, 3, [])


def test_a_pre_candidate_may_have_records_of_its_epoch():
    node = member(1)
    node.start(at(0))
    assert _ask(node, vote(4, last_epoch=4, pre=True)).is_granted


@pytest.mark.parametrize(
    ("asked", "code"), [(1, ErrorCode.none), (-1, ErrorCode.none), (2, ErrorCode.invalid_voter_key)]
)
def test_a_request_for_another_voter_is_refused_and_one_for_nobody_is_for_everybody(asked, code):
    node = member(1)
    node.start(at(0))
    assert _ask(node, vote(4, 3, voter=asked)).error is code  # RAFT-15


def test_an_old_epoch_is_told_to_whoever_asks_the_wrong_voter():
    assert _ask(_follower(has_fetched=False), vote(2, voter=2)).error is ErrorCode.fenced_leader_epoch


@pytest.mark.parametrize("has_fetched", [True, False])
def test_a_follower_grants_pre_votes_until_its_leader_has_answered_it(has_fetched):
    node = _follower(has_fetched=has_fetched)
    before = node.next_deadline_us
    effects = node.on_request(at(0.3), vote(3, 3, last_epoch=3, end=5, pre=True), "token")
    assert reply(effects).is_granted is not has_fetched  # RAFT-6
    assert not persisted(effects)
    assert (node.role, node.next_deadline_us) == (Role.FOLLOWER, before)


def test_a_pre_vote_is_no_vote():
    node = member(1)
    node.start(at(0))
    assert _ask(node, vote(4, 3, pre=True)).is_granted
    assert _ask(node, vote(4, 2)).is_granted


def test_a_pre_vote_of_a_newer_epoch_moves_the_receiver_into_it_durably():
    node = _follower(has_fetched=True)
    effects = node.on_request(at(0.3), vote(7, 3, pre=True), "token")
    assert persisted(effects)[-1].leader_epoch == 7
    assert (node.role, node.epoch) == (Role.UNATTACHED, 7)


def test_a_leader_grants_no_pre_vote_of_its_epoch():
    node = member(1)
    elect(node)
    assert not _ask(node, vote(1, 3, last_epoch=1, end=99, pre=True)).is_granted


def test_candidacy_follows_a_majority_of_pre_votes_and_is_durable_before_it_is_told():
    node = member(1)
    requests = prospective(node)
    assert set(requests) == {2, 3}
    assert all(request.pre_vote and request.candidate_epoch == 0 for request in requests.values())
    assert node.role is Role.PROSPECTIVE
    effects = node.on_response(at(0.5), NodeId(3), requests[3], granted(0))
    assert node.role is Role.CANDIDATE
    assert isinstance(effects[0], Persist)
    assert (effects[0].state.leader_epoch, effects[0].state.voted_id) == (1, 1)
    assert all(not request.pre_vote and request.candidate_epoch == 1 for request in sent(effects, VoteRequest).values())


def test_a_candidate_leads_with_the_votes_of_a_majority():
    node = member(1)
    effects = elect(node)
    assert node.role is Role.LEADER
    assert set(sent(effects, BeginQuorumEpochRequest)) == {2, 3}  # RAFT-9


def test_votes_of_an_earlier_round_count_for_nothing():
    node = member(1, voters=(1, 2, 3, 4, 5))
    requests = prospective(node)
    old = requests[2]
    while node.role is Role.PROSPECTIVE:
        node.on_tick(deadline(node))
        if node.next_deadline_us > 10_000_000:
            break
    node.on_response(at(11), NodeId(2), old, granted(0))
    node.on_response(at(11), NodeId(3), requests[3], granted(0))
    assert node.role is Role.PROSPECTIVE


def test_a_round_that_cannot_be_won_lasts_a_random_pause_only():
    node = member(1)
    requests = prospective(node)
    now = at(0.5)
    node.on_response(now, NodeId(2), requests[2], rejected(0))
    effects = node.on_response(now, NodeId(3), requests[3], rejected(0))
    assert not sent(effects, VoteRequest)
    assert 20_000 <= node.next_deadline_us - now.monotonic_us <= 100_000
    assert set(sent(node.on_tick(deadline(node)), VoteRequest)) == {2, 3}
    assert node.epoch == 0


def test_a_follower_whose_pre_vote_fails_follows_again():
    node = _follower(has_fetched=True)
    effects = node.on_tick(at(9))
    requests = sent(effects, VoteRequest)
    assert node.role is Role.PROSPECTIVE
    node.on_response(at(9), NodeId(2), requests[2], rejected(3, leader=2))
    effects = node.on_response(at(9), NodeId(3), requests[3], rejected(3, leader=2))
    assert (node.role, node.leader_id) == (Role.FOLLOWER, 2)
    assert set(sent(effects, FetchRequest)) == {2}


def test_timeouts_are_drawn_between_once_and_twice_the_setting():
    seen = set()
    for number in range(1, 30):
        node = member(number, voters=tuple(range(1, 30)))
        node.start(at(0))
        begin = BeginQuorumEpochRequest(
            cluster_id=CLUSTER,
            voter=key(number),
            leader_id=NodeId(number % 29 + 1),
            leader_epoch=LeaderEpoch(1),
            leader_endpoints=endpoints(number % 29 + 1),
        )
        node.on_request(at(0), begin, "begin")
        seen.add(node.next_deadline_us)
    assert min(seen) >= 2_000_000
    assert max(seen) <= 4_000_000
    assert len(seen) > 20  # RAFT-8


@pytest.mark.parametrize("how", ["refused", "gone", "resigned", "not leader"])
def test_the_end_of_the_leader_is_acted_on_within_milliseconds(how):
    node = member(1, log=log(5, (3, 0)))
    node.start(at(0))
    request = sent(node.on_request(at(0.1), _begin(3), "begin"), FetchRequest)[2]
    request = sent(node.on_response(at(0.2), NodeId(2), request, fetched(3)), FetchRequest)[2]
    now = at(0.3)
    if how == "refused":
        effects = node.on_send_failed(now, NodeId(2), request, refused=True)
    elif how == "gone":
        effects = node.on_leader_gone(now)
    elif how == "not leader":
        effects = node.on_response(now, NodeId(2), request, fetched(3, -1, error=ErrorCode.not_leader_or_follower))
    else:
        end = EndQuorumEpochRequest(
            cluster_id=CLUSTER,
            leader_id=NodeId(2),
            leader_epoch=LeaderEpoch(3),
            preferred_candidates=(key(1), key(3)),
            leader_endpoints=endpoints(2),
        )
        effects = node.on_request(now, end, "token")
    assert node.leader_id == -1
    effects += node.on_tick(deadline(node)) if node.role is Role.FOLLOWER else []
    assert (node.role, node.next_deadline_us - now.monotonic_us < 3_000_000) == (Role.PROSPECTIVE, True)
    assert set(sent(effects, VoteRequest)) == {2, 3}
    assert _ask(node, vote(3, 3, last_epoch=3, end=5, pre=True)).is_granted


def test_a_leader_that_was_believed_gone_is_followed_again_when_it_speaks():
    node = _follower(has_fetched=True)
    node.on_leader_gone(at(1))
    node.on_tick(deadline(node))
    assert node.role is Role.PROSPECTIVE
    node.on_request(at(1.5), _begin(3), "begin")
    assert (node.role, node.leader_id, node.leader_address) == (Role.FOLLOWER, 2, address(2))


def test_the_second_successor_waits_for_the_first():
    node = _follower(has_fetched=True)
    end = EndQuorumEpochRequest(
        cluster_id=CLUSTER,
        leader_id=NodeId(2),
        leader_epoch=LeaderEpoch(3),
        preferred_candidates=(key(3), key(1)),
        leader_endpoints=endpoints(2),
    )
    node.on_request(at(1), end, "token")
    assert node.role is Role.FOLLOWER
    assert 0 < node.next_deadline_us - 1_000_000 <= 200_000


def test_a_replica_votes_for_a_candidate_outside_its_own_voter_set():
    node = member(1, voters=(1, 2))
    node.start(at(0))
    assert _ask(node, vote(4, 9)).is_granted  # RAFT-44


def test_an_observer_never_stands_for_election():
    node = member(4)
    node.start(at(0))
    for seconds in range(1, 60):
        assert not sent(node.on_tick(at(seconds)), VoteRequest)
    assert node.role is Role.UNATTACHED
