"""The messages by which a follower of the quorum gets the metadata log and its snapshots (KIP-595, KIP-630)."""

from typing import Any, Final, cast

from kio.schema.fetch.v18 import request as fetch_request
from kio.schema.fetch.v18 import response as fetch_response
from kio.schema.fetch_snapshot.v1 import request as fetch_snapshot_request
from kio.schema.fetch_snapshot.v1 import response as fetch_snapshot_response
from kio.schema.types import BrokerId
from kio.static.primitive import Records, i8, i32, i64

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.raft.wire.metadata_partition import (
    PARTITION,
    TOP_LEVEL,
    TOPIC,
    answered_partition,
    decode_ms,
    encode_ms,
    leadership,
    node_endpoints,
    only_partition,
    require_partition,
    require_served,
    voter_key,
)
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import METADATA_TOPIC, METADATA_TOPIC_ID, LeaderEpoch
from esp.raft.messages import EpochEnd, FetchRequest, FetchResponse, FetchSnapshotRequest, FetchSnapshotResponse
from esp.raft.snapshot import SnapshotId

_NEVER_SAID: Final = 2**63 - 1
"""The high watermark in a fetch of a follower that does not know the field (KIP-1166)."""

# --- Fetch ------------------------------------------------------------------------------------------------------------------------


