"""DescribeProducers (61), version 0: the idempotent producers that a replica here knows, also one that follows (KIP-664)."""

from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.describe_producers.v0.response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kio.schema.types import ProducerId
from kio.static.primitive import i32, i64

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.topics import find_name_problem
from esp.model.errors import ApiError, ErrorCode


def handle(services: Services, _request: Request, message: DescribeProducersRequest) -> DescribeProducersResponse:
    """Answer each partition for itself."""
    return DescribeProducersResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            TopicResponse(
                name=topic.name,
                partitions=tuple(_describe(services, topic.name, number) for number in topic.partition_indexes),
            )
            for topic in message.topics
        ),
    )


def _describe(services: Services, topic: str, number: i32) -> PartitionResponse:
    try:
        producers = _producers(services, topic, number)
    except ApiError as error:
        return PartitionResponse(
            partition_index=number, error_code=error.code, error_message=error.message, active_producers=()
        )
    return PartitionResponse(
        partition_index=number, error_code=ErrorCode.none, error_message=None, active_producers=producers
    )


def _producers(services: Services, topic: str, number: int) -> tuple[ProducerState, ...]:
    problem = find_name_problem(topic)
    if problem is not None:
        raise ApiError(ErrorCode.invalid_topic_exception, problem)
    if topic not in services.metadata.image.topics_by_name:
        raise ApiError(ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition.")
    hosted = services.replicas.find(topic, number)
    if hosted is None:
        raise ApiError(services.metadata.why_not_here(topic, number))
    if hosted.is_offline:
        raise ApiError(ErrorCode.kafka_storage_error)
    return tuple(
        ProducerState(
            producer_id=ProducerId(producer_id),
            producer_epoch=i32(state.epoch),
            last_sequence=i32(state.last_sequence),
            last_timestamp=i64(state.last_timestamp),
            coordinator_epoch=i32(state.coordinator_epoch),
            current_txn_start_offset=i64(state.transaction_first_offset),
        )
        for producer_id, state in hosted.log.producers.items()
    )
