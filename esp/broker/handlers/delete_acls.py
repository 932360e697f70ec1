"""DeleteAcls (31), versions 1-3: refused."""

from kio.schema.delete_acls.v3.request import DeleteAclsRequest
from kio.schema.delete_acls.v3.response import DeleteAclsResponse

from esp.broker.any_listener.acl_refusals import refuse_delete_acls
from esp.broker.connections.request import Request
from esp.broker.services import Services


def handle(_services: Services, _request: Request, message: DeleteAclsRequest) -> DeleteAclsResponse:
    """SECURITY_DISABLED."""
    return refuse_delete_acls(message)
