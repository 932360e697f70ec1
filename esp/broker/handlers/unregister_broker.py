"""UnregisterBroker (64), version 0: passed on to the active controller."""

from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse

from esp.broker.connections.request import Request
from esp.broker.forwarding import forward
from esp.broker.services import Services
from esp.protocol.registry import ApiKey


async def handle(services: Services, request: Request, message: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Pass its answer on."""
    answer: UnregisterBrokerResponse = await forward(services, ApiKey.UNREGISTER_BROKER, message)
    return answer
