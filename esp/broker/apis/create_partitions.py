"""CreatePartitions (37), versions 0-3: the controller decides (KIP-195).

On brokers the answer waits until this node serves the new partitions (decision 8), on controllers until they are committed.
"""

from collections import Counter

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult

from esp.broker.answer_fields import require_time
from esp.broker.controller.services import ControllerServices
from esp.broker.forwarding import until_applied
from esp.broker.mutation_quota import MutationQuota, forward_counted
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.image import ClusterImage
from esp.controller.partitions import NewPartitions, decide_create_partitions
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId
from esp.protocol.registry import ApiKey


async def handle_at_controller(
    services: ControllerServices, request: Request, message: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Add what can be added; each topic is answered for itself, one that is named twice is refused."""
    often = Counter(topic.name for topic in message.topics)
    wanted = [topic for topic in message.topics if often[topic.name] == 1]
    if wanted:
        require_time(message.timeout)
    new = [_new_partitions(topic) for topic in wanted]
    quota = MutationQuota(services, request)
    errors = await services.controller.commit(
        lambda image: decide_create_partitions(
            image, new, services.env.random, validate_only=message.validate_only, admits=quota.admits
        ),
        "Partition creation",
    )
    duplicate = ApiError(ErrorCode.invalid_request, "Duplicate topic name.")
    results = {name: duplicate for name, times in often.items() if times > 1}
    by_name = results | {topic.name: error for topic, error in zip(wanted, errors, strict=True)}
    return CreatePartitionsResponse(
        throttle_time=quota.throttle_time,
        results=tuple(
            CreatePartitionsTopicResult(
                name=name,
                error_code=ErrorCode.none if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            for name, error in by_name.items()
        ),
    )


def _new_partitions(topic: CreatePartitionsTopic) -> NewPartitions:
    return NewPartitions(
        topic.name,
        topic.count,
        None
        if topic.assignments is None
        else tuple(tuple(NodeId(node) for node in assignment.broker_ids) for assignment in topic.assignments),
    )


async def handle(services: Services, request: Request, message: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Pass the controller's answer on once this node follows."""
    answer: CreatePartitionsResponse = await forward_counted(services, request, ApiKey.CREATE_PARTITIONS, message)
    if not message.validate_only:
        grown = {result.name for result in answer.results if result.error_code is ErrorCode.none}
        counts = {str(topic.name): topic.count for topic in message.topics if topic.name in grown}

        def have_grown(image: ClusterImage) -> bool:
            topics = ((image.topics_by_name.get(name), count) for name, count in counts.items())
            return all(topic is None or len(topic.partitions) >= count for topic, count in topics)

        await until_applied(services, have_grown, message.timeout)
    return answer
