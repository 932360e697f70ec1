"""UpdateFeatures (57) between its versions: 0 says less of what is allowed, 0 and 1 answer each feature for itself (KIP-584)."""

from kio.schema.update_features.v0.request import UpdateFeaturesRequest as RequestOf0
from kio.schema.update_features.v1.response import UpdatableFeatureResult
from kio.schema.update_features.v1.response import UpdateFeaturesResponse as ResponseUpTo1
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.schema.update_features.v2.response import UpdateFeaturesResponse
from kio.static.primitive import i8

from esp.controller.feature_updates import UpgradeType
from esp.model.errors import ErrorCode

AnyUpdateFeaturesRequest = UpdateFeaturesRequest | RequestOf0

_ALL_AT_ONCE_FROM = 2


def wanted_updates(message: AnyUpdateFeaturesRequest) -> UpdateFeaturesRequest:
    """What a request asks for; one of version 0 for upgrades only, whatever it allows, as in Kafka 4.3."""
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
