"""Adding, removing and moving voters (RAFT-40 to RAFT-43, KIP-853)."""

import pytest
from msgspec.structs import replace

from esp.model.errors import ErrorCode
from esp.model.ids import ZERO_UUID, DirectoryId, LeaderEpoch, NodeId
from esp.raft.effects import Append, Reply
from esp.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoteRequest,
)
from esp.raft.roles import Role
from esp.raft.voters import VoterKey
from tests.unit.raft.members import (
    CLUSTER,
    at,
    committed,
    deadline,
    elect,
    endpoints,
    fetch,
    granted,
    key,
    member,
    of_type,
    rejected,
    reply,
    sent,
)

NO_DIRECTORY = DirectoryId(ZERO_UUID)


def _leader(*, has_committed=True):
    """Node 1 of three; 3 records are committed."""
    node = member(1)
    elect(node)
    if has_committed:
        node.on_flushed(at(1), 3)
        assert committed(node.on_request(at(1), fetch(1, 3, 1, 2, wait_ms=0), "f")) == [3]
    return node


def _add(number=4, timeout_ms=5_000, **fields):
    return AddVoterRequest(
        cluster_id=CLUSTER, voter=key(number), endpoints=endpoints(number), timeout_ms=timeout_ms, **fields
    )


def _remove(number, disk=0):
    return RemoveVoterRequest(cluster_id=CLUSTER, voter=key(number, disk))


def _reach(node, effects, number=4, error=ErrorCode.none):
    """The new voter answers the leader's word."""
    request = sent(effects, BeginQuorumEpochRequest)[number]
    answer = BeginQuorumEpochResponse(leader_epoch=LeaderEpoch(1), leader_id=NodeId(1), error=error)
    return node.on_response(at(1.1), NodeId(number), request, answer)


def _ids(node):
    return [voter.key.node_id for voter in node.voters.voters]


def test_a_voter_is_added_when_it_answers_and_has_caught_up_and_commits_count_it():
    node = _leader()
    effects = node.on_request(at(1), _add(), "add")
    assert not of_type(effects, Append)
    assert not of_type(_reach(node, effects), Append)
    effects = node.on_request(at(1.2), fetch(1, 3, 1, 4, wait_ms=0), "f")  # RAFT-42
    assert of_type(effects, Append)
    assert _ids(node) == [1, 2, 3, 4]  # RAFT-40
    node.on_flushed(at(1.3), 4)
    assert committed(node.on_request(at(1.3), fetch(1, 4, 1, 2, wait_ms=0), "f")) == []
    effects = node.on_request(at(1.4), fetch(1, 4, 1, 4, wait_ms=0), "f")
    assert committed(effects) == [4]
    assert reply(effects, "add").error is ErrorCode.none


def test_without_waiting_for_the_commit_the_answer_comes_with_the_append():
    node = _leader()
    node.on_request(at(1), fetch(1, 3, 1, 4, wait_ms=0), "f")
    effects = _reach(node, node.on_request(at(1), _add(ack_when_committed=False), "add"))
    assert reply(effects, "add").error is ErrorCode.none
    node.on_flushed(at(1.3), 4)
    node.on_request(at(1.3), fetch(1, 4, 1, 2, wait_ms=0), "f")
    assert not [answer for answer in of_type(node.resign(at(2)), Reply) if answer.token == "add"]


def test_a_voter_that_does_not_catch_up_in_time_is_not_added():
    node = _leader()
    _reach(node, node.on_request(at(1), _add(timeout_ms=700), "add"))
    node.on_request(at(1.2), fetch(1, 0, 0, 4, wait_ms=0), "f")
    assert node.next_deadline_us <= 1_700_000
    assert reply(node.on_tick(at(1.7)), "add").error is ErrorCode.request_timed_out
    assert _ids(node) == [1, 2, 3]


