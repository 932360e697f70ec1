"""ShareGroupHeartbeat (76), version 1: a member of a share group joins, shows that it lives, or leaves (KIP-932)."""

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest
from kio.schema.share_group_heartbeat.v1.response import Assignment, ShareGroupHeartbeatResponse, TopicPartitions
from kio.static.primitive import i32, i32Timedelta

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.authorization.group_topics import require_describable
from esp.broker.groups.wire import answered, by_topic
from esp.broker.request import Request
from esp.broker.services import Services
from esp.groups.share.requests import ShareGroupHeartbeat, ShareGroupHeartbeatResult
from esp.model.errors import ApiError


def handle(
    services: Services, request: Request, message: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse | Coroutine[Any, Any, ShareGroupHeartbeatResponse]:
    """Answer when all that follows from the heartbeat is committed; at once, also when it is repeated, where nothing follows."""
    heartbeat = ShareGroupHeartbeat(
        group_id=message.group_id,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        rack_id=message.rack_id,
        topic_names=message.subscribed_topic_names,
        client_id=request.client_id or "",
        client_host=f"/{request.client.address.host}",
    )
    try:
        require_describable(services.access, request.client, heartbeat.topic_names or ())
        coordinator = services.groups.coordinator_of(heartbeat.group_id, or_empty=True)
        at_rest = coordinator.share_beat_at_rest(heartbeat)
        if at_rest is not None:
            request.repeat = lambda: _is_repeated(services, heartbeat, at_rest)
            return _response(at_rest)
        return answered(coordinator.ask(coordinator.core.shares.heartbeat, heartbeat), _response)
    except ApiError as error:
        return _response(ShareGroupHeartbeatResult(error=error.code, error_message=error.message))


def _is_repeated(services: Services, heartbeat: ShareGroupHeartbeat, before: ShareGroupHeartbeatResult) -> bool:
    """The member sends the same once more: take it, if the answer is the same too."""
    try:
        coordinator = services.groups.coordinator_of(heartbeat.group_id, or_empty=True)
        return coordinator.share_beat_at_rest(heartbeat) == before
    except ApiError:
        return False


def _response(result: ShareGroupHeartbeatResult) -> ShareGroupHeartbeatResponse:
    assignment = None
    if result.assignment is not None:
        assignment = Assignment(
            topic_partitions=tuple(
                TopicPartitions(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in by_topic(result.assignment).items()
            )
        )
    return ShareGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=result.error,
        error_message=result.error_message,
        member_id=result.member_id,
        member_epoch=i32(result.member_epoch),
        heartbeat_interval=i32Timedelta.parse(timedelta(milliseconds=result.heartbeat_interval_ms)),
        assignment=assignment,
    )
