"""CreateTopics (19), versions 2-7: the controller decides; the answer waits until this node serves the new topics.

Kafka answers as soon as the records are committed, and a client that produces at once may be told UNKNOWN_TOPIC_OR_PARTITION; here the
replicas of this node are open by then, and led if it leads them.

On the listeners of controllers: the answer waits until the topics are committed.
"""

from collections import Counter
from dataclasses import replace

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from kio.static.primitive import i8, i16, i32

from esp.broker.answer_fields import require_time
from esp.broker.authorization.access import Access
from esp.broker.controller.services import ControllerServices
from esp.broker.forwarding import until_applied
from esp.broker.mutation_quota import MutationQuota, forward_counted
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.image import CLUSTER_DEFAULT, ClusterImage
from esp.controller.topics import NewTopic, TopicCreation
from esp.model.acl import AclOperation, ResourceType
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId, TopicId
from esp.protocol.registry import ApiKey
from esp.settings.described import NodeLayers, describe_topic


async def handle_at_controller(
    services: ControllerServices, request: Request, message: CreateTopicsRequest
) -> CreateTopicsResponse:
    """Create what can be created; each topic is answered for itself."""
    if message.topics:
        require_time(message.timeout)
    often = Counter(topic.name for topic in message.topics)
    wanted = [topic for topic in message.topics if often[topic.name] == 1]
    new = [_new_topic(topic) for topic in wanted]
    config = services.controller.config
    quota = MutationQuota(services, request)
    results = await services.controller.commit(
        lambda image: TopicCreation(
            image, config.defaults, config.validate_topic_configs, services.env.random, quota.admits
        ).decide(new, validate_only=message.validate_only),
        "Topic creation",
    )
    node = NodeLayers(services.settings, services.metadata.newest.broker_configs.get(CLUSTER_DEFAULT, {}))
    by_name = {topic.name: result for topic, result in zip(wanted, results, strict=True)}
    answers = []
    for name in often:
        result = by_name.get(name, ApiError(ErrorCode.invalid_request, "Duplicate topic name."))
        if isinstance(result, ApiError):
            answers.append(
                CreatableTopicResult(
                    name=name, topic_id=None, error_code=result.code, error_message=result.message, configs=()
                )
            )
            continue
        answers.append(
            CreatableTopicResult(
                name=name,
                topic_id=result.topic_id,
                error_code=ErrorCode.none,
                error_message=None,
                num_partitions=i32(result.num_partitions),
                replication_factor=i16(result.replication_factor),
                configs=tuple(
                    CreatableTopicConfigs(
                        name=setting.name,
                        value=setting.value,
                        read_only=setting.read_only,
                        config_source=i8(setting.source),
                        is_sensitive=setting.sensitive,
                    )
                    for setting in describe_topic(result.configs, node)
                ),
            )
        )
    return CreateTopicsResponse(
        throttle_time=quota.throttle_time,
        topics=tuple(_as_allowed(services.access, request, topic) for topic in answers),
    )


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(
            (assignment.partition_index, tuple(NodeId(node) for node in assignment.broker_ids))
            for assignment in topic.assignments
        ),
        configs={config.name: config.value for config in topic.configs},
    )


def _as_allowed(access: Access, request: Request, topic: CreatableTopicResult) -> CreatableTopicResult:
    """A created topic without its settings, if the client may not describe them (KIP-525)."""
    if topic.error_code is not ErrorCode.none or access.allows(
        request.client, AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name
    ):
        return topic
    return replace(
        topic,
        topic_config_error_code=i16(ErrorCode.topic_authorization_failed),
        num_partitions=i32(-1),
        replication_factor=i16(-1),
        configs=(),
    )


async def handle(services: Services, request: Request, message: CreateTopicsRequest) -> CreateTopicsResponse:
    """Pass the controller's answer on once this node follows."""
    answer: CreateTopicsResponse = await forward_counted(services, request, ApiKey.CREATE_TOPICS, message)
    if not services.access.is_open:
        answer = replace(answer, topics=tuple(_as_allowed(services.access, request, topic) for topic in answer.topics))
    if not message.validate_only:
        created = [topic for topic in answer.topics if topic.error_code is ErrorCode.none]
        await until_applied(services, lambda image: all(_is_there(image, topic) for topic in created), message.timeout)
    return answer


def _is_there(image: ClusterImage, topic: CreatableTopicResult) -> bool:
    """True if an image has a created topic; answers of older versions have no ids."""
    if topic.topic_id is None:
        return topic.name in image.topics_by_name
    return TopicId(topic.topic_id) in image.topics_by_id
