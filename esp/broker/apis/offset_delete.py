"""OffsetDelete (47), version 0: committed offsets are forgotten, of partitions that no member of the group reads (KIP-496)."""

from collections.abc import Coroutine
from typing import Any

from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
from kio.schema.offset_delete.v0.response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kio.static.primitive import i32

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.groups.wire import answered
from esp.broker.request import Request
from esp.broker.services import Services
from esp.groups.requests import OffsetDelete
from esp.groups.responses import OffsetDeleteResult
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition


def handle(
    services: Services, request: Request, message: OffsetDeleteRequest
) -> OffsetDeleteResponse | Coroutine[Any, Any, OffsetDeleteResponse]:
    """Forget the offsets of the partitions that exist.

    Raises:
        ApiError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
    """

    def translate(result: OffsetDeleteResult) -> OffsetDeleteResponse:
        return _response(message, result)

    known = tuple(
        TopicPartition(topic.name, partition.partition_index)
        for topic in message.topics
        for partition in topic.partitions
        if services.metadata.has_partition(topic.name, partition.partition_index)
    )
    coordinator = services.groups.coordinator_of(message.group_id)
    return answered(
        coordinator.ask(coordinator.core.delete_offsets, OffsetDelete(group_id=message.group_id, partitions=known)),
        translate,
    )


def _response(message: OffsetDeleteRequest, result: OffsetDeleteResult) -> OffsetDeleteResponse:
    errors = {each.partition: each.error for each in result.partitions}
    failed = result.error is not ErrorCode.none
    return OffsetDeleteResponse(
        error_code=result.error,
        throttle_time=NO_THROTTLE,
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(
                        partition_index=i32(partition.partition_index),
                        error_code=errors.get(
                            TopicPartition(topic.name, partition.partition_index), ErrorCode.unknown_topic_or_partition
                        ),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in (() if failed else message.topics)
        ),
    )
