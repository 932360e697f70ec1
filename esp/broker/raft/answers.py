"""How a member of the quorum answers the others: Kafka's requests as the core's, and the core's answers as Kafka's messages.

The other direction stands in :mod:`esp.broker.raft.calls`. A request that is not about the metadata log's one partition is refused before
the core sees it.
"""

import datetime as dt
from typing import Any, Final, cast

from kio.schema.add_raft_voter.v1 import response as add_voter
from kio.schema.begin_quorum_epoch.v1 import response as begin
from kio.schema.end_quorum_epoch.v1 import response as end
from kio.schema.fetch.v18 import response as fetch
from kio.schema.fetch_snapshot.v1 import response as fetch_snapshot
from kio.schema.remove_raft_voter.v0 import response as remove_voter
from kio.schema.types import BrokerId
from kio.schema.update_raft_voter.v0 import response as update_voter
from kio.schema.vote.v2 import response as vote
from kio.static.primitive import Records, i32, i64, u16

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.raft.calls import PARTITION, TOPIC, endpoints_of
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import METADATA_TOPIC, METADATA_TOPIC_ID, NO_NODE, ZERO_UUID, DirectoryId, LeaderEpoch, NodeId
from esp.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    Response,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from esp.raft.snapshot import SnapshotId
from esp.raft.voters import VoterKey

_NEVER_SAID: Final = 2**63 - 1
"""The high watermark in a fetch of one who does not know the field (KIP-1166)."""

_TOP_LEVEL: Final = frozenset({ErrorCode.inconsistent_cluster_id})
"""Refusals of a request as a whole; all others are about the partition."""


# --- requests ------------------------------------------------------------------------------------------------------------------------


def read_vote(message: Any) -> VoteRequest:
    """Raises ApiError, as all of these: INVALID_REQUEST if the request is not about the metadata log alone."""
    partition = _only_partition(message)
    return VoteRequest(
        cluster_id=message.cluster_id,
        voter=_key(message.voter_id, partition.voter_directory_id),
        candidate_epoch=LeaderEpoch(partition.replica_epoch),
        candidate=_key(partition.replica_id, partition.replica_directory_id),
        last_epoch=partition.last_offset_epoch,
        last_epoch_end_offset=partition.last_offset,
        pre_vote=partition.pre_vote,
    )


def read_begin_quorum_epoch(message: Any) -> BeginQuorumEpochRequest:
    """See :func:`read_vote`."""
    partition = _only_partition(message)
    return BeginQuorumEpochRequest(
        cluster_id=message.cluster_id,
        voter=_key(message.voter_id, partition.voter_directory_id),
        leader_id=NodeId(partition.leader_id),
        leader_epoch=LeaderEpoch(partition.leader_epoch),
        leader_endpoints=endpoints_of(message.leader_endpoints),
    )


def read_end_quorum_epoch(message: Any) -> EndQuorumEpochRequest:
    """See :func:`read_vote`. Version 0 names the preferred candidates without their directories, and no endpoints."""
    partition = _only_partition(message)
    if hasattr(partition, "preferred_candidates"):
        candidates = [_key(info.candidate_id, info.candidate_directory_id) for info in partition.preferred_candidates]
        endpoints = endpoints_of(message.leader_endpoints)
    else:
        candidates = [_key(node_id, None) for node_id in partition.preferred_successors]
        endpoints = ()
    return EndQuorumEpochRequest(
        cluster_id=message.cluster_id,
        leader_id=NodeId(partition.leader_id),
        leader_epoch=LeaderEpoch(partition.leader_epoch),
        preferred_candidates=tuple(candidates),
        leader_endpoints=endpoints,
    )


def read_fetch(message: Any) -> FetchRequest:
    """See :func:`read_vote`. Versions below 15 do not come from members of a quorum: UNSUPPORTED_VERSION."""
    if not hasattr(message, "replica_state"):
        raise ApiError(ErrorCode.unsupported_version)
    topics = message.topics
    if len(topics) != 1 or topics[0].topic_id != METADATA_TOPIC_ID or len(topics[0].partitions) != 1:
        raise ApiError(ErrorCode.invalid_request)
    partition = topics[0].partitions[0]
    if partition.partition != PARTITION:
        raise ApiError(ErrorCode.invalid_request)
    return FetchRequest(
        cluster_id=message.cluster_id,
        replica=_key(message.replica_state.replica_id, partition.replica_directory_id),
        current_leader_epoch=LeaderEpoch(partition.current_leader_epoch),
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        high_watermark=None if partition.high_watermark == _NEVER_SAID else partition.high_watermark,
        max_wait_ms=message.max_wait // dt.timedelta(milliseconds=1),
        max_bytes=min(message.max_bytes, partition.partition_max_bytes),
    )


