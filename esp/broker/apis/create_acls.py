"""CreateAcls (30), versions 1-3: refused, on any kind of listener."""

from kio.schema.create_acls.v3.request import CreateAclsRequest
from kio.schema.create_acls.v3.response import CreateAclsResponse

from esp.broker.apis.acl_refusals import refuse_create_acls
from esp.broker.controller.services import ControllerServices
from esp.broker.request import Request
from esp.broker.services import Services


def handle_at_controller(
    _services: ControllerServices, _request: Request, message: CreateAclsRequest
) -> CreateAclsResponse:
    """SECURITY_DISABLED."""
    return refuse_create_acls(message)


def handle(_services: Services, _request: Request, message: CreateAclsRequest) -> CreateAclsResponse:
    """SECURITY_DISABLED."""
    return refuse_create_acls(message)
