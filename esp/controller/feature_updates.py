"""Raising and lowering the levels of features, on an administrator's request (KIP-584). Order of checks and texts are Kafka 4.3's.

A level is taken only if this controller, and every registered controller and broker, can work at it. Kafka's other abilities are refused
here: eligible leader replicas are always kept, so their feature goes up only; and a quorum of static voters stays one. The level of
transactions goes both ways.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from esp.controller.changed_minimums import plan_epochs_of_raised_minimums
from esp.controller.decision import Decision
from esp.controller.features import SUPPORTED_FEATURES
from esp.controller.image import CLUSTER_DEFAULT, MIN_INSYNC_REPLICAS, ClusterImage, FeatureRange
from esp.model.errors import ApiError, ErrorCode
from esp.model.features import ELIGIBLE_LEADER_REPLICAS, KRAFT_VERSION, TRANSACTION_VERSION
from esp.model.ids import NodeId
from esp.schemas.metadata_records import BROKER_RESOURCE, ConfigRecord, FeatureLevelRecord, MetadataRecord

_LOWERED: Final = frozenset((TRANSACTION_VERSION,))
"""The features whose levels go down as well: clients and coordinators go by the level of the moment."""

_UNKNOWN: Final = FeatureRange(0, 0)
"""A node's support of a feature that it does not know."""


class UpgradeType(IntEnum):
    """The changes that an administrator allows, as in UpdateFeatures."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """A feature, the level that it shall have, and the number of an :class:`UpgradeType`, or of none."""

    feature: str
    level: int
    upgrade_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureAuthority:
    """The active controller, as far as it matters for its decisions about features.

    Args:
        node_id: its own.
        kraft_version: of the metadata quorum, which keeps it in records of its own.
        min_insync_replicas: its own setting, for clusters that have no default (ELR-3).
        supported: the levels of features that it can work at.
    """

    node_id: NodeId
    kraft_version: int
    min_insync_replicas: int
    supported: Mapping[str, FeatureRange] = field(default_factory=lambda: SUPPORTED_FEATURES)


def decide_update_features(
    image: ClusterImage, authority: FeatureAuthority, updates: Sequence[FeatureUpdate], *, validate_only: bool
) -> Decision[None]:
    """Change levels, all or none. Of several updates of one feature the last counts.

    Raises:
        ApiError: INVALID_UPDATE_VERSION, with the first update that is not possible.
    """
    records: list[MetadataRecord] = []
    for update in {update.feature: update for update in updates}.values():
        problem = _find_problem(image, authority, update)
        if problem is not None:
            raise ApiError(
                ErrorCode.invalid_update_version,
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.level} for feature {update.feature}. {problem}",
            )
        if update.level != _present_level(image, authority, update.feature):
            low, high = authority.supported[update.feature]
            assert low <= update.level <= high, "a controller raises no level that it cannot work at"
            records.append(FeatureLevelRecord(name=update.feature, feature_level=update.level))
            if update.feature == ELIGIBLE_LEADER_REPLICAS:
                records += _agreement_on_min_isr(image, authority.min_insync_replicas)
    records += plan_epochs_of_raised_minimums(image, records)
    return Decision(() if validate_only else tuple(records), None)


def _find_problem(image: ClusterImage, authority: FeatureAuthority, update: FeatureUpdate) -> str | None:
    feature, level, upgrade_type = update
    if upgrade_type not in UpgradeType.__members__.values():
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    for who, features in _nodes(image, authority):
        supported = features.get(feature, _UNKNOWN)
        if not supported.low <= level <= supported.high:
            if supported.high == 0:
                return f"{who} does not support this feature."
            return f"{who} only supports versions {supported.low}-{supported.high}"
    if feature not in authority.supported:
        return f"Feature {feature} not found."
    present = _present_level(image, authority, feature)
    if level < present:
        if upgrade_type == UpgradeType.UPGRADE:
            return "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
        return None if feature in _LOWERED else "Can't downgrade the version of this feature."
    if level > present:
        if upgrade_type != UpgradeType.UPGRADE:
            return "Can't downgrade to a newer version."
        if feature == KRAFT_VERSION:
            return "Can't upgrade a quorum whose voters are set in controller.quorum.voters."
    return None


def _nodes(image: ClusterImage, authority: FeatureAuthority) -> Iterable[tuple[str, Mapping[str, FeatureRange]]]:
    yield f"Local controller {authority.node_id}", authority.supported
    for controller in image.controllers.values():
        if controller.node_id != authority.node_id:
            yield f"Controller {controller.node_id}", controller.features
    for broker in image.brokers.values():
        yield f"Broker {broker.node_id}", broker.features


def _present_level(image: ClusterImage, authority: FeatureAuthority, feature: str) -> int:
    return authority.kraft_version if feature == KRAFT_VERSION else image.features.get(feature, 0)


def _agreement_on_min_isr(image: ClusterImage, min_insync_replicas: int) -> list[MetadataRecord]:
    """Controller and leaders take ``min.insync.replicas`` from one default, and no broker has its own (ELR-3)."""
    records: list[MetadataRecord] = [
        _setting(name, None)
        for name, configs in image.broker_configs.items()
        if name != CLUSTER_DEFAULT and MIN_INSYNC_REPLICAS in configs
    ]
    if MIN_INSYNC_REPLICAS not in image.broker_configs.get(CLUSTER_DEFAULT, {}):
        records.append(_setting(CLUSTER_DEFAULT, str(min_insync_replicas)))
    return records


def _setting(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=broker, name=MIN_INSYNC_REPLICAS, value=value)
