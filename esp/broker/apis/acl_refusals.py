"""The answers to requests about access-control lists, on any kind of listener: there is no authorizer, as Kafka says it by default."""

from kio.schema.create_acls.v3.request import CreateAclsRequest
from kio.schema.create_acls.v3.response import AclCreationResult, CreateAclsResponse
from kio.schema.delete_acls.v3.request import DeleteAclsRequest
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult, DeleteAclsResponse
from kio.schema.describe_acls.v3.response import DescribeAclsResponse

from esp.broker.answer_fields import NO_THROTTLE
from esp.model.errors import ErrorCode

_NO_AUTHORIZER = "No Authorizer is configured."


def refuse_describe_acls() -> DescribeAclsResponse:
    """DescribeAcls (29)."""
    return DescribeAclsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.security_disabled,
        error_message="No Authorizer is configured on the broker",
        resources=(),
    )


def refuse_create_acls(message: CreateAclsRequest) -> CreateAclsResponse:
    """CreateAcls (30)."""
    refusal = AclCreationResult(error_code=ErrorCode.security_disabled, error_message=_NO_AUTHORIZER)
    return CreateAclsResponse(throttle_time=NO_THROTTLE, results=(refusal,) * len(message.creations))


def refuse_delete_acls(message: DeleteAclsRequest) -> DeleteAclsResponse:
    """DeleteAcls (31)."""
    refusal = DeleteAclsFilterResult(
        error_code=ErrorCode.security_disabled, error_message=_NO_AUTHORIZER, matching_acls=()
    )
    return DeleteAclsResponse(throttle_time=NO_THROTTLE, filter_results=(refusal,) * len(message.filters))
