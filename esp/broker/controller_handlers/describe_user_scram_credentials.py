"""DescribeUserScramCredentials (50), version 0: there are none."""

from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest
from kio.schema.describe_user_scram_credentials.v0.response import DescribeUserScramCredentialsResponse

from esp.broker.controller_services import ControllerServices
from esp.broker.request import Request
from esp.broker.scram_description import describe_no_credentials


def handle(
    _services: ControllerServices, _request: Request, message: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """See :func:`esp.broker.scram_description.describe_no_credentials`."""
    return describe_no_credentials(message)
