"""The levels of features that this release can work at (KIP-584, KIP-1022)."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from esp.controller.image import FeatureRange
from esp.model.features import (
    ELIGIBLE_LEADER_REPLICAS,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    TRANSACTION_VERSION,
)

SUPPORTED_FEATURES: Final[Mapping[str, FeatureRange]] = MappingProxyType(
    {
        METADATA_VERSION: FeatureRange(30, 30),
        ELIGIBLE_LEADER_REPLICAS: FeatureRange(0, 1),
        KRAFT_VERSION: FeatureRange(0, 1),
        TRANSACTION_VERSION: FeatureRange(0, 2),
        GROUP_VERSION: FeatureRange(0, 1),
        SHARE_VERSION: FeatureRange(0, 2),
    }
)


def find_unsupported(levels: Mapping[str, int], supported: Mapping[str, FeatureRange]) -> Iterable[str]:
    """The features that a cluster works at a level at which a node cannot, each with what the node can, in words."""
    for name, level in levels.items():
        low, high = supported.get(name, FeatureRange(0, 0))
        if not low <= level <= high:
            yield f"{name} is at level {level}, and this release supports {low} to {high}"
