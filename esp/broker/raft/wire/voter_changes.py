"""The messages by which the voters of the quorum are changed (KIP-853)."""

from typing import Any, Final

from kio.schema.add_raft_voter.v1 import request as add_voter_request
from kio.schema.add_raft_voter.v1 import response as add_voter_response
from kio.schema.remove_raft_voter.v0 import request as remove_voter_request
from kio.schema.remove_raft_voter.v0 import response as remove_voter_response
from kio.schema.types import BrokerId
from kio.schema.update_raft_voter.v0 import request as update_voter_request
from kio.schema.update_raft_voter.v0 import response as update_voter_response
from kio.static.primitive import i16, i32

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.raft.wire.metadata_partition import (
    decode_endpoints,
    decode_ms,
    encode_endpoints,
    encode_ms,
    told_endpoint,
    voter_key,
)
from esp.model.ids import NO_NODE, LeaderEpoch, NodeId
from esp.raft.messages import AddVoterRequest, RemoveVoterRequest, UpdateVoterRequest, VoterChangeResponse
from esp.raft.voters import KRAFT_VERSION, find_address

_NO_EPOCH: Final = LeaderEpoch(-1)

# --- AddRaftVoter -----------------------------------------------------------------------------------------------------------------


def encode_add_request(request: AddVoterRequest) -> add_voter_request.AddRaftVoterRequest:
    """For the member that is asked."""
    return add_voter_request.AddRaftVoterRequest(
        cluster_id=request.cluster_id,
        timeout=encode_ms(request.timeout_ms),
        voter_id=i32(request.voter.node_id),
        voter_directory_id=request.voter.directory_id,
        listeners=encode_endpoints(add_voter_request.Listener, request.endpoints),
        ack_when_committed=request.ack_when_committed,
    )


def decode_add_request(message: Any) -> AddVoterRequest:
    """An AddRaftVoter request for the core."""
    return AddVoterRequest(
        cluster_id=message.cluster_id,
        voter=voter_key(message.voter_id, message.voter_directory_id),
        endpoints=decode_endpoints(message.listeners),
        timeout_ms=decode_ms(message.timeout),
        ack_when_committed=message.ack_when_committed,
    )


def encode_add_response(response: VoterChangeResponse) -> add_voter_response.AddRaftVoterResponse:
    """The answer to an AddRaftVoter request."""
    return add_voter_response.AddRaftVoterResponse(
        throttle_time=NO_THROTTLE, error_code=response.error, error_message=response.message
    )


# --- RemoveRaftVoter --------------------------------------------------------------------------------------------------------------


def encode_remove_request(request: RemoveVoterRequest) -> remove_voter_request.RemoveRaftVoterRequest:
    """For the member that is asked."""
    return remove_voter_request.RemoveRaftVoterRequest(
        cluster_id=request.cluster_id,
        voter_id=i32(request.voter.node_id),
        voter_directory_id=request.voter.directory_id,
    )


def decode_remove_request(message: Any) -> RemoveVoterRequest:
    """A RemoveRaftVoter request for the core."""
    return RemoveVoterRequest(
        cluster_id=message.cluster_id, voter=voter_key(message.voter_id, message.voter_directory_id)
    )


def encode_remove_response(response: VoterChangeResponse) -> remove_voter_response.RemoveRaftVoterResponse:
    """The answer to a RemoveRaftVoter request."""
    return remove_voter_response.RemoveRaftVoterResponse(
        throttle_time=NO_THROTTLE, error_code=response.error, error_message=response.message
    )


# --- AddRaftVoter and RemoveRaftVoter ---------------------------------------------------------------------------------------------


def decode_change_response(_request: Any, answer: Any, _listener: str) -> VoterChangeResponse:
    """Return the answering member's response. Raises RefusedCallError."""
    return VoterChangeResponse(error=answer.error_code, leader_epoch=_NO_EPOCH, message=answer.error_message)


# --- UpdateRaftVoter --------------------------------------------------------------------------------------------------------------


def encode_update_request(request: UpdateVoterRequest) -> update_voter_request.UpdateRaftVoterRequest:
    """For the member that is asked."""
    return update_voter_request.UpdateRaftVoterRequest(
        cluster_id=request.cluster_id,
        current_leader_epoch=i32(request.current_leader_epoch),
        voter_id=i32(request.voter.node_id),
        voter_directory_id=request.voter.directory_id,
        listeners=encode_endpoints(update_voter_request.Listener, request.endpoints),
        k_raft_version_feature=update_voter_request.KRaftVersionFeature(
            min_supported_version=i16(0), max_supported_version=i16(KRAFT_VERSION)
        ),
    )


def decode_update_request(message: Any) -> UpdateVoterRequest:
    """An UpdateRaftVoter request for the core."""
    return UpdateVoterRequest(
        cluster_id=message.cluster_id,
        current_leader_epoch=LeaderEpoch(message.current_leader_epoch),
        voter=voter_key(message.voter_id, message.voter_directory_id),
        endpoints=decode_endpoints(message.listeners),
    )


def encode_update_response(
    response: VoterChangeResponse, listener: str
) -> update_voter_response.UpdateRaftVoterResponse:
    """The answer to an UpdateRaftVoter request."""
    address = find_address(response.leader_endpoints, listener)
    return update_voter_response.UpdateRaftVoterResponse(
        throttle_time=NO_THROTTLE,
        error_code=response.error,
        current_leader=update_voter_response.CurrentLeader(
            leader_id=BrokerId(response.leader_id if address is not None else NO_NODE),
            leader_epoch=i32(response.leader_epoch),
            host=address.host if address is not None else "",
            port=i32(address.port if address is not None else 0),
        ),
    )


def decode_update_response(_request: UpdateVoterRequest, answer: Any, listener: str) -> VoterChangeResponse:
    """Return the answering member's response. Raises RefusedCallError."""
    leader = answer.current_leader
    return VoterChangeResponse(
        error=answer.error_code,
        leader_epoch=LeaderEpoch(leader.leader_epoch),
        leader_id=NodeId(leader.leader_id),
        leader_endpoints=(told_endpoint(listener, leader.host, leader.port),)
        if leader.leader_id >= 0 and leader.host
        else (),
    )
