"""DeleteTopics (20), versions 1-6, by name or (from version 6) by id: the controller decides.

On brokers the answer waits until the deletion is done here; the listeners of controllers take the same requests.
"""

import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Final

from kio.schema.delete_topics.v5.request import DeleteTopicsRequest as RequestUpTo5
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.types import TopicName

from esp.broker.answer_fields import require_time
from esp.broker.controller.services import ControllerServices
from esp.broker.forwarding import until_applied
from esp.broker.holds.deletions import HeldLogs, find_held_logs, tell_broken_holds
from esp.broker.mutation_quota import MutationQuota, forward_counted, is_counted
from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.waiting import time_limit
from esp.controller.image import ClusterImage, TopicImage
from esp.controller.offset_floors import are_settled
from esp.controller.topics import DeletedTopic, decide_delete_topics
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicId, TopicPartition
from esp.model.retention_hold import DELETE_TOPICS
from esp.protocol.registry import ApiKey

log = logging.getLogger(__name__)

SETTLING_MS: Final = 2_000
"""A leader that lives says within some milliseconds where its logs ended."""


async def handle_at_controller(
    services: ControllerServices, request: Request, message: DeleteTopicsRequest | RequestUpTo5
) -> DeleteTopicsResponse:
    """Delete what is there; each topic is answered for itself."""
    wanted: list[str | TopicId] = []
    answers: list[DeletableTopicResult] = []
    if isinstance(message, RequestUpTo5):
        wanted.extend(message.topic_names)
    else:
        for topic in message.topics:
            if topic.name is not None and topic.topic_id is None:
                wanted.append(topic.name)
            elif topic.name is None and topic.topic_id is not None:
                wanted.append(TopicId(topic.topic_id))
            else:
                answers.append(_ambiguous(topic))
    if wanted:
        require_time(message.timeout)
    quota = MutationQuota(services, request)
    results: Sequence[DeletedTopic | ApiError]
    if not services.settings.delete_topic_enable:
        error = ErrorCode.topic_deletion_disabled if request.api_version >= 3 else ErrorCode.invalid_request
        results = [ApiError(error, "Topic deletion is disabled.") for _ in wanted]
    else:
        now_ms = services.env.clock.wall_ms()
        results = await services.controller.commit(
            lambda image: decide_delete_topics(image, wanted, quota.admits, now_ms), "Topic deletion"
        )
    return DeleteTopicsResponse(
        throttle_time=quota.throttle_time,
        responses=(
            *answers,
            *(_result(asked, result) for asked, result in dict(zip(wanted, results, strict=True)).items()),
        ),
    )


def _ambiguous(topic: DeleteTopicState) -> DeletableTopicResult:
    """The answer for a topic that has neither a name nor an id, or both."""
    return DeletableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=ErrorCode.invalid_request,
        error_message="Neither topic name nor id were specified."
        if topic.name is None
        else "You may not specify both topic name and topic id.",
    )


def _result(asked: str | TopicId, result: DeletedTopic | ApiError) -> DeletableTopicResult:
    name = TopicName(asked) if isinstance(asked, str) else None
    topic_id = None if isinstance(asked, str) else asked
    if isinstance(result, ApiError):
        return DeletableTopicResult(name=name, topic_id=topic_id, error_code=result.code, error_message=result.message)
    return DeletableTopicResult(name=TopicName(result.name), topic_id=result.topic_id, error_code=ErrorCode.none)


async def handle(
    services: Services, request: Request, message: DeleteTopicsRequest | RequestUpTo5
) -> DeleteTopicsResponse:
    """Pass the controller's answer on once this node follows."""
    if not services.settings.delete_topic_enable:
        error = ErrorCode.topic_deletion_disabled if request.api_version >= 3 else ErrorCode.invalid_request
        raise ApiError(error, "Topic deletion is disabled.")
    before = services.metadata.image
    held_logs = await find_held_logs(
        services, _partitions(before, message), message.timeout // timedelta(milliseconds=1)
    )
    if isinstance(message, RequestUpTo5) and not is_counted(request):
        message = DeleteTopicsRequest(
            topics=tuple(DeleteTopicState(name=name, topic_id=None) for name in message.topic_names),
            timeout=message.timeout,
        )
    answer: DeleteTopicsResponse = await forward_counted(services, request, ApiKey.DELETE_TOPICS, message)
    _tell_broken_holds(services, before, held_logs, answer)
    deleted = [_deleted(before, topic) for topic in answer.responses if topic.error_code is ErrorCode.none]
    await until_applied(services, lambda image: not any(is_there(image) for is_there in deleted), message.timeout)
    await _until_settled(services, before, answer, message.timeout)
    return answer


def _partitions(image: ClusterImage, message: DeleteTopicsRequest | RequestUpTo5) -> Iterator[TopicPartition]:
    """The partitions of the topics that are to be deleted."""
    if isinstance(message, RequestUpTo5):
        found = [image.topics_by_name.get(name) for name in message.topic_names]
    else:
        found = [_find(image, topic.name, topic.topic_id) for topic in message.topics]
    for topic in found:
        if topic is not None:
            for number in range(len(topic.partitions)):
                yield TopicPartition(topic.name, number)


def _tell_broken_holds(
    services: Services, before: ClusterImage, held_logs: HeldLogs, answer: DeleteTopicsResponse
) -> None:
    found = (_find(before, each.name, each.topic_id) for each in answer.responses if each.error_code is ErrorCode.none)
    names = {topic.name for topic in found if topic is not None}
    gone = dict.fromkeys(partition for partition in held_logs if partition.topic in names)
    tell_broken_holds(services, held_logs, gone, by=DELETE_TOPICS)


def _find(image: ClusterImage, name: str | None, topic_id: uuid.UUID | None) -> TopicImage | None:
    if topic_id is not None:
        return image.topics_by_id.get(TopicId(topic_id))
    return None if name is None else image.topics_by_name.get(name)


async def _until_settled(
    services: Services, before: ClusterImage, answer: DeleteTopicsResponse, timeout: timedelta
) -> None:
    """Wait a moment until it is known where the logs ended, so that a topic that is created at once goes on just there (FLOOR-3)."""
    gone = [(topic.name, TopicId(topic.topic_id)) for topic in answer.responses if topic.name and topic.topic_id]
    gone = [(name, topic_id) for name, topic_id in gone if topic_id in before.topics_by_id]
    if not gone:
        return
    try:
        async with time_limit(services.env.clock, min(timeout // timedelta(milliseconds=1), SETTLING_MS)):
            await services.metadata.until(
                lambda image: all(are_settled(image, name, topic_id) for name, topic_id in gone)
            )
    except TimeoutError:
        log.warning("it is not known where the logs of deleted topics ended: %s", ", ".join(name for name, _ in gone))


def _deleted(before: ClusterImage, topic: DeletableTopicResult) -> Callable[[ClusterImage], bool]:
    """Return a predicate: true of an image that has the deleted topic. Older answers have no ids: then the name's id of before counts."""
    name = topic.name or ""
    known = before.topics_by_name.get(name)
    if topic.topic_id is not None:
        topic_id = TopicId(topic.topic_id)
    elif known is not None:
        topic_id = known.topic_id
    else:
        return lambda image: name in image.topics_by_name
    return lambda image: topic_id in image.topics_by_id
