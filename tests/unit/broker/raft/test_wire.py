"""What the core says comes out of the wire as it went in, in both directions."""

import uuid
from dataclasses import replace
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.fetch.v18 import response as fetch_response
from kio.schema.types import BrokerId
from kio.schema.update_raft_voter.v0 import response as update_response
from kio.static.primitive import i32

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.raft.wire import elections, fetching, voter_changes
from esp.broker.raft.wire.calls import CALLS
from esp.broker.raft.wire.metadata_partition import RefusedCallError, leadership
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import ZERO_UUID, DirectoryId, LeaderEpoch, NodeId
from esp.protocol.messages import decode_request, decode_response, encode_request, encode_response, load_class
from esp.protocol.registry import SERVED, ApiKey
from esp.raft import messages
from esp.raft.snapshot import SnapshotId
from esp.raft.voters import VoterEndpoint, VoterKey

LISTENER = "CONTROLLER"

_INT = st.integers(0, 2**31 - 1)
_LONG = st.integers(0, 2**62)
_KEY = st.builds(VoterKey, _INT.map(NodeId), st.uuids().map(DirectoryId))
_ENDPOINTS = st.lists(
    st.builds(VoterEndpoint, st.text(max_size=5), st.text(max_size=9), st.integers(0, 65535)), max_size=3
)
_CLUSTER = st.none() | st.text(max_size=9)
_EPOCH = _INT.map(LeaderEpoch)
_SNAPSHOT = st.builds(SnapshotId, _LONG, _INT)

_REQUESTS = {
    ApiKey.VOTE: (
        st.builds(
            messages.VoteRequest,
            cluster_id=_CLUSTER,
            voter=_KEY,
            candidate_epoch=_EPOCH,
            candidate=_KEY,
            last_epoch=_INT,
            last_epoch_end_offset=_LONG,
            pre_vote=st.booleans(),
        ),
        elections.decode_vote_request,
    ),
    ApiKey.BEGIN_QUORUM_EPOCH: (
        st.builds(
            messages.BeginQuorumEpochRequest,
            cluster_id=_CLUSTER,
            voter=_KEY,
            leader_id=_INT.map(NodeId),
            leader_epoch=_EPOCH,
            leader_endpoints=_ENDPOINTS.map(tuple),
        ),
        elections.decode_begin_request,
    ),
    ApiKey.END_QUORUM_EPOCH: (
        st.builds(
            messages.EndQuorumEpochRequest,
            cluster_id=_CLUSTER,
            leader_id=_INT.map(NodeId),
            leader_epoch=_EPOCH,
            preferred_candidates=st.lists(_KEY, max_size=3).map(tuple),
            leader_endpoints=_ENDPOINTS.map(tuple),
        ),
        elections.decode_end_request,
    ),
    ApiKey.FETCH: (
        st.builds(
            messages.FetchRequest,
            cluster_id=_CLUSTER,
            replica=_KEY,
            current_leader_epoch=_EPOCH,
            fetch_offset=_LONG,
            last_fetched_epoch=_INT,
            high_watermark=_LONG,
            max_wait_ms=st.integers(0, 10**6),
            max_bytes=_INT,
        ),
        fetching.decode_fetch_request,
    ),
    ApiKey.FETCH_SNAPSHOT: (
        st.builds(
            messages.FetchSnapshotRequest,
            cluster_id=_CLUSTER,
            replica=_KEY,
            current_leader_epoch=_EPOCH,
            snapshot_id=_SNAPSHOT,
            position=_LONG,
            max_bytes=_INT,
        ),
        fetching.decode_fetch_snapshot_request,
    ),
    ApiKey.ADD_RAFT_VOTER: (
        st.builds(
            messages.AddVoterRequest,
            cluster_id=_CLUSTER,
            voter=_KEY,
            endpoints=_ENDPOINTS.map(tuple),
            timeout_ms=st.integers(0, 10**6),
            ack_when_committed=st.booleans(),
        ),
        voter_changes.decode_add_request,
    ),
    ApiKey.REMOVE_RAFT_VOTER: (
        st.builds(messages.RemoveVoterRequest, cluster_id=_CLUSTER, voter=_KEY),
        voter_changes.decode_remove_request,
    ),
    ApiKey.UPDATE_RAFT_VOTER: (
        st.builds(
            messages.UpdateVoterRequest,
            cluster_id=_CLUSTER,
            current_leader_epoch=_EPOCH,
            voter=_KEY,
            endpoints=_ENDPOINTS.map(tuple),
        ),
        voter_changes.decode_update_request,
    ),
}


