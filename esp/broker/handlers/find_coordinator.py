"""FindCoordinator (10), versions 0-6: there are no groups, transactions or share groups yet.

Every key is answered with COORDINATOR_NOT_AVAILABLE, which clients retry. It is served all the same, because librdkafka turns lz4 on only
where it is advertised.
"""

from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest as RequestUpTo3
from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse as ResponseUpTo3
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.types import BrokerId
from kio.static.primitive import i32

from esp.broker.handlers.common import NO_THROTTLE
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.errors import ErrorCode

_REASON = "Consumer groups and transactions are not served by this release"


def handle(
    services: Services, request: Request, message: FindCoordinatorRequest | RequestUpTo3
) -> FindCoordinatorResponse | ResponseUpTo3:
    """Answer that there is no coordinator for any key."""
    if isinstance(message, RequestUpTo3):
        return ResponseUpTo3(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.coordinator_not_available,
            error_message=_REASON,
            node_id=BrokerId(-1),
            host="",
            port=i32(-1),
        )
    return FindCoordinatorResponse(
        throttle_time=NO_THROTTLE,
        coordinators=tuple(
            Coordinator(
                key=key,
                node_id=BrokerId(-1),
                host="",
                port=i32(-1),
                error_code=ErrorCode.coordinator_not_available,
                error_message=_REASON,
            )
            for key in message.coordinator_keys
        ),
    )