def read_fetch_snapshot(message: Any) -> FetchSnapshotRequest:
    """See :func:`read_vote`."""
    if [topic.name for topic in message.topics] != [METADATA_TOPIC] or len(message.topics[0].partitions) != 1:
        raise ApiError(ErrorCode.invalid_request)
    partition = message.topics[0].partitions[0]
    if partition.partition != PARTITION:
        raise ApiError(ErrorCode.invalid_request)
    return FetchSnapshotRequest(
        cluster_id=message.cluster_id,
        replica=_key(message.replica_id, partition.replica_directory_id),
        current_leader_epoch=LeaderEpoch(partition.current_leader_epoch),
        snapshot_id=SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
        max_bytes=message.max_bytes,
    )


def read_add_voter(message: Any) -> AddVoterRequest:
    """An AddRaftVoter request for the core."""
    return AddVoterRequest(
        cluster_id=message.cluster_id,
        voter=_key(message.voter_id, message.voter_directory_id),
        endpoints=endpoints_of(message.listeners),
        timeout_ms=message.timeout // dt.timedelta(milliseconds=1),
        ack_when_committed=message.ack_when_committed,
    )


def read_remove_voter(message: Any) -> RemoveVoterRequest:
    """A RemoveRaftVoter request for the core."""
    return RemoveVoterRequest(cluster_id=message.cluster_id, voter=_key(message.voter_id, message.voter_directory_id))


def read_update_voter(message: Any) -> UpdateVoterRequest:
    """An UpdateRaftVoter request for the core."""
    return UpdateVoterRequest(
        cluster_id=message.cluster_id,
        current_leader_epoch=LeaderEpoch(message.current_leader_epoch),
        voter=_key(message.voter_id, message.voter_directory_id),
        endpoints=endpoints_of(message.listeners),
    )


# --- answers -------------------------------------------------------------------------------------------------------------------------


def vote_answer(response: VoteResponse) -> vote.VoteResponse:
    """The answer to a Vote request."""
    if response.error in _TOP_LEVEL:
        return vote.VoteResponse(error_code=response.error, topics=())
    partition = vote.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=BrokerId(response.leader_id),
        leader_epoch=i32(response.leader_epoch),
        vote_granted=response.is_granted,
    )
    return vote.VoteResponse(
        error_code=ErrorCode.none,
        topics=(vote.TopicData(topic_name=TOPIC, partitions=(partition,)),),
        node_endpoints=_node_endpoints(vote.NodeEndpoint, response),
    )


def begin_quorum_epoch_answer(response: Response) -> begin.BeginQuorumEpochResponse:
    """The answer to a BeginQuorumEpoch request."""
    if response.error in _TOP_LEVEL:
        return begin.BeginQuorumEpochResponse(error_code=response.error, topics=())
    partition = begin.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=BrokerId(response.leader_id),
        leader_epoch=i32(response.leader_epoch),
    )
    return begin.BeginQuorumEpochResponse(
        error_code=ErrorCode.none,
        topics=(begin.TopicData(topic_name=TOPIC, partitions=(partition,)),),
        node_endpoints=_node_endpoints(begin.NodeEndpoint, response),
    )


def end_quorum_epoch_answer(response: Response) -> end.EndQuorumEpochResponse:
    """The answer to an EndQuorumEpoch request."""
    if response.error in _TOP_LEVEL:
        return end.EndQuorumEpochResponse(error_code=response.error, topics=())
    partition = end.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=BrokerId(response.leader_id),
        leader_epoch=i32(response.leader_epoch),
    )
    return end.EndQuorumEpochResponse(
        error_code=ErrorCode.none,
        topics=(end.TopicData(topic_name=TOPIC, partitions=(partition,)),),
        node_endpoints=_node_endpoints(end.NodeEndpoint, response),
    )


