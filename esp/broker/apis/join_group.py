"""JoinGroup (11), versions 0-9: a client wants to be a member of a group's next generation, and waits until that begins."""

from collections.abc import Coroutine
from typing import Any, Final

from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.join_group.v9.response import JoinGroupResponse, JoinGroupResponseMember
from kio.static.primitive import i32

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.groups.wire import answered, milliseconds
from esp.broker.request import Request
from esp.broker.services import Services
from esp.groups.requests import JoinGroup, Protocol
from esp.groups.responses import JoinResult
from esp.model.errors import ApiError

REBALANCE_TIMEOUT_FROM: Final = 1
KNOWN_MEMBER_ID_FROM: Final = 4
"""From this version on a new member is told its id first, and joins with it (KIP-394)."""

NULLABLE_PROTOCOL_FROM: Final = 7
SKIP_ASSIGNMENT_FROM: Final = 9


def handle(
    services: Services, request: Request, message: JoinGroupRequest
) -> JoinGroupResponse | Coroutine[Any, Any, JoinGroupResponse]:
    """Join; the answer comes when all members have joined, or the time for that is over."""

    def translate(result: JoinResult) -> JoinGroupResponse:
        return _response(request, result)

    version = request.api_version
    session_timeout_ms = milliseconds(message.session_timeout)
    join = JoinGroup(
        group_id=message.group_id,
        member_id=message.member_id,
        group_instance_id=message.group_instance_id,
        client_id=request.client_id or "",
        client_host=f"/{request.client.address.host}",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=(
            milliseconds(message.rebalance_timeout) if version >= REBALANCE_TIMEOUT_FROM else session_timeout_ms
        ),
        protocol_type=message.protocol_type,
        protocols=tuple(Protocol(protocol.name, protocol.metadata) for protocol in message.protocols),
        requires_known_member_id=version >= KNOWN_MEMBER_ID_FROM,
        supports_skipping_assignment=version >= SKIP_ASSIGNMENT_FROM,
        reason=message.reason,
    )
    try:
        coordinator = services.groups.coordinator_of(join.group_id)
        return answered(coordinator.ask(coordinator.core.join, join), translate)
    except ApiError as error:
        return translate(JoinResult(error=error.code, member_id=join.member_id))


def _response(request: Request, result: JoinResult) -> JoinGroupResponse:
    protocol_name = result.protocol_name
    if protocol_name is None and request.api_version < NULLABLE_PROTOCOL_FROM:
        protocol_name = ""
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=result.error,
        generation_id=i32(result.generation_id),
        protocol_type=result.protocol_type,
        protocol_name=protocol_name,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=tuple(
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=member.metadata
            )
            for member in result.members
        ),
    )
