"""DescribeAcls (29), versions 1-3: the rules of access that a filter selects, of those by which this node goes."""

from collections.abc import Generator

from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_acls.v3.response import AclDescription, DescribeAclsResource, DescribeAclsResponse
from kio.static.primitive import i8

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.apis.acl_refusals import refuse_describe_acls
from esp.broker.controller.services import ControllerServices
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.image import ClusterImage
from esp.model.acl import PatternType, ResourceType
from esp.model.acl_filter import AclFilter
from esp.model.errors import ErrorCode
from esp.protocol.progress import Progress

_Answer = DescribeAclsResponse | Generator[None, None, DescribeAclsResponse]


def handle_at_controller(services: ControllerServices, _request: Request, message: DescribeAclsRequest) -> _Answer:
    """Answer in slices from the committed metadata."""
    return refuse_describe_acls() if services.access.is_open else _describe(services.metadata.image, message)


def handle(services: Services, _request: Request, message: DescribeAclsRequest) -> _Answer:
    """Answer in slices from the metadata by which permissions go here."""
    return refuse_describe_acls() if services.access.is_open else _describe(services.in_force(), message)


def _describe(image: ClusterImage, message: DescribeAclsRequest) -> Generator[None, None, DescribeAclsResponse]:
    wanted = AclFilter(
        message.resource_type_filter,
        message.resource_name_filter,
        message.pattern_type_filter,
        message.principal_filter,
        message.host_filter,
        message.operation,
        message.permission_type,
    )
    wanted.check()
    found: dict[tuple[ResourceType, str, PatternType], list[AclDescription]] = {}
    progress = Progress()
    for binding in image.acls.values():
        if progress.count_one():
            yield
        if wanted.matches(binding):
            found.setdefault(binding[:3], []).append(
                AclDescription(
                    principal=binding.principal,
                    host=binding.host,
                    operation=i8(binding.operation),
                    permission_type=i8(binding.permission),
                )
            )
    return DescribeAclsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        resources=tuple(
            DescribeAclsResource(
                resource_type=i8(resource_type), resource_name=name, pattern_type=i8(pattern_type), acls=tuple(acls)
            )
            for (resource_type, name, pattern_type), acls in found.items()
        ),
    )
