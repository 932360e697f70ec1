"""AddOffsetsToTxn (25), versions 0-4: the offsets of a group join a transaction, by their partition of ``__consumer_offsets`` (KIP-98)."""

from collections.abc import Coroutine
from typing import Any

from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_offsets_to_txn.v4.response import AddOffsetsToTxnResponse

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.auto_create import create_missing_topics
from esp.broker.groups.wire import answered
from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.transactions.wire import for_version
from esp.groups.partitioning import partition_for
from esp.model.errors import ErrorCode
from esp.model.ids import OFFSETS_TOPIC, TopicPartition
from esp.transactions.requests import AddPartitions, Producer
from esp.transactions.responses import PartitionsResult


def handle(
    services: Services, request: Request, message: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Coroutine[Any, Any, AddOffsetsToTxnResponse]:
    """The answer comes when it is committed that the partition takes part. The empty group is one like others, as in Kafka."""
    services.transactions.coordinator_of(message.transactional_id)
    if OFFSETS_TOPIC not in services.metadata.image.topics_by_name:
        return _create_and_add(services, request, message)
    return _add(services, request, message)


async def _create_and_add(
    services: Services, request: Request, message: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    await create_missing_topics(services, (OFFSETS_TOPIC,))
    if OFFSETS_TOPIC not in services.metadata.image.topics_by_name:
        return AddOffsetsToTxnResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.coordinator_not_available)
    answer = _add(services, request, message)
    return answer if isinstance(answer, AddOffsetsToTxnResponse) else await answer


def _add(
    services: Services, request: Request, message: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Coroutine[Any, Any, AddOffsetsToTxnResponse]:
    topic = services.metadata.image.topics_by_name[OFFSETS_TOPIC]
    partition = TopicPartition(OFFSETS_TOPIC, partition_for(message.group_id, len(topic.partitions)))
    coordinator = services.transactions.coordinator_of(message.transactional_id)
    asked = AddPartitions(
        transactional_id=message.transactional_id,
        producer=Producer(message.producer_id, message.producer_epoch),
        partitions={partition: topic.topic_id},
    )

    def translate(result: PartitionsResult) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(
            throttle_time=NO_THROTTLE, error_code=for_version(result.error, request.api_version)
        )

    return answered(coordinator.ask(coordinator.core.add_partitions, asked), translate)
