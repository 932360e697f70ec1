"""OffsetForLeaderEpoch (23), versions 2-4: where a leader epoch ends (KIP-101, KIP-320)."""

from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest, OffsetForLeaderPartition
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kio.static.primitive import i32, i64

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.errors import ApiError, ErrorCode


def handle(services: Services, _request: Request, message: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Answer from the epoch cache of each partition that this node leads.

    Consumers too are told of the log's end, as by Kafka: the high watermark of a new leader lags behind what they have read, and they would
    take that for a log that was cut.
    """
    return OffsetForLeaderEpochResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(_end_of_epoch(services, topic.topic, wanted) for wanted in topic.partitions),
            )
            for topic in message.topics
        ),
    )


def _end_of_epoch(services: Services, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        hosted = services.replicas.find(topic, wanted.partition)
        if hosted is None:
            raise ApiError(services.metadata.why_not_here(topic, wanted.partition))
        hosted.leading(wanted.current_leader_epoch)
    except ApiError as error:
        return EpochEndOffset(error_code=error.code, partition=wanted.partition)
    log = hosted.log
    epoch, end_offset = log.leader_epochs.end_offset_for(wanted.leader_epoch, log.log_end_offset)
    return EpochEndOffset(
        error_code=ErrorCode.none,
        partition=wanted.partition,
        leader_epoch=i32(epoch),
        end_offset=i64(end_offset),
    )
