"""ElectLeaders (43), versions 0-2: passed on to the active controller."""

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse

from esp.broker.connections.request import Request
from esp.broker.forwarding import forward
from esp.broker.services import Services
from esp.protocol.registry import ApiKey


async def handle(services: Services, request: Request, message: ElectLeadersRequest) -> ElectLeadersResponse:
    """Pass its answer on."""
    answer: ElectLeadersResponse = await forward(services, ApiKey.ELECT_LEADERS, message)
    return answer
