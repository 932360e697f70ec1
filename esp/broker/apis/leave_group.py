"""LeaveGroup (13), versions 0-5: members leave, or an administrator removes them. Before version 3 one member leaves by itself."""

from collections.abc import Coroutine
from typing import Any, Final

from kio.schema.leave_group.v2.request import LeaveGroupRequest as RequestUpTo2
from kio.schema.leave_group.v5.request import LeaveGroupRequest
from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.groups.wire import answered
from esp.broker.request import Request
from esp.broker.services import Services
from esp.groups.requests import LeaveGroup, LeavingMember
from esp.groups.responses import LeaveResult
from esp.model.errors import ErrorCode

MANY_FROM: Final = 3


def handle(
    services: Services, request: Request, message: LeaveGroupRequest | RequestUpTo2
) -> LeaveGroupResponse | Coroutine[Any, Any, LeaveGroupResponse]:
    """Leave.

    Raises:
        ApiError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
    """

    def translate(result: LeaveResult) -> LeaveGroupResponse:
        return _response(request, result)

    members = (
        (LeavingMember(message.member_id),)
        if isinstance(message, RequestUpTo2)
        else tuple(LeavingMember(each.member_id, each.group_instance_id, each.reason) for each in message.members)
    )
    coordinator = services.groups.coordinator_of(message.group_id)
    return answered(
        coordinator.ask(coordinator.core.leave, LeaveGroup(group_id=message.group_id, members=members)), translate
    )


def _response(request: Request, result: LeaveResult) -> LeaveGroupResponse:
    error = result.error
    if request.api_version < MANY_FROM and error is ErrorCode.none and result.members:
        error = result.members[0].error
    return LeaveGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        members=tuple(
            MemberResponse(
                member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=member.error
            )
            for member in result.members
        ),
    )
