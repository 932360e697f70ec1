"""How a member of the quorum asks the others: the core's requests as Kafka's messages, and Kafka's answers as the core's.

The other direction stands in :mod:`esp.broker.raft.answers`. Both name one partition only, that of the metadata log.
"""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol

from kio.schema.add_raft_voter.v1 import request as add_voter
from kio.schema.begin_quorum_epoch.v1 import request as begin
from kio.schema.end_quorum_epoch.v1 import request as end
from kio.schema.fetch.v18 import request as fetch
from kio.schema.fetch_snapshot.v1 import request as fetch_snapshot
from kio.schema.remove_raft_voter.v0 import request as remove_voter
from kio.schema.types import BrokerId, TopicName
from kio.schema.update_raft_voter.v0 import request as update_voter
from kio.schema.vote.v2 import request as vote
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64, u16

from esp.model.errors import ErrorCode
from esp.model.ids import METADATA_TOPIC, METADATA_TOPIC_ID, NO_NODE, LeaderEpoch, NodeId
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    EpochEnd,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from esp.raft.snapshot import SnapshotId
from esp.raft.voters import KRAFT_VERSION, VoterEndpoint

TOPIC: Final = TopicName(METADATA_TOPIC)
PARTITION: Final = i32(0)

_NO_EPOCH: Final = LeaderEpoch(-1)


