"""DeleteAcls (31), versions 1-3: refused."""

from kio.schema.delete_acls.v3.request import DeleteAclsRequest
from kio.schema.delete_acls.v3.response import DeleteAclsResponse

from esp.broker.acl_refusals import refuse_delete_acls
from esp.broker.controller_services import ControllerServices
from esp.broker.request import Request


def handle(_services: ControllerServices, _request: Request, message: DeleteAclsRequest) -> DeleteAclsResponse:
    """SECURITY_DISABLED."""
    return refuse_delete_acls(message)
