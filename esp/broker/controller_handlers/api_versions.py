"""ApiVersions (18), versions 0-4: what controller listeners serve, and the cluster's features.

Versions above ours are answered as on broker listeners.
"""

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import ApiVersionsResponse

from esp.broker.any_listener.api_versions import api_versions_response, require_software_name
from esp.broker.connections.request import Request
from esp.broker.controller.services import ControllerServices
from esp.protocol.registry import ListenerKind


def handle(services: ControllerServices, request: Request, message: ApiVersionsRequest) -> ApiVersionsResponse:
    """Answer from the committed metadata."""
    require_software_name(message, request.api_version)
    image = services.metadata.image
    return api_versions_response(
        ListenerKind.CONTROLLER, request.api_version, image.features, services.raft.kraft_version, image.offset
    )
