"""DescribeAcls (29), versions 1-3: refused, on any kind of listener."""

from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_acls.v3.response import DescribeAclsResponse

from esp.broker.apis.acl_refusals import refuse_describe_acls
from esp.broker.controller.services import ControllerServices
from esp.broker.request import Request
from esp.broker.services import Services


def handle_at_controller(
    _services: ControllerServices, _request: Request, _message: DescribeAclsRequest
) -> DescribeAclsResponse:
    """SECURITY_DISABLED."""
    return refuse_describe_acls()


def handle(_services: Services, _request: Request, _message: DescribeAclsRequest) -> DescribeAclsResponse:
    """SECURITY_DISABLED."""
    return refuse_describe_acls()
