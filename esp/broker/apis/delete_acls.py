"""DeleteAcls (31), versions 1-3: rules of access go out of force, all of a request at once.

A broker passes the request on to the active controller, and answers when its own authorizer follows. A filter with a number that has no
meaning is refused, and the others with it; Kafka ends the connection.
"""

from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsResponse
from kio.static.primitive import i8

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.apis.acl_refusals import refuse_delete_acls
from esp.broker.controller.services import ControllerServices
from esp.broker.following import until_follows
from esp.broker.forwarding import check_whole, forward
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.acls import decide_delete_acls
from esp.model.acl import AclBinding
from esp.model.acl_filter import AclFilter
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.registry import ApiKey


async def handle_at_controller(
    services: ControllerServices, _request: Request, message: DeleteAclsRequest
) -> DeleteAclsResponse:
    """Answer each filter with the rules that it has selected, once all are out of force."""
    if services.access.is_open:
        return refuse_delete_acls(message)
    check_whole(message.filters)
    filters = [_filter(wanted) for wanted in message.filters]
    results = await services.controller.commit(lambda image: decide_delete_acls(image, filters), "Delete ACLs")
    return DeleteAclsResponse(throttle_time=NO_THROTTLE, filter_results=tuple(map(_result, results)))


async def handle(services: Services, request: Request, message: DeleteAclsRequest) -> DeleteAclsResponse:
    """Pass the controller's answer on once this node follows."""
    if services.access.is_open:
        return refuse_delete_acls(message)
    check_whole(message.filters)
    answer: DeleteAclsResponse = await forward(services, request, ApiKey.DELETE_ACLS, message)
    await until_follows(services)
    return answer


def _filter(wanted: DeleteAclsFilter) -> AclFilter:
    acl_filter = AclFilter(
        wanted.resource_type_filter,
        wanted.resource_name_filter,
        wanted.pattern_type_filter,
        wanted.principal_filter,
        wanted.host_filter,
        wanted.operation,
        wanted.permission_type,
    )
    acl_filter.check()
    return acl_filter


def _result(selected: tuple[AclBinding, ...] | ApiError) -> DeleteAclsFilterResult:
    if isinstance(selected, ApiError):
        return DeleteAclsFilterResult(error_code=selected.code, error_message=selected.message, matching_acls=())
    return DeleteAclsFilterResult(
        error_code=ErrorCode.none, error_message=None, matching_acls=tuple(map(_matching, selected))
    )


def _matching(binding: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.none,
        error_message=None,
        resource_type=i8(binding.resource_type),
        resource_name=binding.resource_name,
        pattern_type=i8(binding.pattern_type),
        principal=binding.principal,
        host=binding.host,
        operation=i8(binding.operation),
        permission_type=i8(binding.permission),
    )