def fetch_answer(response: FetchResponse) -> fetch.FetchResponse:
    """The answer to a Fetch request for the metadata log."""
    if response.error in _TOP_LEVEL:
        return fetch.FetchResponse(throttle_time=NO_THROTTLE, error_code=response.error, responses=())
    diverging, snapshot_id = response.diverging_epoch, response.snapshot_id
    partition = fetch.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        high_watermark=i64(-1 if response.high_watermark is None else response.high_watermark),
        log_start_offset=i64(response.log_start_offset),
        diverging_epoch=fetch.EpochEndOffset()
        if diverging is None
        else fetch.EpochEndOffset(epoch=i32(diverging.epoch), end_offset=i64(diverging.end_offset)),
        current_leader=fetch.LeaderIdAndEpoch(
            leader_id=BrokerId(response.leader_id), leader_epoch=i32(response.leader_epoch)
        ),
        snapshot_id=fetch.SnapshotId()
        if snapshot_id is None
        else fetch.SnapshotId(end_offset=i64(snapshot_id.end_offset), epoch=i32(snapshot_id.epoch)),
        aborted_transactions=(),
        records=cast("Records", response.records),
    )
    address = response.leader_address
    endpoints: tuple[fetch.NodeEndpoint, ...] = ()
    if address is not None:
        endpoint = fetch.NodeEndpoint(node_id=BrokerId(response.leader_id), host=address.host, port=i32(address.port))
        endpoints = (endpoint,)
    return fetch.FetchResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        responses=(fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        node_endpoints=endpoints,
    )


def fetch_snapshot_answer(response: FetchSnapshotResponse) -> fetch_snapshot.FetchSnapshotResponse:
    """The answer to a FetchSnapshot request."""
    if response.error in _TOP_LEVEL:
        return fetch_snapshot.FetchSnapshotResponse(throttle_time=NO_THROTTLE, error_code=response.error, topics=())
    partition = fetch_snapshot.PartitionSnapshot(
        index=PARTITION,
        error_code=response.error,
        snapshot_id=fetch_snapshot.SnapshotId(
            end_offset=i64(response.snapshot_id.end_offset), epoch=i32(response.snapshot_id.epoch)
        ),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(
            leader_id=BrokerId(response.leader_id), leader_epoch=i32(response.leader_epoch)
        ),
        size=i64(response.size),
        position=i64(response.position),
        unaligned_records=cast("Records", response.data),
    )
    return fetch_snapshot.FetchSnapshotResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        topics=(fetch_snapshot.TopicSnapshot(name=TOPIC, partitions=(partition,)),),
        node_endpoints=_node_endpoints(fetch_snapshot.NodeEndpoint, response),
    )


def add_voter_answer(response: VoterChangeResponse) -> add_voter.AddRaftVoterResponse:
    """The answer to an AddRaftVoter request."""
    return add_voter.AddRaftVoterResponse(
        throttle_time=NO_THROTTLE, error_code=response.error, error_message=response.message
    )


def remove_voter_answer(response: VoterChangeResponse) -> remove_voter.RemoveRaftVoterResponse:
    """The answer to a RemoveRaftVoter request."""
    return remove_voter.RemoveRaftVoterResponse(
        throttle_time=NO_THROTTLE, error_code=response.error, error_message=response.message
    )


def update_voter_answer(response: VoterChangeResponse) -> update_voter.UpdateRaftVoterResponse:
    """The answer to an UpdateRaftVoter request."""
    address = response.leader_address
    return update_voter.UpdateRaftVoterResponse(
        throttle_time=NO_THROTTLE,
        error_code=response.error,
        current_leader=update_voter.CurrentLeader(
            leader_id=BrokerId(response.leader_id if address is not None else NO_NODE),
            leader_epoch=i32(response.leader_epoch),
            host=address.host if address is not None else "",
            port=i32(address.port if address is not None else 0),
        ),
    )


def _only_partition(message: Any) -> Any:
    """The one partition that a request is about."""
    if [topic.topic_name for topic in message.topics] != [METADATA_TOPIC] or len(message.topics[0].partitions) != 1:
        raise ApiError(ErrorCode.invalid_request)
    partition = message.topics[0].partitions[0]
    if partition.partition_index != PARTITION:
        raise ApiError(ErrorCode.invalid_request)
    return partition


def _key(node_id: int, directory_id: Any) -> VoterKey:
    return VoterKey(NodeId(node_id), DirectoryId(directory_id or ZERO_UUID))


def _node_endpoints(type_: Any, response: Response) -> tuple[Any, ...]:
    """Where the leader is, if that is known."""
    address = response.leader_address
    if address is None:
        return ()
    return (type_(node_id=BrokerId(response.leader_id), host=address.host, port=u16(address.port)),)
