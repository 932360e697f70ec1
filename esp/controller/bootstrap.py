"""The first records of a new cluster."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from esp.controller.features import SUPPORTED_FEATURES
from esp.controller.image import CLUSTER_DEFAULT, MIN_INSYNC_REPLICAS, FeatureRange
from esp.model.features import (
    ELIGIBLE_LEADER_REPLICAS,
    GROUP_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    TRANSACTION_VERSION,
)
from esp.schemas.metadata_records import (
    BROKER_RESOURCE,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    UserScramCredentialRecord,
)

FIRST_LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    {METADATA_VERSION: 30, ELIGIBLE_LEADER_REPLICAS: 1, TRANSACTION_VERSION: 2, GROUP_VERSION: 1, SHARE_VERSION: 1}
)
"""The levels of a new cluster unless its operator says otherwise; others begin at 0. UpdateFeatures raises them later."""


class FirstMetadata(NamedTuple):
    """The part of a new cluster's metadata that its operator decides when directories are formatted."""

    levels: Mapping[str, int] = FIRST_LEVELS
    """Levels of features, in place of FIRST_LEVELS."""
    credentials: tuple[UserScramCredentialRecord, ...] = ()
    """Users that may log in from the start: brokers among themselves, an administrator."""


FIRST_METADATA: Final = FirstMetadata()
"""The metadata of a new cluster unless its operator says otherwise."""


def feature_records(levels: Mapping[str, int]) -> tuple[FeatureLevelRecord, ...]:
    """The records of the levels that a new cluster begins with; level 0 has none.

    Args:
        levels: the operator's, in place of FIRST_LEVELS.
    """
    return tuple(
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in {**FIRST_LEVELS, **levels}.items()
        if level > 0
    )


def bootstrap_records(
    min_insync_replicas: int,
    supported: Mapping[str, FeatureRange] = SUPPORTED_FEATURES,
    first: FirstMetadata = FIRST_METADATA,
) -> tuple[MetadataRecord, ...]:
    """The records by which the first active controller of a cluster begins.

    With eligible leader replicas on, controller and leaders must agree on ``min.insync.replicas``: so the controller's own value is written
    down as the default of all brokers (ELR-3). A feature whose level the controller does not support gets the highest that it supports. One
    that it does not have gets none: ``kafka-storage format`` writes all features of its release down.

    Args:
        min_insync_replicas: the controller's own.
        supported: the levels that the controller can work at.
        first: the operator's choices.
    """
    known = {
        name: min(level, supported[name].high)
        for name, level in {**FIRST_LEVELS, **first.levels}.items()
        if name in supported
    }
    return (
        BeginTransactionRecord(name="Bootstrap records"),
        *feature_records(known),
        *first.credentials,
        ConfigRecord(
            resource_type=BROKER_RESOURCE,
            resource_name=CLUSTER_DEFAULT,
            name=MIN_INSYNC_REPLICAS,
            value=str(min_insync_replicas),
        ),
        EndTransactionRecord(),
    )
