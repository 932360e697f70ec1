"""DeleteTopics (20), versions 1-6, by name or (from version 6) by id: the controller decides; the answer waits until it is done here."""

from kio.schema.delete_topics.v5.request import DeleteTopicsRequest as RequestUpTo5
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.delete_topics.v6.response import DeleteTopicsResponse

from esp.broker.connections.request import Request
from esp.broker.forwarding import forward, until_applied
from esp.broker.services import Services
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicId
from esp.protocol.registry import ApiKey


async def handle(
    services: Services, request: Request, message: DeleteTopicsRequest | RequestUpTo5
) -> DeleteTopicsResponse:
    """Pass the controller's answer on once this node follows."""
    if not services.settings.delete_topic_enable:
        error = ErrorCode.topic_deletion_disabled if request.api_version >= 3 else ErrorCode.invalid_request
        raise ApiError(error, "Topic deletion is disabled.")
    if isinstance(message, RequestUpTo5):
        message = DeleteTopicsRequest(
            topics=tuple(DeleteTopicState(name=name, topic_id=None) for name in message.topic_names),
            timeout=message.timeout,
        )
    answer: DeleteTopicsResponse = await forward(services, ApiKey.DELETE_TOPICS, message)
    deleted = [
        TopicId(topic.topic_id)
        for topic in answer.responses
        if topic.error_code is ErrorCode.none and topic.topic_id is not None
    ]
    await until_applied(
        services, lambda image: not any(topic_id in image.topics_by_id for topic_id in deleted), message.timeout
    )
    return answer
