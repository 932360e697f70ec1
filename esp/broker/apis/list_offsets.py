"""ListOffsets (2), versions 1-11: offsets by their meaning or by time.

Spark asks for the earliest and the latest offset 35 times as often as it fetches: both are attributes in memory, as is the local log start.
Only a search by time, or for the largest timestamp, reads the log; it leaves the loop to open batches, and where pages are cold.

Special timestamps: -1 latest, -2 earliest, -3 largest timestamp (KIP-734), -4 earliest local (KIP-405), -5 latest tiered, -6 earliest
pending upload; nothing is tiered here, so -4 is the earliest and -5 and -6 have none. ``read_committed`` is bounded by the last
stable offset, which is the high watermark while there are no transactions (LSO-1). A follower is told of the log's own end (TRUNC-5);
a client without ClusterAction that names itself as one is answered as a consumer (AUTHZ-1). A new leader does not know the latest offset
before it has committed something of its own epoch (HW-8, KIP-207).
"""

from collections.abc import Coroutine
from typing import Any

from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.static.primitive import i32, i64

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.authorization.access import allows_on_cluster
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.read_errors import READ_ERRORS, code_of
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.acl import AclOperation
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.fetch_codec import READ_COMMITTED
from esp.storage.log import Log
from esp.storage.timestamp_search import TimestampAndOffset

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

OFFSET_NOT_AVAILABLE_FROM = 5
"""The first version whose clients know OFFSET_NOT_AVAILABLE."""

_FROM_MEMORY = frozenset((LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD))

# The first request version that knows a special timestamp; below it Kafka refuses.
_KNOWN_FROM = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


def handle(
    services: Services, request: Request, message: ListOffsetsRequest
) -> ListOffsetsResponse | Coroutine[Any, Any, ListOffsetsResponse]:
    """Answer at once unless some partition is asked by time."""
    if any(p.timestamp not in _FROM_MEMORY for topic in message.topics for p in topic.partitions):
        return _answer_by_time(services, request, message)
    return ListOffsetsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    _from_memory(services, request, topic.name, wanted, message) for wanted in topic.partitions
                ),
            )
            for topic in message.topics
        ),
    )


async def _answer_by_time(services: Services, request: Request, message: ListOffsetsRequest) -> ListOffsetsResponse:
    topics = []
    for topic in message.topics:
        partitions = []
        for wanted in topic.partitions:
            if wanted.timestamp in _FROM_MEMORY:
                partitions.append(_from_memory(services, request, topic.name, wanted, message))
            else:
                partitions.append(await _by_time(services, request, topic.name, wanted, message))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(partitions)))
    return ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))


def _from_memory(
    services: Services, request: Request, topic: str, wanted: ListOffsetsPartition, message: ListOffsetsRequest
) -> ListOffsetsPartitionResponse:
    try:
        hosted = _led_here(services, request, topic, wanted)
    except ApiError as error:
        return _refused(wanted, error.code)
    timestamp = wanted.timestamp
    if timestamp == LATEST:
        log, leader = hosted.log, hosted.leading()
        if message.replica_id >= 0 and allows_on_cluster(services.access, request.client, AclOperation.CLUSTER_ACTION):
            offset = log.log_end_offset
        elif leader.is_high_watermark_current:
            offset = _visible_end(log, message)
        else:
            return _not_known_yet(request, wanted)
        epoch = leader.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        offset = hosted.log.log_start_offset
        known = hosted.log.leader_epochs.epoch_of(offset)
        epoch = -1 if known is None else known
    else:
        offset, epoch = -1, -1
    return _found(wanted, -1, offset, epoch)


async def _by_time(
    services: Services, request: Request, topic: str, wanted: ListOffsetsPartition, message: ListOffsetsRequest
) -> ListOffsetsPartitionResponse:
    try:
        hosted = _led_here(services, request, topic, wanted)
        log, leader = hosted.log, hosted.leading()
        if wanted.timestamp < 0 and wanted.timestamp != MAX_TIMESTAMP:
            raise ApiError(ErrorCode.unsupported_version)
        found: TimestampAndOffset | None = None
        async with services.searches:
            # The search ends at the high watermark at which it begins: if it finds nothing, that one must have been current.
            was_current = leader.is_high_watermark_current
            if request.is_abandoned:  # no client sees the answer
                pass
            elif wanted.timestamp == MAX_TIMESTAMP:
                found = await log.find_max_timestamp(services.searching)
            else:
                found = await log.find_offset_by_timestamp(wanted.timestamp, services.searching)
    except READ_ERRORS as error:
        return _refused(wanted, code_of(error))
    if found is None or found.offset >= _visible_end(log, message):
        return _found(wanted, -1, -1, -1) if was_current else _not_known_yet(request, wanted)
    return _found(wanted, *found)


def _visible_end(log: Log, message: ListOffsetsRequest) -> int:
    """The offset after the last record that the asker may see, as its isolation level says."""
    return log.last_stable_offset if message.isolation_level == READ_COMMITTED else log.high_watermark


def _led_here(services: Services, request: Request, topic: str, wanted: ListOffsetsPartition) -> HostedPartition:
    if request.api_version < _KNOWN_FROM.get(wanted.timestamp, 0):
        raise ApiError(ErrorCode.unsupported_version)
    hosted = services.replicas.find(topic, wanted.partition_index)
    if hosted is None:
        raise ApiError(services.metadata.why_not_here(topic, wanted.partition_index))
    hosted.leading(wanted.current_leader_epoch)
    return hosted


def _not_known_yet(request: Request, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    known = request.api_version >= OFFSET_NOT_AVAILABLE_FROM
    return _refused(wanted, ErrorCode.offset_not_available if known else ErrorCode.leader_not_available)


def _found(wanted: ListOffsetsPartition, timestamp: int, offset: int, epoch: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        error_code=ErrorCode.none,
        timestamp=i64(timestamp),
        offset=i64(offset),
        leader_epoch=i32(epoch),
    )


def _refused(wanted: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=error)
