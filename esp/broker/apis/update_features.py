"""UpdateFeatures (57), versions 0-2: the active controller decides (KIP-584).

A broker passes the request on, and its answer waits until this node reports the new levels. Version 0 says less of what is allowed;
versions 0 and 1 answer each feature for itself.
"""

from kio.schema.update_features.v0.request import UpdateFeaturesRequest as RequestOf0
from kio.schema.update_features.v1.response import UpdatableFeatureResult
from kio.schema.update_features.v1.response import UpdateFeaturesResponse as ResponseUpTo1
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.schema.update_features.v2.response import UpdateFeaturesResponse
from kio.static.primitive import i8

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.controller.services import ControllerServices
from esp.broker.forwarding import check_whole, forward, until_applied
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.feature_updates import FeatureAuthority, FeatureUpdate, UpgradeType, decide_update_features
from esp.model.errors import ErrorCode
from esp.model.features import KRAFT_VERSION
from esp.protocol.registry import ApiKey

AnyUpdateFeaturesRequest = UpdateFeaturesRequest | RequestOf0

_ALL_AT_ONCE_FROM = 2


def wanted_updates(message: AnyUpdateFeaturesRequest) -> UpdateFeaturesRequest:
    """The updates that a request asks for; one of version 0 for upgrades only, whatever it allows, as in Kafka 4.3."""
    if isinstance(message, UpdateFeaturesRequest):
        return message
    return UpdateFeaturesRequest(
        timeout=message.timeout,
        feature_updates=tuple(
            FeatureUpdateKey(
                feature=update.feature,
                max_version_level=update.max_version_level,
                upgrade_type=i8(UpgradeType.UPGRADE),
            )
            for update in message.feature_updates
        ),
    )


def answer_in_version(
    answer: UpdateFeaturesResponse, wanted: UpdateFeaturesRequest, version: int
) -> UpdateFeaturesResponse | ResponseUpTo1:
    """The answer for a client that asked in this version; in old ones all features are named if all are well, as in Kafka 4.3."""
    if version >= _ALL_AT_ONCE_FROM:
        return answer
    return ResponseUpTo1(
        throttle_time=answer.throttle_time,
        error_code=answer.error_code,
        error_message=answer.error_message,
        results=tuple(
            UpdatableFeatureResult(feature=update.feature, error_code=ErrorCode.none, error_message="NONE")
            for update in wanted.feature_updates
            if answer.error_code is ErrorCode.none
        ),
    )


async def handle_at_controller(
    services: ControllerServices, request: Request, message: AnyUpdateFeaturesRequest
) -> UpdateFeaturesResponse | ResponseUpTo1:
    """All levels that are asked for, or none."""
    wanted = wanted_updates(message)
    updates = [
        FeatureUpdate(update.feature, update.max_version_level, update.upgrade_type)
        for update in wanted.feature_updates
    ]
    config = services.controller.config
    authority = FeatureAuthority(
        node_id=config.node_id,
        kraft_version=services.raft.kraft_version,
        min_insync_replicas=config.min_insync_replicas,
        supported=services.features,
    )
    await services.controller.commit(
        lambda image: decide_update_features(image, authority, updates, validate_only=wanted.validate_only),
        "Feature update",
    )
    answer = UpdateFeaturesResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None)
    return answer_in_version(answer, wanted, request.api_version)


async def handle(
    services: Services, request: Request, message: AnyUpdateFeaturesRequest
) -> UpdateFeaturesResponse | ResponseUpTo1:
    """Pass the controller's answer on once this node follows."""
    check_whole(message.feature_updates)
    wanted = wanted_updates(message)
    answer: UpdateFeaturesResponse = await forward(services, request, ApiKey.UPDATE_FEATURES, wanted)
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
