"""The first records of a new cluster."""

from collections.abc import Mapping
from typing import Final

from esp.controller.features import ELIGIBLE_LEADER_REPLICAS, METADATA_VERSION, SUPPORTED_FEATURES
from esp.controller.image import CLUSTER_DEFAULT, MIN_INSYNC_REPLICAS, FeatureRange
from esp.schemas.metadata_records import (
    BROKER_RESOURCE,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
)

FEATURE_RECORDS: Final = (
    FeatureLevelRecord(name=METADATA_VERSION, feature_level=30),
    FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=1),
)
"""Only served features are switched on; UpdateFeatures raises levels later."""


def bootstrap_records(
    min_insync_replicas: int, supported: Mapping[str, FeatureRange] = SUPPORTED_FEATURES
) -> tuple[MetadataRecord, ...]:
    """The records by which the first active controller of a cluster begins.

    With eligible leader replicas on, controller and leaders must agree on ``min.insync.replicas``: so the controller's own value is written
    down as the default of all brokers (ELR-3). A feature whose level the controller does not support gets the highest that it supports.
    """
    levels = (
        FeatureLevelRecord(name=record.name, feature_level=min(record.feature_level, supported[record.name].high))
        for record in FEATURE_RECORDS
    )
    return (
        BeginTransactionRecord(name="Bootstrap records"),
        *(record for record in levels if record.feature_level > 0),
        ConfigRecord(
            resource_type=BROKER_RESOURCE,
            resource_name=CLUSTER_DEFAULT,
            name=MIN_INSYNC_REPLICAS,
            value=str(min_insync_replicas),
        ),
        EndTransactionRecord(),
    )
