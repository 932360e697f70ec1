"""UpdateFeatures (57), versions 0-2, at the controller (KIP-584)."""

from kio.schema.update_features.v1.response import UpdateFeaturesResponse as ResponseUpTo1
from kio.schema.update_features.v2.response import UpdateFeaturesResponse

from esp.broker.any_listener.common import NO_THROTTLE
from esp.broker.any_listener.feature_messages import AnyUpdateFeaturesRequest, answer_in_version, wanted_updates
from esp.broker.connections.request import Request
from esp.broker.controller.services import ControllerServices
from esp.controller.feature_updates import FeatureUpdate
from esp.model.errors import ErrorCode


async def handle(
    services: ControllerServices, request: Request, message: AnyUpdateFeaturesRequest
) -> UpdateFeaturesResponse | ResponseUpTo1:
    """All levels that are asked for, or none."""
    wanted = wanted_updates(message)
    updates = [
        FeatureUpdate(update.feature, update.max_version_level, update.upgrade_type)
        for update in wanted.feature_updates
    ]
    await services.controller.update_features(updates, services.raft.kraft_version, validate_only=wanted.validate_only)
    answer = UpdateFeaturesResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None)
    return answer_in_version(answer, wanted, request.api_version)
