"""DescribeUserScramCredentials (50), version 0: there are none."""

from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest
from kio.schema.describe_user_scram_credentials.v0.response import DescribeUserScramCredentialsResponse

from esp.broker.any_listener.scram_description import describe_no_credentials
from esp.broker.connections.request import Request
from esp.broker.controller.services import ControllerServices


def handle(
    _services: ControllerServices, _request: Request, message: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """See :func:`esp.broker.any_listener.scram_description.describe_no_credentials`."""
    return describe_no_credentials(message)