def test_a_voter_that_cannot_be_reached_or_is_another_is_not_added():
    node = _leader()
    effects = node.on_request(at(1), _add(), "add")
    request = sent(effects, BeginQuorumEpochRequest)[4]
    effects = node.on_send_failed(at(1), NodeId(4), request, refused=True)
    assert reply(effects, "add").error is ErrorCode.request_timed_out
    effects = node.on_request(at(1), _add(), "again")
    assert reply(_reach(node, effects, error=ErrorCode.invalid_voter_key), "again").error is ErrorCode.invalid_voter_key


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (_add(2), ErrorCode.duplicate_voter),
        (_remove(4), ErrorCode.voter_not_found),
        (replace(_add(), voter=VoterKey(NodeId(4), NO_DIRECTORY)), ErrorCode.invalid_request),
        (replace(_add(), voter=VoterKey(NodeId(-4), key(4).directory_id)), ErrorCode.invalid_request),
        (replace(_remove(2), voter=VoterKey(NodeId(2), NO_DIRECTORY)), ErrorCode.invalid_request),
        (_remove(2, disk=1), ErrorCode.voter_not_found),
        (
            AddVoterRequest(cluster_id=CLUSTER, voter=key(4), endpoints=(), timeout_ms=1),
            ErrorCode.invalid_request,
        ),
    ],
)
def test_changes_that_cannot_be_are_refused(request_, error):
    assert reply(_leader().on_request(at(1), request_, "change"), "change").error is error


def test_nothing_is_changed_before_a_record_of_the_epoch_is_committed():
    node = _leader(has_committed=False)
    response = reply(node.on_request(at(1), _remove(3), "change"), "change")
    assert response.error is ErrorCode.request_timed_out  # RAFT-41


def test_there_is_one_change_at_a_time():
    node = _leader()
    node.on_request(at(1), _remove(3), "first")
    assert reply(node.on_request(at(1), _remove(2), "second"), "second").error is ErrorCode.request_timed_out
    assert _ids(node) == [1, 2]
    node.on_flushed(at(1.1), 4)
    effects = node.on_request(at(1.2), fetch(1, 4, 1, 2, wait_ms=0), "f")
    assert reply(effects, "first").error is ErrorCode.none


def test_a_change_that_timed_out_still_blocks_the_next_until_it_is_committed():
    node = _leader()
    node.on_request(at(1), RemoveVoterRequest(cluster_id=CLUSTER, voter=key(3), timeout_ms=10), "first")
    assert reply(node.on_tick(at(1.1)), "first").error is ErrorCode.request_timed_out
    assert reply(node.on_request(at(1.1), _add(), "second"), "second").error is ErrorCode.request_timed_out


def test_a_leader_that_removes_itself_stays_until_the_others_have_committed_it():
    node = _leader()
    node.on_request(at(1), _remove(1), "change")
    node.on_flushed(at(1), 4)
    assert node.role is Role.LEADER
    node.on_request(at(1.1), fetch(1, 4, 1, 2, wait_ms=0), "f")
    assert (node.role, node.high_watermark) == (Role.LEADER, 3)  # its own copy counts no more (RAFT-43, KAFKA-16530)
    effects = node.on_request(at(1.2), fetch(1, 4, 1, 3, wait_ms=0), "f")
    assert committed(effects) == [4]
    assert reply(effects, "change").error is ErrorCode.none
    assert node.role is Role.RESIGNED
    assert set(sent(effects, EndQuorumEpochRequest)) == {2, 3}
    node.on_tick(at(9))
    assert node.role is Role.UNATTACHED


def _removed_while_the_other_is_away():
    """Node 1 of two: it has appended, and not committed, that only node 2 votes; it was the leader and leads no more."""
    node = member(1, (1, 2))
    elect(node)
    node.on_flushed(at(1), 3)
    assert committed(node.on_request(at(1), fetch(1, 3, 1, 2, wait_ms=0), "f")) == [3]
    node.on_request(at(1), _remove(1), "change")
    node.on_flushed(at(1), 4)
    for seconds in (10, 20):
        node.on_tick(at(seconds))
    assert _ids(node) == [2]
    return node