def encode_fetch_request(request: FetchRequest) -> fetch_request.FetchRequest:
    """For the member that is asked."""
    return fetch_request.FetchRequest(
        cluster_id=request.cluster_id,
        replica_state=fetch_request.ReplicaState(replica_id=BrokerId(request.replica.node_id)),
        max_wait=encode_ms(request.max_wait_ms),
        min_bytes=i32(1),
        max_bytes=i32(request.max_bytes),
        isolation_level=i8(0),
        topics=(
            fetch_request.FetchTopic(
                topic_id=METADATA_TOPIC_ID,
                partitions=(
                    fetch_request.FetchPartition(
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


def decode_fetch_request(message: Any) -> FetchRequest:
    """Return a follower's request. Raises ApiError: INVALID_REQUEST: the request is not about the metadata log alone.

    Versions below 15 do not come from members of a quorum: UNSUPPORTED_VERSION.
    """
    if not hasattr(message, "replica_state"):
        raise ApiError(ErrorCode.unsupported_version)
    topics = message.topics
    if len(topics) != 1 or topics[0].topic_id != METADATA_TOPIC_ID or len(topics[0].partitions) != 1:
        raise ApiError(ErrorCode.invalid_request)
    partition = topics[0].partitions[0]
    require_partition(partition.partition)
    return FetchRequest(
        cluster_id=message.cluster_id,
        replica=voter_key(message.replica_state.replica_id, partition.replica_directory_id),
        current_leader_epoch=LeaderEpoch(partition.current_leader_epoch),
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        high_watermark=None if partition.high_watermark == _NEVER_SAID else partition.high_watermark,
        max_wait_ms=decode_ms(message.max_wait),
        max_bytes=min(message.max_bytes, partition.partition_max_bytes),
    )


def encode_fetch_response(response: FetchResponse, listener: str) -> fetch_response.FetchResponse:
    """The answer to a Fetch request for the metadata log."""
    if response.error in TOP_LEVEL:
        return fetch_response.FetchResponse(throttle_time=NO_THROTTLE, error_code=response.error, responses=())
    diverging, snapshot_id = response.diverging_epoch, response.snapshot_id
    partition = fetch_response.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        high_watermark=i64(-1 if response.high_watermark is None else response.high_watermark),
        log_start_offset=i64(response.log_start_offset),
        diverging_epoch=fetch_response.EpochEndOffset()
        if diverging is None
        else fetch_response.EpochEndOffset(epoch=i32(diverging.epoch), end_offset=i64(diverging.end_offset)),
        current_leader=fetch_response.LeaderIdAndEpoch(
            leader_id=BrokerId(response.leader_id), leader_epoch=i32(response.leader_epoch)
        ),
        snapshot_id=fetch_response.SnapshotId()
        if snapshot_id is None
        else fetch_response.SnapshotId(end_offset=i64(snapshot_id.end_offset), epoch=i32(snapshot_id.epoch)),
        aborted_transactions=(),
        records=cast("Records", response.records),
    )
    return fetch_response.FetchResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        responses=(fetch_response.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        node_endpoints=node_endpoints(fetch_response.NodeEndpoint, response, listener, i32),
    )


def decode_fetch_response(_request: FetchRequest, answer: Any, listener: str) -> FetchResponse:
    """Return the leader's answer. Raises RefusedCallError."""
    require_served(answer.error_code)
    partition = only_partition(answer.responses)
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    return FetchResponse(
        **leadership(answer, partition.error_code, partition.current_leader, listener),
        high_watermark=partition.high_watermark if partition.high_watermark >= 0 else None,
        log_start_offset=partition.log_start_offset,
        diverging_epoch=EpochEnd(diverging.epoch, diverging.end_offset) if diverging.end_offset >= 0 else None,
        snapshot_id=SnapshotId(snapshot.end_offset, snapshot.epoch) if snapshot.end_offset >= 0 else None,
        records=partition.records or b"",
    )


# --- FetchSnapshot (KIP-630) ------------------------------------------------------------------------------------------------------


def encode_fetch_snapshot_request(request: FetchSnapshotRequest) -> fetch_snapshot_request.FetchSnapshotRequest:
    """For the member that is asked."""
    return fetch_snapshot_request.FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica_id=BrokerId(request.replica.node_id),
        max_bytes=i32(request.max_bytes),
        topics=(
            fetch_snapshot_request.TopicSnapshot(
                name=TOPIC,
                partitions=(
                    fetch_snapshot_request.PartitionSnapshot(
                        partition=PARTITION,
                        current_leader_epoch=i32(request.current_leader_epoch),
                        snapshot_id=fetch_snapshot_request.SnapshotId(
                            end_offset=i64(request.snapshot_id.end_offset), epoch=i32(request.snapshot_id.epoch)
                        ),
                        position=i64(request.position),
                        replica_directory_id=request.replica.directory_id,
                    ),
                ),
            ),
        ),
    )


def decode_fetch_snapshot_request(message: Any) -> FetchSnapshotRequest:
    """Return a follower's request. Raises ApiError: INVALID_REQUEST: the request is not about the metadata log alone."""
    if [topic.name for topic in message.topics] != [METADATA_TOPIC] or len(message.topics[0].partitions) != 1:
        raise ApiError(ErrorCode.invalid_request)
    partition = message.topics[0].partitions[0]
    require_partition(partition.partition)
    return FetchSnapshotRequest(
        cluster_id=message.cluster_id,
        replica=voter_key(message.replica_id, partition.replica_directory_id),
        current_leader_epoch=LeaderEpoch(partition.current_leader_epoch),
        snapshot_id=SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
        max_bytes=message.max_bytes,
    )


def encode_fetch_snapshot_response(
    response: FetchSnapshotResponse, listener: str
) -> fetch_snapshot_response.FetchSnapshotResponse:
    """The answer to a FetchSnapshot request."""
    if response.error in TOP_LEVEL:
        return fetch_snapshot_response.FetchSnapshotResponse(
            throttle_time=NO_THROTTLE, error_code=response.error, topics=()
        )
    partition = fetch_snapshot_response.PartitionSnapshot(
        index=PARTITION,
        error_code=response.error,
        snapshot_id=fetch_snapshot_response.SnapshotId(
            end_offset=i64(response.snapshot_id.end_offset), epoch=i32(response.snapshot_id.epoch)
        ),
        current_leader=fetch_snapshot_response.LeaderIdAndEpoch(
            leader_id=BrokerId(response.leader_id), leader_epoch=i32(response.leader_epoch)
        ),
        size=i64(response.size),
        position=i64(response.position),
        unaligned_records=cast("Records", response.data),
    )
    return fetch_snapshot_response.FetchSnapshotResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        topics=(fetch_snapshot_response.TopicSnapshot(name=TOPIC, partitions=(partition,)),),
        node_endpoints=node_endpoints(fetch_snapshot_response.NodeEndpoint, response, listener),
    )


def decode_fetch_snapshot_response(request: FetchSnapshotRequest, answer: Any, listener: str) -> FetchSnapshotResponse:
    """Return the leader's answer. Raises RefusedCallError."""
    partition = answered_partition(answer)
    return FetchSnapshotResponse(
        **leadership(answer, partition.error_code, partition.current_leader, listener),
        snapshot_id=request.snapshot_id
        if partition.error_code is not ErrorCode.none
        else SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        size=partition.size,
        position=partition.position,
        data=partition.unaligned_records or b"",
    )
