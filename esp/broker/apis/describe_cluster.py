"""DescribeCluster (60), versions 1-2: the brokers and the controller (KIP-700, KIP-919).

Version 0 is not served: kafka-python fails on it, and every client falls back to Metadata. Asked for controllers, a broker
answers MISMATCHED_ENDPOINT_TYPE as Kafka's does.

On the listeners of controllers the answer names the controllers, and which of them is active (KIP-919). Asked for brokers, a controller
answers MISMATCHED_ENDPOINT_TYPE, as a broker does that is asked for controllers.
"""

from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.types import BrokerId
from kio.static.primitive import i8, i32

from esp.broker.answer_fields import NO_THROTTLE, OPERATIONS_NOT_ASKED
from esp.broker.authorization.access import cluster_operations
from esp.broker.controller.services import ControllerServices
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NO_NODE


def handle_at_controller(
    services: ControllerServices, request: Request, message: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Answer with the registered controllers that have the listener by which the request came in."""
    if message.endpoint_type == _BROKERS:
        raise ApiError(
            ErrorCode.mismatched_endpoint_type,
            "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER",
        )
    if message.endpoint_type != _CONTROLLERS:
        raise ApiError(ErrorCode.unsupported_endpoint_type, f"Unsupported endpoint type {message.endpoint_type}")
    controllers = services.metadata.image.controllers
    listener = request.client.listener
    leader = services.raft.leader
    return DescribeClusterResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        endpoint_type=i8(_CONTROLLERS),
        cluster_id=services.cluster_id,
        controller_id=BrokerId(NO_NODE if leader is None else leader),
        brokers=tuple(
            DescribeClusterBroker(
                broker_id=BrokerId(node_id),
                host=controllers[node_id].endpoints[listener].host,
                port=i32(controllers[node_id].endpoints[listener].port),
                rack=None,
                is_fenced=False,
            )
            for node_id in sorted(controllers)
            if listener in controllers[node_id].endpoints
        ),
        cluster_authorized_operations=i32(
            cluster_operations(services.access, request.client)
            if message.include_cluster_authorized_operations
            else OPERATIONS_NOT_ASKED
        ),
    )


_BROKERS = 1
_CONTROLLERS = 2


def handle(services: Services, request: Request, message: DescribeClusterRequest) -> DescribeClusterResponse:
    """Answer with the brokers of the listener that the request came in by."""
    metadata = services.metadata
    if message.endpoint_type == _CONTROLLERS:
        raise ApiError(
            ErrorCode.mismatched_endpoint_type,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if message.endpoint_type != _BROKERS:
        raise ApiError(ErrorCode.unsupported_endpoint_type, f"Unsupported endpoint type {message.endpoint_type}")
    fenced = metadata.fenced if message.include_fenced_brokers else frozenset()
    return DescribeClusterResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        endpoint_type=i8(_BROKERS),
        cluster_id=metadata.cluster_id,
        controller_id=BrokerId(metadata.controller_id),
        brokers=tuple(
            DescribeClusterBroker(
                broker_id=BrokerId(node_id),
                host=address.host,
                port=i32(address.port),
                rack=metadata.rack(node_id),
                is_fenced=node_id in fenced,
            )
            for node_id, address in metadata.endpoints(request.client.listener, with_fenced=bool(fenced))
        ),
        cluster_authorized_operations=i32(
            cluster_operations(services.access, request.client)
            if message.include_cluster_authorized_operations
            else OPERATIONS_NOT_ASKED
        ),
    )
