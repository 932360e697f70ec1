"""ApiVersions (18), versions 0-4: the APIs that a listener serves, straight from the registry, and the cluster's features.

A version above ours is answered in the form of version 0 with error 35 and the range of this API alone, from which clients choose again
(KIP-511); the dispatcher does that. All of this holds for the listeners of brokers and of controllers, each with its own APIs.

Clients count on transactions by the level of ``transaction.version``, 2 in a new cluster.
"""

import re
from collections.abc import Mapping
from typing import Final

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey
from kio.static.primitive import i16, i64

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.controller.services import ControllerServices
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.image import FeatureRange
from esp.model.errors import ApiError, ErrorCode
from esp.model.features import KRAFT_VERSION
from esp.protocol.registry import ListenerKind, api_version_rows

_FIRST_WITH_SOFTWARE: Final = 3
_FIRST_WITH_LEVEL_0: Final = 4
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def require_software_name(message: ApiVersionsRequest, version: int) -> None:
    """Require a client's name and version to be of letters, digits, '-' and '.', with a letter or digit first and last (KIP-511).

    Raises:
        ApiError: INVALID_REQUEST.
    """
    said = (message.client_software_name, message.client_software_version)
    if version >= _FIRST_WITH_SOFTWARE and not all(map(_SOFTWARE.fullmatch, said)):
        raise ApiError(ErrorCode.invalid_request)


def api_versions_response(
    kind: ListenerKind,
    version: int,
    supported: Mapping[str, FeatureRange],
    features: Mapping[str, int],
    kraft_version: int,
    offset: int,
) -> ApiVersionsResponse:
    """The answer of listeners of this kind.

    Args:
        kind: of the listener that was asked.
        version: of the request. Before 4 clients fail on a feature that may be at level 0, and are not told of it (KIP-1022).
        supported: the levels that this node can work at.
        features: the levels that the cluster works at, as the metadata has them; APIs of others are left out.
        kraft_version: of the metadata quorum, which keeps it in records of its own; level 0 is not listed.
        offset: of the metadata that says so, by which clients tell which of two answers is newer.
    """
    finalized = {**features, KRAFT_VERSION: kraft_version} if kraft_version > 0 else features
    return ApiVersionsResponse(
        error_code=ErrorCode.none,
        api_keys=api_version_rows(kind, features),
        throttle_time=NO_THROTTLE,
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=i16(low), max_version=i16(high))
            for name, (low, high) in supported.items()
            if low > 0 or version >= _FIRST_WITH_LEVEL_0
        ),
        finalized_features_epoch=i64(offset),
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=i16(level), min_version_level=i16(level))
            for name, level in finalized.items()
        ),
    )


def handle_at_controller(
    services: ControllerServices, request: Request, message: ApiVersionsRequest
) -> ApiVersionsResponse:
    """Answer from the committed metadata."""
    require_software_name(message, request.api_version)
    image = services.metadata.image
    return api_versions_response(
        ListenerKind.CONTROLLER,
        request.api_version,
        services.features,
        image.features,
        services.raft.kraft_version,
        image.offset,
    )


def handle(services: Services, request: Request, message: ApiVersionsRequest) -> ApiVersionsResponse:
    """Answer from the metadata that this node has applied."""
    require_software_name(message, request.api_version)
    image = services.metadata.image
    return api_versions_response(
        ListenerKind.BROKER,
        request.api_version,
        services.features,
        image.features,
        services.raft.kraft_version,
        image.offset,
    )
