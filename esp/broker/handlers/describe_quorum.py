"""DescribeQuorum (55), versions 0-2: passed on to the leader of the metadata quorum."""

from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest
from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse

from esp.broker.connections.request import Request
from esp.broker.forwarding import forward
from esp.broker.services import Services
from esp.protocol.registry import ApiKey


async def handle(services: Services, request: Request, message: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Pass its answer on."""
    answer: DescribeQuorumResponse = await forward(services, ApiKey.DESCRIBE_QUORUM, message)
    return answer
