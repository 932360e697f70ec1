"""The upgrade of a run's nodes from an older release to the newer one, and when each gets it."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Final

from esp.controller.features import SUPPORTED_FEATURES
from esp.controller.image import FeatureRange
from esp.model.features import ELIGIBLE_LEADER_REPLICAS

UPGRADING_SHARE: Final = 0.15
"""The share of all runs with an upgrade."""

NEW_LEVEL: Final = SUPPORTED_FEATURES[ELIGIBLE_LEADER_REPLICAS].high
"""The level of eligible leader replicas in the newer release."""

OLDER_RELEASE: Final[Mapping[str, FeatureRange]] = MappingProxyType(
    {**SUPPORTED_FEATURES, ELIGIBLE_LEADER_REPLICAS: FeatureRange(0, NEW_LEVEL - 1)}
)
"""The features that the older release supports."""


@dataclass(frozen=True, slots=True)
class UpgradeProfile:
    """A rolling upgrade."""

    begin_s: float
    """The time at which the first node gets the newer release, in seconds after the load began."""
    pause_s: float
    """Mean time between two nodes."""
    goes_back_share: float
    """The share of the nodes that get the older release back once, which they may as long as the level is the old one."""

    @classmethod
    def draw(cls, rng: Random) -> "UpgradeProfile | None":
        """An upgrade, or None."""
        if rng.random() >= UPGRADING_SHARE:
            return None
        return cls(rng.uniform(0, 10), rng.choice((0.1, 1.0, 3.0)), rng.choice((0.0, 0.3, 0.6)))
