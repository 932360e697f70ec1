"""The requests of the core, each with its API: the part of the wire that a requesting member needs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from esp.broker.raft.wire import elections, fetching, voter_changes
from esp.broker.raft.wire.metadata_partition import RefusedCallError
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
    VoteRequest,
)


@dataclass(frozen=True, slots=True)
class Call:
    """An API of the quorum: how its request is written, and its answer read."""

    api_key: ApiKey
    encode: Callable[[Any], Any]
    decode: Callable[[Any, Any, str], Response]
    """Given the request, its answer, and the listener that was asked. Raises RefusedCallError."""

    def read(self, request: Request, answer: Any, listener: str) -> Response | ErrorCode:
        """The answer of a ``listener`` to ``request``, or the error with which the request was refused as a whole."""
        try:
            return self.decode(request, answer, listener)
        except RefusedCallError as refusal:
            return refusal.error


CALLS: Final[Mapping[type[Request], Call]] = MappingProxyType(
    {
        VoteRequest: Call(ApiKey.VOTE, elections.encode_vote_request, elections.decode_vote_response),
        BeginQuorumEpochRequest: Call(
            ApiKey.BEGIN_QUORUM_EPOCH, elections.encode_begin_request, elections.decode_begin_response
        ),
        EndQuorumEpochRequest: Call(
            ApiKey.END_QUORUM_EPOCH, elections.encode_end_request, elections.decode_end_response
        ),
        FetchRequest: Call(ApiKey.FETCH, fetching.encode_fetch_request, fetching.decode_fetch_response),
        FetchSnapshotRequest: Call(
            ApiKey.FETCH_SNAPSHOT, fetching.encode_fetch_snapshot_request, fetching.decode_fetch_snapshot_response
        ),
        AddVoterRequest: Call(
            ApiKey.ADD_RAFT_VOTER, voter_changes.encode_add_request, voter_changes.decode_change_response
        ),
        RemoveVoterRequest: Call(
            ApiKey.REMOVE_RAFT_VOTER, voter_changes.encode_remove_request, voter_changes.decode_change_response
        ),
        UpdateVoterRequest: Call(
            ApiKey.UPDATE_RAFT_VOTER, voter_changes.encode_update_request, voter_changes.decode_update_response
        ),
    }
)
"""Each request of the core with its API."""