class RefusedCallError(Exception):
    """The other side refused a request as a whole, and said no epoch with it."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


@dataclass(frozen=True, slots=True)
class Call:
    """An API of the quorum: how its request is written, and its answer read."""

    api_key: ApiKey
    encode: Callable[[Any], Any]
    decode: Callable[[Any, Any], Response]
    """Given the request and its answer. Raises RefusedCallError."""

    def read(self, request: Request, answer: Any) -> Response | ErrorCode:
        """The answer to ``request``, or the error with which the request was refused as a whole."""
        try:
            return self.decode(request, answer)
        except RefusedCallError as refusal:
            return refusal.error


class _Endpoint(Protocol):
    node_id: Any
    host: str
    port: int


def _encode_vote(request: VoteRequest) -> vote.VoteRequest:
    return vote.VoteRequest(
        cluster_id=request.cluster_id,
        voter_id=BrokerId(request.voter.node_id),
        topics=(
            vote.TopicData(
                topic_name=TOPIC,
                partitions=(
                    vote.PartitionData(
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
            ),
        ),
    )


def _decode_vote(_request: VoteRequest, answer: Any) -> VoteResponse:
    partition = _only_partition(answer)
    return VoteResponse(is_granted=partition.vote_granted, **_leadership(answer, partition))


def _encode_begin(request: BeginQuorumEpochRequest) -> begin.BeginQuorumEpochRequest:
    return begin.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=BrokerId(request.voter.node_id),
        topics=(
            begin.TopicData(
                topic_name=TOPIC,
                partitions=(
                    begin.PartitionData(
                        partition_index=PARTITION,
                        voter_directory_id=request.voter.directory_id,
                        leader_id=BrokerId(request.leader_id),
                        leader_epoch=i32(request.leader_epoch),
                    ),
                ),
            ),
        ),
        leader_endpoints=tuple(
            begin.LeaderEndpoint(name=endpoint.listener, host=endpoint.host, port=u16(endpoint.port))
            for endpoint in request.leader_endpoints
        ),
    )


def _decode_begin(_request: BeginQuorumEpochRequest, answer: Any) -> BeginQuorumEpochResponse:
    return BeginQuorumEpochResponse(**_leadership(answer, _only_partition(answer)))


def _encode_end(request: EndQuorumEpochRequest) -> end.EndQuorumEpochRequest:
    return end.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        topics=(
            end.TopicData(
                topic_name=TOPIC,
                partitions=(
                    end.PartitionData(
                        partition_index=PARTITION,
                        leader_id=BrokerId(request.leader_id),
                        leader_epoch=i32(request.leader_epoch),
                        preferred_candidates=tuple(
                            end.ReplicaInfo(candidate_id=BrokerId(key.node_id), candidate_directory_id=key.directory_id)
                            for key in request.preferred_candidates
                        ),
                    ),
                ),
            ),
        ),
        leader_endpoints=tuple(
            end.LeaderEndpoint(name=endpoint.listener, host=endpoint.host, port=u16(endpoint.port))
            for endpoint in request.leader_endpoints
        ),
    )


def _decode_end(_request: EndQuorumEpochRequest, answer: Any) -> EndQuorumEpochResponse:
    return EndQuorumEpochResponse(**_leadership(answer, _only_partition(answer)))


def _encode_fetch(request: FetchRequest) -> fetch.FetchRequest:
    return fetch.FetchRequest(
        cluster_id=request.cluster_id,
        replica_state=fetch.ReplicaState(replica_id=BrokerId(request.replica.node_id)),
        max_wait=_milliseconds(request.max_wait_ms),
        min_bytes=i32(1),
        max_bytes=i32(request.max_bytes),
        isolation_level=i8(0),
        topics=(
            fetch.FetchTopic(
                topic_id=METADATA_TOPIC_ID,
                partitions=(
                    fetch.FetchPartition(
                        partition=PARTITION,
                        current_leader_epoch=i32(request.current_leader_epoch),
                        fetch_offset=i64(request.fetch_offset),
                        last_fetched_epoch=i32(request.last_fetched_epoch),
                        partition_max_bytes=i32(request.max_bytes),
                        replica_directory_id=request.replica.directory_id,
                        high_watermark=i64(-1 if request.high_watermark is None else request.high_watermark),
                    ),
                ),
            ),
        ),
        forgotten_topics_data=(),
    )


def _decode_fetch(_request: FetchRequest, answer: Any) -> FetchResponse:
    _require_served(answer.error_code)
    if len(answer.responses) != 1 or len(answer.responses[0].partitions) != 1:
        raise RefusedCallError(ErrorCode.invalid_request)
    partition = answer.responses[0].partitions[0]
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    return FetchResponse(
        error=partition.error_code,
        leader_epoch=LeaderEpoch(partition.current_leader.leader_epoch),
        leader_id=NodeId(partition.current_leader.leader_id),
        leader_address=_address_of(answer.node_endpoints, partition.current_leader.leader_id),
        high_watermark=partition.high_watermark if partition.high_watermark >= 0 else None,
        log_start_offset=partition.log_start_offset,
        diverging_epoch=EpochEnd(diverging.epoch, diverging.end_offset) if diverging.end_offset >= 0 else None,
        snapshot_id=SnapshotId(snapshot.end_offset, snapshot.epoch) if snapshot.end_offset >= 0 else None,
        records=partition.records or b"",
    )


def _encode_fetch_snapshot(request: FetchSnapshotRequest) -> fetch_snapshot.FetchSnapshotRequest:
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica_id=BrokerId(request.replica.node_id),
        max_bytes=i32(request.max_bytes),
        topics=(
            fetch_snapshot.TopicSnapshot(
                name=TOPIC,
                partitions=(
                    fetch_snapshot.PartitionSnapshot(
                        partition=PARTITION,
                        current_leader_epoch=i32(request.current_leader_epoch),
                        snapshot_id=fetch_snapshot.SnapshotId(
                            end_offset=i64(request.snapshot_id.end_offset), epoch=i32(request.snapshot_id.epoch)
                        ),
                        position=i64(request.position),
                        replica_directory_id=request.replica.directory_id,
                    ),
                ),
            ),
        ),
    )


def _decode_fetch_snapshot(request: FetchSnapshotRequest, answer: Any) -> FetchSnapshotResponse:
    partition = _only_partition(answer)
    return FetchSnapshotResponse(
        error=partition.error_code,
        leader_epoch=LeaderEpoch(partition.current_leader.leader_epoch),
        leader_id=NodeId(partition.current_leader.leader_id),
        leader_address=_address_of(answer.node_endpoints, partition.current_leader.leader_id),
        snapshot_id=request.snapshot_id
        if partition.error_code is not ErrorCode.none
        else SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        size=partition.size,
        position=partition.position,
        data=partition.unaligned_records or b"",
    )


def _encode_add_voter(request: AddVoterRequest) -> add_voter.AddRaftVoterRequest:
    return add_voter.AddRaftVoterRequest(
        cluster_id=request.cluster_id,
        timeout=_milliseconds(request.timeout_ms),
        voter_id=i32(request.voter.node_id),
        voter_directory_id=request.voter.directory_id,
        listeners=tuple(
            add_voter.Listener(name=endpoint.listener, host=endpoint.host, port=u16(endpoint.port))
            for endpoint in request.endpoints
        ),
        ack_when_committed=request.ack_when_committed,
    )


def _encode_remove_voter(request: RemoveVoterRequest) -> remove_voter.RemoveRaftVoterRequest:
    return remove_voter.RemoveRaftVoterRequest(
        cluster_id=request.cluster_id,
        voter_id=i32(request.voter.node_id),
        voter_directory_id=request.voter.directory_id,
    )


def _decode_voter_change(_request: Any, answer: Any) -> VoterChangeResponse:
    return VoterChangeResponse(error=answer.error_code, leader_epoch=_NO_EPOCH, message=answer.error_message)


def _encode_update_voter(request: UpdateVoterRequest) -> update_voter.UpdateRaftVoterRequest:
    return update_voter.UpdateRaftVoterRequest(
        cluster_id=request.cluster_id,
        current_leader_epoch=i32(request.current_leader_epoch),
        voter_id=i32(request.voter.node_id),
        voter_directory_id=request.voter.directory_id,
        listeners=tuple(
            update_voter.Listener(name=endpoint.listener, host=endpoint.host, port=u16(endpoint.port))
            for endpoint in request.endpoints
        ),
        k_raft_version_feature=update_voter.KRaftVersionFeature(
            min_supported_version=i16(0), max_supported_version=i16(KRAFT_VERSION)
        ),
    )


def _decode_update_voter(_request: UpdateVoterRequest, answer: Any) -> VoterChangeResponse:
    leader = answer.current_leader
    return VoterChangeResponse(
        error=answer.error_code,
        leader_epoch=LeaderEpoch(leader.leader_epoch),
        leader_id=NodeId(leader.leader_id),
        leader_address=Address(leader.host, leader.port) if leader.leader_id >= 0 and leader.host else None,
    )


CALLS: Final[Mapping[type[Request], Call]] = MappingProxyType(
    {
        VoteRequest: Call(ApiKey.VOTE, _encode_vote, _decode_vote),
        BeginQuorumEpochRequest: Call(ApiKey.BEGIN_QUORUM_EPOCH, _encode_begin, _decode_begin),
        EndQuorumEpochRequest: Call(ApiKey.END_QUORUM_EPOCH, _encode_end, _decode_end),
        FetchRequest: Call(ApiKey.FETCH, _encode_fetch, _decode_fetch),
        FetchSnapshotRequest: Call(ApiKey.FETCH_SNAPSHOT, _encode_fetch_snapshot, _decode_fetch_snapshot),
        AddVoterRequest: Call(ApiKey.ADD_RAFT_VOTER, _encode_add_voter, _decode_voter_change),
        RemoveVoterRequest: Call(ApiKey.REMOVE_RAFT_VOTER, _encode_remove_voter, _decode_voter_change),
        UpdateVoterRequest: Call(ApiKey.UPDATE_RAFT_VOTER, _encode_update_voter, _decode_update_voter),
    }
)
"""Each request of the core with its API."""


def _milliseconds(count: int) -> i32Timedelta:
    return i32Timedelta.parse(dt.timedelta(milliseconds=count))


def _require_served(error: ErrorCode) -> None:
    if error is not ErrorCode.none:
        raise RefusedCallError(error)


def _only_partition(answer: Any) -> Any:
    """The one partition that an answer is about."""
    _require_served(answer.error_code)
    if len(answer.topics) != 1 or len(answer.topics[0].partitions) != 1:
        raise RefusedCallError(ErrorCode.invalid_request)
    return answer.topics[0].partitions[0]


def _leadership(answer: Any, partition: Any) -> dict[str, Any]:
    return {
        "error": partition.error_code,
        "leader_epoch": LeaderEpoch(partition.leader_epoch),
        "leader_id": NodeId(partition.leader_id),
        "leader_address": _address_of(answer.node_endpoints, partition.leader_id),
    }


def _address_of(endpoints: Sequence[_Endpoint], leader_id: int) -> Address | None:
    if leader_id == NO_NODE:
        return None
    return next((Address(end.host, int(end.port)) for end in endpoints if end.node_id == leader_id), None)


def endpoints_of(listeners: Sequence[Any]) -> tuple[VoterEndpoint, ...]:
    """Endpoints as a message names them, with ``name``, ``host`` and ``port``."""
    return tuple(VoterEndpoint(listener.name, listener.host, int(listener.port)) for listener in listeners)
