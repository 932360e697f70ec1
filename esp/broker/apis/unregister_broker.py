"""UnregisterBroker (64), version 0: the operator has taken a broker away for good.

A broker passes the request on to the active controller, which answers it on the listeners of controllers.
"""

from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.controller.services import ControllerServices
from esp.broker.forwarding import forward
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.errors import ErrorCode
from esp.model.ids import NodeId
from esp.protocol.registry import ApiKey


async def handle_at_controller(
    services: ControllerServices, _request: Request, message: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Forget it."""
    await services.controller.unregister_broker(NodeId(message.broker_id))
    return UnregisterBrokerResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None)


async def handle(services: Services, request: Request, message: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Pass its answer on."""
    answer: UnregisterBrokerResponse = await forward(services, request, ApiKey.UNREGISTER_BROKER, message)
    return answer
