"""The messages by which a leader of the quorum is elected, announces itself and steps down (KIP-595, KIP-853, KIP-996)."""

from types import ModuleType
from typing import Any

from kio.schema.begin_quorum_epoch.v1 import request as begin_request
from kio.schema.begin_quorum_epoch.v1 import response as begin_response
from kio.schema.end_quorum_epoch.v1 import request as end_request
from kio.schema.end_quorum_epoch.v1 import response as end_response
from kio.schema.types import BrokerId
from kio.schema.vote.v2 import request as vote_request
from kio.schema.vote.v2 import response as vote_response
from kio.static.primitive import i32, i64

from esp.broker.raft.wire.metadata_partition import (
    PARTITION,
    TOP_LEVEL,
    answered_partition,
    asked_partition,
    decode_endpoints,
    encode_endpoints,
    leadership,
    node_endpoints,
    only_topic,
    voter_key,
)
from esp.model.errors import ErrorCode
from esp.model.ids import LeaderEpoch, NodeId
from esp.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Response,
    VoteRequest,
    VoteResponse,
)

# --- Vote (KIP-595, KIP-996) ------------------------------------------------------------------------------------------------------


def encode_vote_request(request: VoteRequest) -> vote_request.VoteRequest:
    """For the member that is asked."""
    return vote_request.VoteRequest(
        cluster_id=request.cluster_id,
        voter_id=BrokerId(request.voter.node_id),
        topics=only_topic(
            vote_request.TopicData,
            vote_request.PartitionData(
                partition_index=PARTITION,
                replica_epoch=i32(request.candidate_epoch),
                replica_id=BrokerId(request.candidate.node_id),
                replica_directory_id=request.candidate.directory_id,
                voter_directory_id=request.voter.directory_id,
                last_offset_epoch=i32(request.last_epoch),
                last_offset=i64(request.last_epoch_end_offset),
                pre_vote=request.pre_vote,
            ),
        ),
    )


def decode_vote_request(message: Any) -> VoteRequest:
    """Return another member's request. Raises ApiError: INVALID_REQUEST: the request is not about the metadata log alone."""
    partition = asked_partition(message)
    return VoteRequest(
        cluster_id=message.cluster_id,
        voter=voter_key(message.voter_id, partition.voter_directory_id),
        candidate_epoch=LeaderEpoch(partition.replica_epoch),
        candidate=voter_key(partition.replica_id, partition.replica_directory_id),
        last_epoch=partition.last_offset_epoch,
        last_epoch_end_offset=partition.last_offset,
        pre_vote=partition.pre_vote,
    )


def encode_vote_response(response: VoteResponse, listener: str) -> vote_response.VoteResponse:
    """The answer to a Vote request."""
    return vote_response.VoteResponse(**_answer(vote_response, response, listener, vote_granted=response.is_granted))


def decode_vote_response(_request: VoteRequest, answer: Any, listener: str) -> VoteResponse:
    """Return the answering member's response. Raises RefusedCallError."""
    partition = answered_partition(answer)
    return VoteResponse(
        is_granted=partition.vote_granted, **leadership(answer, partition.error_code, partition, listener)
    )


# --- BeginQuorumEpoch -------------------------------------------------------------------------------------------------------------


def encode_begin_request(request: BeginQuorumEpochRequest) -> begin_request.BeginQuorumEpochRequest:
    """For the member that is asked."""
    return begin_request.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=BrokerId(request.voter.node_id),
        topics=only_topic(
            begin_request.TopicData,
            begin_request.PartitionData(
                partition_index=PARTITION,
                voter_directory_id=request.voter.directory_id,
                leader_id=BrokerId(request.leader_id),
                leader_epoch=i32(request.leader_epoch),
            ),
        ),
        leader_endpoints=encode_endpoints(begin_request.LeaderEndpoint, request.leader_endpoints),
    )


