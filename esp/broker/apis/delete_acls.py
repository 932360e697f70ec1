"""DeleteAcls (31), versions 1-3: refused, on any kind of listener."""

from kio.schema.delete_acls.v3.request import DeleteAclsRequest
from kio.schema.delete_acls.v3.response import DeleteAclsResponse

from esp.broker.apis.acl_refusals import refuse_delete_acls
from esp.broker.controller.services import ControllerServices
from esp.broker.request import Request
from esp.broker.services import Services


def handle_at_controller(
    _services: ControllerServices, _request: Request, message: DeleteAclsRequest
) -> DeleteAclsResponse:
    """SECURITY_DISABLED."""
    return refuse_delete_acls(message)


def handle(_services: Services, _request: Request, message: DeleteAclsRequest) -> DeleteAclsResponse:
    """SECURITY_DISABLED."""
    return refuse_delete_acls(message)