def _body(frame, header_size):
    return memoryview(frame)[4 + header_size :]


def _through_request(api_key, message):
    """The message after a walk over the wire."""
    version = SERVED[api_key].max_version
    with_body = encode_request(api_key, version, 1, None, message)
    empty = 10 + (1 if SERVED[api_key].is_flexible(version) else 0)
    return decode_request(api_key, version, _body(with_body, empty))


def _through_response(api_key, message):
    version = SERVED[api_key].max_version
    header = 4 + (1 if SERVED[api_key].is_flexible(version) else 0)
    return decode_response(api_key, version, _body(encode_response(api_key, version, 1, message), header))


@pytest.mark.parametrize("api_key", _REQUESTS, ids=lambda key: key.name)
@given(data=st.data())
def test_a_request_arrives_as_it_was_sent(api_key, data):
    strategy, read = _REQUESTS[api_key]
    request = data.draw(strategy)
    call = CALLS[type(request)]
    assert call.api_key is api_key
    assert read(_through_request(api_key, call.encode(request))) == request


_LEADERSHIP = {
    "leader_epoch": _EPOCH,
    "leader_id": _INT.map(NodeId),
    "leader_endpoints": st.tuples(
        st.builds(VoterEndpoint, st.just(LISTENER), st.text(min_size=1, max_size=9), st.integers(0, 65535))
    ),
}
_ERROR = st.sampled_from([ErrorCode.none, ErrorCode.fenced_leader_epoch, ErrorCode.invalid_voter_key])
_SOME_REQUEST = {key: strategy for key, (strategy, _read) in _REQUESTS.items()}

_RESPONSES = {
    ApiKey.VOTE: (
        st.builds(messages.VoteResponse, error=_ERROR, is_granted=st.booleans(), **_LEADERSHIP),
        elections.encode_vote_response,
    ),
    ApiKey.BEGIN_QUORUM_EPOCH: (
        st.builds(messages.BeginQuorumEpochResponse, error=_ERROR, **_LEADERSHIP),
        elections.encode_begin_response,
    ),
    ApiKey.END_QUORUM_EPOCH: (
        st.builds(messages.EndQuorumEpochResponse, error=_ERROR, **_LEADERSHIP),
        elections.encode_end_response,
    ),
    ApiKey.FETCH: (
        st.builds(
            messages.FetchResponse,
            error=_ERROR,
            high_watermark=st.none() | _LONG,
            log_start_offset=_LONG,
            diverging_epoch=st.none() | st.builds(messages.EpochEnd, _INT, _LONG),
            snapshot_id=st.none() | _SNAPSHOT,
            records=st.binary(max_size=20),
            **_LEADERSHIP,
        ),
        fetching.encode_fetch_response,
    ),
    ApiKey.UPDATE_RAFT_VOTER: (
        st.builds(messages.VoterChangeResponse, error=_ERROR, **_LEADERSHIP),
        voter_changes.encode_update_response,
    ),
}


@pytest.mark.parametrize("api_key", _RESPONSES, ids=lambda key: key.name)
@given(data=st.data())
def test_an_answer_arrives_as_it_was_sent(api_key, data):
    strategy, write = _RESPONSES[api_key]
    response = data.draw(strategy)
    request = data.draw(_SOME_REQUEST[api_key])
    assert (
        CALLS[type(request)].decode(request, _through_response(api_key, write(response, LISTENER)), LISTENER)
        == response
    )


