"""ConsumerGroupHeartbeat (68), versions 0-1: a member of a consumer group joins, shows that it lives, or leaves (KIP-848)."""

from collections.abc import Coroutine, Generator
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kio.schema.consumer_group_heartbeat.v0.request import ConsumerGroupHeartbeatRequest as RequestOf0
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.consumer_group_heartbeat.v1.response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kio.static.primitive import i32, i32Timedelta

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.authorization.group_topics import require_describable
from esp.broker.groups.level import require_consumer_groups
from esp.broker.groups.wire import answered, by_topic, milliseconds
from esp.broker.request import Request
from esp.broker.services import Services
from esp.groups.requests import ConsumerGroupHeartbeat
from esp.groups.responses import ConsumerGroupHeartbeatResult
from esp.model.acl import AclOperation, ResourceType
from esp.model.errors import ApiError
from esp.model.ids import TopicId
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.schemas.group_record_codec import STRING_BYTES_MAX

if TYPE_CHECKING:  # a node without groups does without them
    from esp.broker.groups.driver import GroupCoordinatorDriver
    from esp.broker.groups.expressions import Expressions

CLIENT_MAKES_ID_FROM: Final = 1

AT_ONCE_PARTITIONS: Final = 1_000
"""The answer that brings a larger assignment is made in slices."""

AnyRequest = RequestOf0 | ConsumerGroupHeartbeatRequest
Answer = ConsumerGroupHeartbeatResponse | Generator[None, None, ConsumerGroupHeartbeatResponse]


def handle(services: Services, request: Request, message: AnyRequest) -> Answer | Coroutine[Any, Any, Answer]:
    """Answer when all that follows from the heartbeat is committed; at once, also when it is repeated, where nothing follows.

    If it brings an expression, the topics that it matches are found first.
    """
    owned = None
    if message.topic_partitions is not None:
        owned = frozenset(
            TopicIdPartition(TopicId(topic.topic_id), partition)
            for topic in message.topic_partitions
            if topic.topic_id is not None
            for partition in topic.partitions
        )
    heartbeat = ConsumerGroupHeartbeat(
        group_id=message.group_id,
        member_id=message.member_id,
        makes_member_id=request.api_version >= CLIENT_MAKES_ID_FROM,
        member_epoch=message.member_epoch,
        instance_id=message.instance_id,
        rack_id=message.rack_id,
        rebalance_timeout_ms=milliseconds(message.rebalance_timeout),
        topic_names=message.subscribed_topic_names,
        topic_regex=message.subscribed_topic_regex if isinstance(message, ConsumerGroupHeartbeatRequest) else None,
        assignor=message.server_assignor,
        owned=owned,
        client_id=request.client_id or "",
        client_host=f"/{request.client.address.host}",
        may_describe=partial(services.access.allows, request.client, AclOperation.DESCRIBE, ResourceType.TOPIC),
    )
    try:
        require_consumer_groups(services.metadata.image)
        require_describable(services.access, request.client, heartbeat.topic_names or ())
        coordinator = services.groups.coordinator_of(heartbeat.group_id, or_empty=True)
        at_rest = coordinator.beat_at_rest(heartbeat)
        if at_rest is not None:
            request.repeat = lambda: _is_repeated(services, heartbeat, at_rest)
            return _response(at_rest)
        expressions, regex = services.groups.expressions, heartbeat.topic_regex
        if regex and expressions is not None and len(regex) <= STRING_BYTES_MAX and not expressions.knows(regex):
            return _answer_later(coordinator, expressions, heartbeat)
        return answered(coordinator.ask(coordinator.core.consumer_group_heartbeat, heartbeat), _answer)
    except ApiError as error:
        return _response(ConsumerGroupHeartbeatResult(error=error.code, error_message=error.message))


async def _answer_later(
    coordinator: "GroupCoordinatorDriver", expressions: "Expressions", heartbeat: ConsumerGroupHeartbeat
) -> Answer:
    """The heartbeat brings an expression of which it is not known which of the topics it matches."""
    await expressions.look(heartbeat.topic_regex or "")
    try:
        return _answer(await coordinator.ask(coordinator.core.consumer_group_heartbeat, heartbeat))
    except ApiError as error:
        return _response(ConsumerGroupHeartbeatResult(error=error.code, error_message=error.message))


def _is_repeated(services: Services, heartbeat: ConsumerGroupHeartbeat, before: ConsumerGroupHeartbeatResult) -> bool:
    """The member sends the same once more: take it, if the answer is the same too."""
    try:
        require_consumer_groups(services.metadata.image)
        coordinator = services.groups.coordinator_of(heartbeat.group_id, or_empty=True)
        return coordinator.beat_at_rest(heartbeat) == before
    except ApiError:
        return False


def _answer(result: ConsumerGroupHeartbeatResult) -> Answer:
    is_large = result.assignment is not None and len(result.assignment) > AT_ONCE_PARTITIONS
    return _in_slices(result) if is_large else _response(result)


def _in_slices(result: ConsumerGroupHeartbeatResult) -> Generator[None, None, ConsumerGroupHeartbeatResponse]:
    """The message is made in one slice, and encoded in many."""
    yield
    return _response(result)


def _response(result: ConsumerGroupHeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if result.assignment is not None:
        assignment = Assignment(
            topic_partitions=tuple(
                TopicPartitions(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in by_topic(result.assignment).items()
            )
        )
    return ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=result.error,
        error_message=result.error_message,
        member_id=result.member_id,
        member_epoch=i32(result.member_epoch),
        heartbeat_interval=i32Timedelta.parse(timedelta(milliseconds=result.heartbeat_interval_ms)),
        assignment=assignment,
    )
