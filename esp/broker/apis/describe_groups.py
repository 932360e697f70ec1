"""DescribeGroups (15), versions 0-6: state and members of groups.

From version 6 on a group that is not there is an error; before, it is a group whose state is Dead (KIP-1043).
"""

from typing import Final

from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import (
    DescribedGroup as DescribedGroupResponse,
)
from kio.schema.describe_groups.v6.response import (
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from kio.schema.types import GroupId
from kio.static.primitive import i32

from esp.broker.answer_fields import NO_THROTTLE, OPERATIONS_NOT_ASKED
from esp.broker.authorization.access import authorized_operations
from esp.broker.request import Request
from esp.broker.services import Services
from esp.groups.responses import DescribedGroup
from esp.model.acl import ResourceType
from esp.model.errors import ApiError, ErrorCode

NOT_FOUND_FROM: Final = 6


def handle(services: Services, request: Request, message: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Answer at once, each group for itself."""
    return DescribeGroupsResponse(
        throttle_time=NO_THROTTLE,
        groups=tuple(
            _response(
                services, request, _describe(services, group_id), with_operations=message.include_authorized_operations
            )
            for group_id in message.groups
        ),
    )


def _describe(services: Services, group_id: str) -> DescribedGroup:
    try:
        return services.groups.coordinator_of(group_id, or_empty=True).core.describe_group(group_id)
    except ApiError as error:
        return DescribedGroup(group_id=group_id, error=error.code)


def _response(
    services: Services, request: Request, group: DescribedGroup, *, with_operations: bool
) -> DescribedGroupResponse:
    error = group.error
    if error is ErrorCode.group_id_not_found and request.api_version < NOT_FOUND_FROM:
        error = ErrorCode.none
    return DescribedGroupResponse(
        error_code=error,
        error_message=group.error_message,
        group_id=GroupId(group.group_id),
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ),
        authorized_operations=i32(
            authorized_operations(services.access, request.client, ResourceType.GROUP, group.group_id)
            if with_operations and error is ErrorCode.none
            else OPERATIONS_NOT_ASKED
        ),
    )