@pytest.mark.parametrize(
    ("write", "response"),
    [
        (elections.encode_vote_response, messages.VoteResponse),
        (elections.encode_begin_response, messages.BeginQuorumEpochResponse),
        (elections.encode_end_response, messages.EndQuorumEpochResponse),
        (fetching.encode_fetch_response, messages.FetchResponse),
        (fetching.encode_fetch_snapshot_response, messages.FetchSnapshotResponse),
        (voter_changes.encode_update_response, messages.VoterChangeResponse),
    ],
)
@pytest.mark.parametrize(("listener", "ports"), [("CONTROLLER", [1]), ("CONTROLLER_SSL", [2]), ("OTHER", [])])
def test_an_answer_names_the_leaders_endpoint_of_the_listener_that_was_asked(write, response, listener, ports):
    """KIP-853"""
    more = {"snapshot_id": SnapshotId(1, 1)} if response is messages.FetchSnapshotResponse else {}
    endpoints = (VoterEndpoint("CONTROLLER", "leader", 1), VoterEndpoint("CONTROLLER_SSL", "leader", 2))
    answer = write(
        response(leader_epoch=LeaderEpoch(3), leader_id=NodeId(7), leader_endpoints=endpoints, **more), listener
    )
    if response is messages.VoterChangeResponse:
        found = [answer.current_leader.port] if answer.current_leader.leader_id == 7 else []
    else:
        found = [endpoint.port for endpoint in answer.node_endpoints if endpoint.node_id == 7]
    assert found == ports


@given(_SOME_REQUEST[ApiKey.FETCH_SNAPSHOT], st.binary(max_size=30), _LONG, st.integers(0, 9))
def test_a_piece_of_a_snapshot_arrives_as_it_was_sent(request, data, size, position):
    response = messages.FetchSnapshotResponse(
        leader_epoch=LeaderEpoch(3), snapshot_id=request.snapshot_id, size=size, position=position, data=data
    )
    call = CALLS[messages.FetchSnapshotRequest]
    message = _through_response(ApiKey.FETCH_SNAPSHOT, fetching.encode_fetch_snapshot_response(response, LISTENER))
    assert call.decode(request, message, LISTENER) == response


@pytest.mark.parametrize("write", [voter_changes.encode_add_response, voter_changes.encode_remove_response])
def test_a_refused_change_of_voters_says_why(write):
    refusal = messages.VoterChangeResponse(
        error=ErrorCode.duplicate_voter, leader_epoch=LeaderEpoch(3), message="There is one already."
    )
    answer = write(refusal)
    assert (answer.error_code, answer.error_message) == (ErrorCode.duplicate_voter, "There is one already.")
    decode = CALLS[messages.AddVoterRequest].decode
    assert decode(None, answer, LISTENER) == msgspec.structs.replace(refusal, leader_epoch=LeaderEpoch(-1))


@pytest.mark.parametrize(
    ("api_key", "response", "write"),
    [
        (ApiKey.VOTE, messages.VoteResponse, elections.encode_vote_response),
        (ApiKey.BEGIN_QUORUM_EPOCH, messages.BeginQuorumEpochResponse, elections.encode_begin_response),
        (ApiKey.END_QUORUM_EPOCH, messages.EndQuorumEpochResponse, elections.encode_end_response),
        (ApiKey.FETCH, messages.FetchResponse, fetching.encode_fetch_response),
    ],
)
def test_another_cluster_is_refused_as_a_whole(api_key, response, write):
    """RAFT-15"""
    answer = write(response(error=ErrorCode.inconsistent_cluster_id, leader_epoch=LeaderEpoch(3)), LISTENER)
    assert answer.error_code is ErrorCode.inconsistent_cluster_id
    call = next(call for call in CALLS.values() if call.api_key is api_key)
    with pytest.raises(RefusedCallError) as refused:
        call.decode(None, _through_response(api_key, answer), LISTENER)
    assert refused.value.error is ErrorCode.inconsistent_cluster_id


