"""UnregisterBroker (64): the operator has taken a broker away for good."""

from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse

from esp.broker.any_listener.common import NO_THROTTLE
from esp.broker.connections.request import Request
from esp.broker.controller.services import ControllerServices
from esp.model.errors import ErrorCode
from esp.model.ids import NodeId


async def handle(
    services: ControllerServices, _request: Request, message: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Forget it."""
    await services.controller.unregister_broker(NodeId(message.broker_id))
    return UnregisterBrokerResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None)
