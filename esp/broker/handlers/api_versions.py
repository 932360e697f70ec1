"""ApiVersions (18), versions 0-4: what this node serves, straight from the registry.

A version above ours is answered in the form of version 0 with error 35 and the range of this API alone, from which clients choose again
(KIP-511); the dispatcher does that. ``transaction.version`` is not advertised, so that clients do not count on transactions.
"""

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import (
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kio.static.primitive import i16, i64

from esp.broker.handlers.common import NO_THROTTLE
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.features import SUPPORTED_FEATURES
from esp.model.errors import ErrorCode
from esp.protocol.api_versions import api_version_rows


def handle(services: Services, request: Request, message: ApiVersionsRequest) -> ApiVersionsResponse:
    """Answer with every served API and the cluster's features."""
    image = services.metadata.image
    return ApiVersionsResponse(
        error_code=ErrorCode.none,
        api_keys=api_version_rows(),
        throttle_time=NO_THROTTLE,
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=i16(low), max_version=i16(high))
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ),
        finalized_features_epoch=i64(image.offset),
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=i16(level), min_version_level=i16(level))
            for name, level in image.features.items()
        ),
    )
