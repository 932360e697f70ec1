"""ControllerRegistration (70): a controller has started, and reports its endpoints and features (KIP-919)."""

from kio.schema.controller_registration.v0.request import ControllerRegistrationRequest
from kio.schema.controller_registration.v0.response import ControllerRegistrationResponse

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.controller.services import ControllerServices
from esp.broker.request import Request
from esp.controller.brokers import ControllerRegistration, decide_controller_registration
from esp.controller.image import FeatureRange
from esp.model.errors import ErrorCode
from esp.model.ids import ZERO_UUID, NodeId
from esp.ports.network import Address


async def handle_at_controller(
    services: ControllerServices, _request: Request, message: ControllerRegistrationRequest
) -> ControllerRegistrationResponse:
    """Write it down."""
    registration = ControllerRegistration(
        node_id=NodeId(message.controller_id),
        incarnation_id=message.incarnation_id or ZERO_UUID,
        endpoints={listener.name: Address(listener.host, listener.port) for listener in message.listeners},
        security_protocols={listener.name: listener.security_protocol for listener in message.listeners},
        features={
            feature.name: FeatureRange(feature.min_supported_version, feature.max_supported_version)
            for feature in message.features
        },
    )
    await services.controller.commit(lambda _: decide_controller_registration(registration), "Controller registration")
    return ControllerRegistrationResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None)
