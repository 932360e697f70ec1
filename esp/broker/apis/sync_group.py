"""SyncGroup (14), versions 0-5: a member of a new generation asks for its assignment; the leader brings those of all."""

from collections.abc import Coroutine
from typing import Any, Final

from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.schema.sync_group.v5.response import SyncGroupResponse

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.groups.wire import answered
from esp.broker.request import Request
from esp.broker.services import Services
from esp.groups.requests import SyncGroup
from esp.groups.responses import SyncResult
from esp.model.errors import ApiError, ErrorCode

PROTOCOL_FROM: Final = 5
"""From this version on a member must say what it takes part in (KIP-559)."""


def handle(
    services: Services, request: Request, message: SyncGroupRequest
) -> SyncGroupResponse | Coroutine[Any, Any, SyncGroupResponse]:
    """Ask for the assignment; the answer comes when the leader's assignments are committed.

    Raises:
        ApiError: INCONSISTENT_GROUP_PROTOCOL, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
    """
    if request.api_version >= PROTOCOL_FROM and None in (message.protocol_type, message.protocol_name):
        raise ApiError(ErrorCode.inconsistent_group_protocol)
    sync = SyncGroup(
        group_id=message.group_id,
        generation_id=message.generation_id,
        member_id=message.member_id,
        group_instance_id=message.group_instance_id,
        protocol_type=message.protocol_type,
        protocol_name=message.protocol_name,
        assignments={each.member_id: each.assignment for each in message.assignments},
    )
    coordinator = services.groups.coordinator_of(sync.group_id)
    return answered(coordinator.ask(coordinator.core.sync, sync), _response)


def _response(result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
