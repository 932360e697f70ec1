"""Heartbeat (12), versions 0-4: a member is alive, and learns if its group rebalances."""

from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.request import Request
from esp.broker.services import Services
from esp.groups.requests import Heartbeat
from esp.model.errors import ApiError, ErrorCode


def handle(services: Services, request: Request, message: HeartbeatRequest) -> HeartbeatResponse:
    """Answer at once; while the group is being read, that all is well, as Kafka does: some clients give up else.

    Raises:
        ApiError: NOT_COORDINATOR.
    """
    heartbeat = Heartbeat(
        group_id=message.group_id,
        generation_id=message.generation_id,
        member_id=message.member_id,
        group_instance_id=message.group_instance_id,
    )
    try:
        error = services.groups.coordinator_of(message.group_id).heartbeat(heartbeat)
    except ApiError as refusal:
        if refusal.code is not ErrorCode.coordinator_load_in_progress:
            raise
        error = ErrorCode.none
    else:
        if error is ErrorCode.none:
            request.repeat = lambda: _is_repeated(services, heartbeat)
    return HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=error)


def _is_repeated(services: Services, heartbeat: Heartbeat) -> bool:
    """The member sends the same once more: take it, if all is well still."""
    try:
        return services.groups.coordinator_of(heartbeat.group_id).heartbeat(heartbeat) is ErrorCode.none
    except ApiError:
        return False
