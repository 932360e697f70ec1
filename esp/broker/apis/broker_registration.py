"""BrokerRegistration (62), versions 0-4: a broker has started (BRK-1)."""

from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest
from kio.schema.broker_registration.v4.response import BrokerRegistrationResponse
from kio.static.primitive import i64

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.controller.services import ControllerServices
from esp.broker.request import Request
from esp.controller.brokers import BrokerRegistration
from esp.controller.image import FeatureRange
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import ZERO_UUID, BrokerEpoch, DirectoryId, NodeId
from esp.ports.network import Address


async def handle_at_controller(
    services: ControllerServices, request: Request, message: BrokerRegistrationRequest
) -> BrokerRegistrationResponse:
    """Answer with the broker's epoch.

    Raises:
        ApiError: BROKER_ID_NOT_REGISTERED for a broker of a cluster with ZooKeeper; and see
            :meth:`esp.broker.controller.driver.ControllerDriver.register_broker`.
    """
    if message.is_migrating_zk_broker:
        raise ApiError(ErrorCode.broker_id_not_registered, "Brokers of clusters with ZooKeeper cannot be registered")
    registration = BrokerRegistration(
        node_id=NodeId(message.broker_id),
        cluster_id=message.cluster_id,
        incarnation_id=message.incarnation_id or ZERO_UUID,
        endpoints={listener.name: Address(listener.host, listener.port) for listener in message.listeners},
        security_protocols={listener.name: listener.security_protocol for listener in message.listeners},
        features={
            feature.name: FeatureRange(feature.min_supported_version, feature.max_supported_version)
            for feature in message.features
        },
        rack=message.rack,
        log_dirs=tuple(DirectoryId(directory or ZERO_UUID) for directory in message.log_dirs),
        previous_broker_epoch=BrokerEpoch(message.previous_broker_epoch),
    )
    epoch = await services.controller.register_broker(registration, request.client)
    return BrokerRegistrationResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, broker_epoch=i64(epoch))