def decode_begin_request(message: Any) -> BeginQuorumEpochRequest:
    """Return another member's request. Raises ApiError as above."""
    partition = asked_partition(message)
    return BeginQuorumEpochRequest(
        cluster_id=message.cluster_id,
        voter=voter_key(message.voter_id, partition.voter_directory_id),
        leader_id=NodeId(partition.leader_id),
        leader_epoch=LeaderEpoch(partition.leader_epoch),
        leader_endpoints=decode_endpoints(message.leader_endpoints),
    )


def encode_begin_response(response: Response, listener: str) -> begin_response.BeginQuorumEpochResponse:
    """The answer to a BeginQuorumEpoch request."""
    return begin_response.BeginQuorumEpochResponse(**_answer(begin_response, response, listener))


def decode_begin_response(_request: BeginQuorumEpochRequest, answer: Any, listener: str) -> BeginQuorumEpochResponse:
    """Return the answering member's response. Raises RefusedCallError."""
    partition = answered_partition(answer)
    return BeginQuorumEpochResponse(**leadership(answer, partition.error_code, partition, listener))


# --- EndQuorumEpoch ---------------------------------------------------------------------------------------------------------------


def encode_end_request(request: EndQuorumEpochRequest) -> end_request.EndQuorumEpochRequest:
    """For the member that is asked."""
    return end_request.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        topics=only_topic(
            end_request.TopicData,
            end_request.PartitionData(
                partition_index=PARTITION,
                leader_id=BrokerId(request.leader_id),
                leader_epoch=i32(request.leader_epoch),
                preferred_candidates=tuple(
                    end_request.ReplicaInfo(candidate_id=BrokerId(key.node_id), candidate_directory_id=key.directory_id)
                    for key in request.preferred_candidates
                ),
            ),
        ),
        leader_endpoints=encode_endpoints(end_request.LeaderEndpoint, request.leader_endpoints),
    )


def decode_end_request(message: Any) -> EndQuorumEpochRequest:
    """Return another member's request. Raises ApiError as above.

    Version 0 names the preferred candidates without their directories, and no endpoints.
    """
    partition = asked_partition(message)
    if hasattr(partition, "preferred_candidates"):
        candidates = [
            voter_key(info.candidate_id, info.candidate_directory_id) for info in partition.preferred_candidates
        ]
        endpoints = decode_endpoints(message.leader_endpoints)
    else:
        candidates = [voter_key(node_id, None) for node_id in partition.preferred_successors]
        endpoints = ()
    return EndQuorumEpochRequest(
        cluster_id=message.cluster_id,
        leader_id=NodeId(partition.leader_id),
        leader_epoch=LeaderEpoch(partition.leader_epoch),
        preferred_candidates=tuple(candidates),
        leader_endpoints=endpoints,
    )


def encode_end_response(response: Response, listener: str) -> end_response.EndQuorumEpochResponse:
    """The answer to an EndQuorumEpoch request."""
    return end_response.EndQuorumEpochResponse(**_answer(end_response, response, listener))


def decode_end_response(_request: EndQuorumEpochRequest, answer: Any, listener: str) -> EndQuorumEpochResponse:
    """Return the answering member's response. Raises RefusedCallError."""
    partition = answered_partition(answer)
    return EndQuorumEpochResponse(**leadership(answer, partition.error_code, partition, listener))


def _answer(schema: ModuleType, response: Response, listener: str, **result: Any) -> dict[str, Any]:
    """The fields of an answer, whose partition tells the leader and ``result``."""
    if response.error in TOP_LEVEL:
        return {"error_code": response.error, "topics": ()}
    partition = schema.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=BrokerId(response.leader_id),
        leader_epoch=i32(response.leader_epoch),
        **result,
    )
    return {
        "error_code": ErrorCode.none,
        "topics": only_topic(schema.TopicData, partition),
        "node_endpoints": node_endpoints(schema.NodeEndpoint, response, listener),
    }
