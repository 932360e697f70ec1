"""CreatePartitions (37), versions 0-3: the controller decides; the answer waits until this node serves the new partitions (decision 8)."""

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse

from esp.broker.connections.request import Request
from esp.broker.forwarding import forward, until_applied
from esp.broker.services import Services
from esp.controller.image import ClusterImage
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey


async def handle(services: Services, _request: Request, message: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Pass the controller's answer on once this node follows."""
    answer: CreatePartitionsResponse = await forward(services, ApiKey.CREATE_PARTITIONS, message)
    if not message.validate_only:
        grown = {result.name for result in answer.results if result.error_code is ErrorCode.none}
        counts = {str(topic.name): topic.count for topic in message.topics if topic.name in grown}

        def have_grown(image: ClusterImage) -> bool:
            topics = ((image.topics_by_name.get(name), count) for name, count in counts.items())
            return all(topic is None or len(topic.partitions) >= count for topic, count in topics)

        await until_applied(services, have_grown, message.timeout)
    return answer
