"""ApiVersions (18), versions 0-4: what broker listeners serve, and the cluster's features.

A version above ours is answered in the form of version 0 with error 35 and the range of this API alone, from which clients choose again
(KIP-511); the dispatcher does that.
"""

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import ApiVersionsResponse

from esp.broker.any_listener.api_versions import api_versions_response, require_software_name
from esp.broker.connections.request import Request
from esp.broker.services import Services
from esp.protocol.registry import ListenerKind


def handle(services: Services, request: Request, message: ApiVersionsRequest) -> ApiVersionsResponse:
    """Answer from the metadata that this node has applied."""
    require_software_name(message, request.api_version)
    image = services.metadata.image
    return api_versions_response(
        ListenerKind.BROKER, request.api_version, image.features, services.raft.kraft_version, image.offset
    )
