"""DeleteShareGroupOffsets (92), version 0: a share group without members forgets topics (KIP-932)."""

from collections.abc import Coroutine
from typing import Any

from kio.schema.delete_share_group_offsets.v0.request import DeleteShareGroupOffsetsRequest
from kio.schema.delete_share_group_offsets.v0.response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kio.schema.types import TopicName

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.groups.wire import answered, text_of, topic_id_of
from esp.broker.request import Request
from esp.broker.services import Services
from esp.groups.share.requests import DeleteShareGroupOffsets, DeleteShareGroupOffsetsResult
from esp.model.errors import ApiError, ErrorCode


def handle(
    services: Services, _request: Request, message: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse | Coroutine[Any, Any, DeleteShareGroupOffsetsResponse]:
    """Answer when the states are deleted, and the group knows nothing of them."""

    def translate(result: DeleteShareGroupOffsetsResult) -> DeleteShareGroupOffsetsResponse:
        return DeleteShareGroupOffsetsResponse(
            throttle_time=NO_THROTTLE,
            error_code=result.error,
            error_message=text_of(result.error, result.error_message),
            responses=tuple(
                DeleteShareGroupOffsetsResponseTopic(
                    topic_name=TopicName(one.topic),
                    topic_id=topic_id_of(services.metadata.image, one.topic) if one.error is ErrorCode.none else None,
                    error_code=one.error,
                    error_message=text_of(one.error, one.error_message),
                )
                for one in result.topics
            ),
        )

    asked = DeleteShareGroupOffsets(
        group_id=message.group_id, topics=tuple(str(topic.topic_name) for topic in message.topics)
    )
    try:
        coordinator = services.groups.coordinator_of(message.group_id)
        return answered(coordinator.ask(coordinator.core.shares.delete_offsets, asked), translate)
    except ApiError as error:
        return translate(DeleteShareGroupOffsetsResult(error=error.code, error_message=error.message))
