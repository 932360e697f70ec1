"""CreateTopics (19), versions 2-7: the controller decides; the answer waits until this node serves the new topics.

Kafka answers as soon as the records are committed, and a client that produces at once may be told UNKNOWN_TOPIC_OR_PARTITION; here the
replicas of this node are open by then, and led if it leads them.
"""

from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreateTopicsResponse

from esp.broker.connections.request import Request
from esp.broker.forwarding import forward, until_applied
from esp.broker.services import Services
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.protocol.registry import ApiKey


async def handle(services: Services, request: Request, message: CreateTopicsRequest) -> CreateTopicsResponse:
    """Pass the controller's answer on once this node follows."""
    answer: CreateTopicsResponse = await forward(services, ApiKey.CREATE_TOPICS, message)
    if not message.validate_only:
        created = [
            TopicId(topic.topic_id)
            for topic in answer.topics
            if topic.error_code is ErrorCode.none and topic.topic_id is not None
        ]
        await until_applied(
            services, lambda image: all(topic_id in image.topics_by_id for topic_id in created), message.timeout
        )
    return answer
