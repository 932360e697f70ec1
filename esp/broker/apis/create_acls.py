"""CreateAcls (30), versions 1-3: rules of access come into force, all of a request at once.

A broker passes the request on to the active controller, and answers when its own authorizer follows: the rules count for the client's next
request here. A rule that is there already is answered like a new one.
"""

from dataclasses import replace
from typing import Final

from kio.schema.create_acls.v3.request import CreateAclsRequest
from kio.schema.create_acls.v3.response import AclCreationResult, CreateAclsResponse

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.apis.acl_refusals import refuse_create_acls
from esp.broker.controller.services import ControllerServices
from esp.broker.following import until_follows
from esp.broker.forwarding import check_whole, forward
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.acls import AclCreation, check_acl_creation, decide_create_acls
from esp.model.acl import AclBinding
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.registry import ApiKey

CREATIONS_MAX: Final = 1_000
"""The largest number of rules of one request, which come into force together; to pass them on takes some ten milliseconds of the loop."""


async def handle_at_controller(
    services: ControllerServices, _request: Request, message: CreateAclsRequest
) -> CreateAclsResponse:
    """Put in force what can be, once it is committed; each rule is answered for itself."""
    if services.access.is_open:
        return refuse_create_acls(message)
    check_whole(message.creations, CREATIONS_MAX)
    asked = _asked(message)
    results = await services.controller.commit(
        lambda image: decide_create_acls(image, asked, services.env.random), "Create ACLs"
    )
    return CreateAclsResponse(throttle_time=NO_THROTTLE, results=tuple(map(_result, results)))


async def handle(services: Services, request: Request, message: CreateAclsRequest) -> CreateAclsResponse:
    """Pass the controller's answer on once this node follows."""
    if services.access.is_open:
        return refuse_create_acls(message)
    check_whole(message.creations, CREATIONS_MAX)
    answer: CreateAclsResponse = await forward(services, request, ApiKey.CREATE_ACLS, message)
    await until_follows(services)
    return answer


def _asked(message: CreateAclsRequest) -> list[AclBinding | ApiError]:
    asked: list[AclBinding | ApiError] = []
    for creation in message.creations:
        try:
            asked.append(
                check_acl_creation(
                    AclCreation(
                        creation.resource_type,
                        creation.resource_name,
                        creation.resource_pattern_type,
                        creation.principal,
                        creation.host,
                        creation.operation,
                        creation.permission_type,
                    )
                )
            )
        except ApiError as error:
            asked.append(error)
    return asked


def _result(error: ApiError | None) -> AclCreationResult:
    if error is None:
        return _CREATED
    return replace(_CREATED, error_code=error.code, error_message=error.message)


_CREATED = AclCreationResult(error_code=ErrorCode.none, error_message=None)
