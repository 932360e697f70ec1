"""DescribeUserScramCredentials (50), version 0, on any kind of listener: no user has any (KIP-554)."""

from collections import Counter

from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest
from kio.schema.describe_user_scram_credentials.v0.response import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.controller.services import ControllerServices
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.errors import ErrorCode


def describe_no_credentials(message: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
    """The answer that no user has credentials, or, for each user that is named, that it has none."""
    often = Counter(user.name for user in message.users or ())
    return DescribeUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message="",
        results=tuple(_nothing(user, count) for user, count in often.items()),
    )


def _nothing(user: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        code = ErrorCode.duplicate_resource
        problem = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    else:
        code = ErrorCode.resource_not_found
        problem = f"Attempt to describe a user credential that does not exist: {user}"
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=problem, credential_infos=())


def handle_at_controller(
    _services: ControllerServices, _request: Request, message: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """See :func:`esp.broker.apis.describe_user_scram_credentials.describe_no_credentials`."""
    return describe_no_credentials(message)


def handle(
    _services: Services, _request: Request, message: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """See :func:`esp.broker.apis.describe_user_scram_credentials.describe_no_credentials`."""
    return describe_no_credentials(message)