@pytest.mark.parametrize(
    "api_key", [ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.FETCH_SNAPSHOT]
)
def test_requests_about_other_topics_are_invalid(api_key):
    read = _REQUESTS[api_key][1]
    sample = _sample(api_key)
    message = CALLS[type(sample)].encode(sample)
    for topics in ((), (*message.topics, *message.topics), (replace(message.topics[0], partitions=()),)):
        with pytest.raises(ApiError) as refused:
            read(replace(message, topics=topics))
        assert refused.value.code is ErrorCode.invalid_request


def _sample(api_key):
    key = VoterKey(NodeId(1), DirectoryId(uuid.UUID(int=7)))
    common = {"cluster_id": "c"}
    if api_key is ApiKey.VOTE:
        return messages.VoteRequest(
            voter=key, candidate_epoch=1, candidate=key, last_epoch=1, last_epoch_end_offset=1, pre_vote=False, **common
        )
    if api_key is ApiKey.BEGIN_QUORUM_EPOCH:
        return messages.BeginQuorumEpochRequest(voter=key, leader_id=1, leader_epoch=1, leader_endpoints=(), **common)
    if api_key is ApiKey.END_QUORUM_EPOCH:
        return messages.EndQuorumEpochRequest(
            leader_id=1, leader_epoch=1, preferred_candidates=(), leader_endpoints=(), **common
        )
    return messages.FetchSnapshotRequest(
        replica=key, current_leader_epoch=1, snapshot_id=SnapshotId(1, 1), position=0, max_bytes=1, **common
    )


def test_the_first_version_of_end_quorum_epoch_names_no_directories():
    model = load_class(SERVED[ApiKey.END_QUORUM_EPOCH], 0, "request")
    inner = __import__(model.__module__, fromlist=["TopicData"])
    partition = inner.PartitionData(partition_index=0, leader_id=1, leader_epoch=5, preferred_successors=(2, 3))
    message = model(
        cluster_id=None, topics=(inner.TopicData(topic_name="__cluster_metadata", partitions=(partition,)),)
    )
    request = elections.decode_end_request(message)
    assert request.preferred_candidates == (VoterKey(NodeId(2), ZERO_UUID), VoterKey(NodeId(3), ZERO_UUID))


def test_a_consumers_fetch_does_not_reach_the_quorum():
    message = load_class(SERVED[ApiKey.FETCH], 12, "request")
    with pytest.raises(ApiError) as refused:
        fetching.decode_fetch_request(message.__new__(message))
    assert refused.value.code is ErrorCode.unsupported_version


def test_a_fetch_that_knows_no_high_watermark_field_says_nothing_of_it():
    request = messages.FetchRequest(
        cluster_id="c",
        replica=VoterKey(NodeId(1), DirectoryId(uuid.UUID(int=7))),
        current_leader_epoch=LeaderEpoch(1),
        fetch_offset=5,
        last_fetched_epoch=1,
        high_watermark=None,
        max_wait_ms=10,
        max_bytes=100,
    )
    version = 17
    frame = encode_request(ApiKey.FETCH, version, 1, None, CALLS[messages.FetchRequest].encode(request))
    assert fetching.decode_fetch_request(decode_request(ApiKey.FETCH, version, _body(frame, 11))) == request


@pytest.mark.parametrize("port", [-1, 65_536, 2**31 - 1])
def test_an_answer_with_an_address_that_is_none_counts_as_refused(port):
    """The field has 32 bits; the node would pass the address on in fields of 16."""
    endpoint = fetch_response.NodeEndpoint(node_id=BrokerId(2), host="host", port=i32(port))
    leader = fetch_response.LeaderIdAndEpoch(leader_id=BrokerId(2), leader_epoch=i32(3))
    answer = SimpleNamespace(node_endpoints=(endpoint,))
    with pytest.raises(RefusedCallError):
        leadership(answer, ErrorCode.none, leader, LISTENER)
    moved = update_response.UpdateRaftVoterResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        current_leader=update_response.CurrentLeader(
            leader_id=BrokerId(2), leader_epoch=i32(3), host="host", port=i32(port)
        ),
    )
    with pytest.raises(RefusedCallError):
        voter_changes.decode_update_response(None, moved, LISTENER)