def test_a_former_voter_stands_until_its_removal_is_committed():
    """The other cannot win: its log is the shorter one. Without this nobody would ever lead again (RAFT-43)."""
    node = _removed_while_the_other_is_away()
    assert node.role is Role.PROSPECTIVE
    assert not node.is_voter
    effects = node.on_tick(deadline(node))
    request = sent(effects, VoteRequest)[2]
    assert request.pre_vote
    now = at(21)
    effects = node.on_response(now, NodeId(2), request, granted(1))
    request = sent(effects, VoteRequest)[2]
    assert (request.pre_vote, request.candidate) == (False, key(1))
    node.on_response(now, NodeId(2), request, granted(2))
    assert node.role is Role.LEADER
    end_offset = node.log_end_offset
    node.on_flushed(now, end_offset)
    assert node.high_watermark == 3  # its own copy counts no more
    effects = node.on_request(now, fetch(2, end_offset, 2, 2, wait_ms=0), "f")
    assert committed(effects) == [end_offset]
    assert node.role is Role.RESIGNED
    node.on_tick(at(60))
    assert node.role is Role.UNATTACHED


def test_a_former_voter_does_not_elect_itself_by_its_own_vote():
    node = _removed_while_the_other_is_away()
    request = sent(node.on_tick(deadline(node)), VoteRequest)[2]
    node.on_response(at(21), NodeId(2), request, rejected(1))
    assert node.role is Role.PROSPECTIVE


def test_the_last_voter_cannot_be_removed():
    node = member(1, (1,))
    node.start(at(0))
    node.on_flushed(at(0), 3)
    assert reply(node.on_request(at(1), _remove(1), "change"), "change").error is ErrorCode.voter_not_found


def test_static_voters_cannot_be_changed():
    node = member(1, (1,), kraft_version=0)
    node.start(at(0))
    node.on_flushed(at(0), 1)
    assert reply(node.on_request(at(1), _add(), "change"), "change").error is ErrorCode.unsupported_version


def test_a_voter_that_moved_is_found_at_its_new_endpoints():
    node = _leader()
    update = UpdateVoterRequest(
        cluster_id=CLUSTER,
        current_leader_epoch=LeaderEpoch(1),
        voter=key(3),
        endpoints=endpoints(3, port=7777),
    )
    node.on_request(at(1), update, "update")
    assert node.voters.find(key(3)).endpoints == endpoints(3, port=7777)
    node.on_flushed(at(1), 4)
    effects = node.on_request(at(1.2), fetch(1, 4, 1, 2, wait_ms=0), "f")
    assert reply(effects, "update").error is ErrorCode.none
    again = node.on_request(at(1.3), update, "again")
    assert reply(again, "again").error is ErrorCode.none
    assert not of_type(again, Append)


def test_a_change_is_unknown_to_have_happened_when_leadership_is_lost():
    node = _leader()
    node.on_request(at(1), _remove(3), "change")
    assert reply(node.resign(at(1)), "change").error is ErrorCode.not_leader_or_follower  # PROMISE-7


def test_the_quorum_is_described_with_what_each_replica_has():
    node = _leader()
    node.on_request(at(1.5), fetch(1, 0, 0, 9, wait_ms=0), "f")
    quorum = node.describe(at(2))
    assert [(each.key.node_id, each.log_end_offset) for each in quorum.voters] == [(1, 3), (2, 3), (3, -1)]
    assert [(each.key.node_id, each.log_end_offset) for each in quorum.observers] == [(9, 0)]
    assert quorum.voters[1].last_caught_up_us == quorum.voters[1].last_fetch_us == 1_000_000
    assert quorum.observers[0].last_caught_up_us is None
    assert member(2).describe(at(0)) is None
