"""UpdateFeatures (57), versions 0-2: passed on to the active controller; the answer waits until this node tells of the new levels."""

from kio.schema.update_features.v1.response import UpdateFeaturesResponse as ResponseUpTo1
from kio.schema.update_features.v2.response import UpdateFeaturesResponse

from esp.broker.any_listener.feature_messages import AnyUpdateFeaturesRequest, answer_in_version, wanted_updates
from esp.broker.connections.request import Request
from esp.broker.forwarding import check_whole, forward, until_applied
from esp.broker.services import Services
from esp.controller.features import KRAFT_VERSION
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey


async def handle(
    services: Services, request: Request, message: AnyUpdateFeaturesRequest
) -> UpdateFeaturesResponse | ResponseUpTo1:
    """Pass the controller's answer on once this node follows."""
    check_whole(message.feature_updates)
    wanted = wanted_updates(message)
    answer: UpdateFeaturesResponse = await forward(services, ApiKey.UPDATE_FEATURES, wanted)
    if answer.error_code is ErrorCode.none and not wanted.validate_only:
        levels = {
            update.feature: update.max_version_level
            for update in wanted.feature_updates
            if update.feature != KRAFT_VERSION
        }
        await until_applied(
            services,
            lambda image: all(image.features.get(feature, 0) == level for feature, level in levels.items()),
            message.timeout,
        )
    return answer_in_version(answer, wanted, request.api_version)
