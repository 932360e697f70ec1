"""Brokers come, serve and go: registration, fencing, controlled shutdown (BRK rules; KIP-631, KIP-966)."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from esp.controller.decision import Decision
from esp.controller.image import BrokerImage, ClusterImage, FeatureRange
from esp.controller.leadership import plan_broker_gone, plan_leaderless
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NO_BROKER_EPOCH, BrokerEpoch, DirectoryId, NodeId
from esp.ports.network import Address
from esp.schemas.metadata_records import (
    FENCE,
    IN_CONTROLLED_SHUTDOWN,
    UNFENCE,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    SupportedFeature,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """What a broker says of itself when it starts.

    ``incarnation_id`` is new with every start of the process. ``previous_broker_epoch`` comes from the clean-shutdown files; -1 if they
    are missing or differ, and the shutdown was unclean or unknown (BRK-2).
    """

    node_id: NodeId
    incarnation_id: uuid.UUID
    endpoints: Mapping[str, Address]
    """By the name of the listener."""
    security_protocols: Mapping[str, int]
    """Kafka's number of each listener's protocol: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""
    features: Mapping[str, FeatureRange]
    rack: str | None
    log_dirs: tuple[DirectoryId, ...]
    previous_broker_epoch: BrokerEpoch = NO_BROKER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistration:
    """What a controller says of itself when it starts."""

    node_id: NodeId
    incarnation_id: uuid.UUID
    endpoints: Mapping[str, Address]
    security_protocols: Mapping[str, int]
    features: Mapping[str, FeatureRange]


def decide_broker_registration(
    image: ClusterImage, registration: BrokerRegistration, next_offset: int
) -> Decision[BrokerEpoch]:
    """Register a broker, fenced; what it said before is replaced.

    The broker leaves every in-sync set first, in the same batch, and after an unclean shutdown every eligible set too (BRK-2). The same
    incarnation is told the epoch that it has (KAFKA-16952).

    An earlier incarnation must be known to be dead (BRK-1 [+]): here the newcomer lives in the controller's own process, and so holds the
    lock of the directories that the earlier one had.

    Args:
        image: the newest state, committed or not.
        registration: what the broker says.
        next_offset: offset of the first record of this decision, which becomes the broker's epoch (BRK-1).

    Raises:
        ApiError: UNSUPPORTED_VERSION, if the broker cannot work at a level that the cluster works at.
    """
    _require_features(image, registration.features)
    existing = image.brokers.get(registration.node_id)
    if existing is not None and existing.incarnation_id == registration.incarnation_id:
        return Decision((), existing.epoch)
    records: list[MetadataRecord] = []
    if existing is not None:
        is_clean = registration.previous_broker_epoch == existing.epoch
        records += plan_broker_gone(image, registration.node_id, unclean=not is_clean)
    epoch = BrokerEpoch(next_offset)
    records.append(
        RegisterBrokerRecord(
            broker_id=registration.node_id,
            is_migrating_zk_broker=False,
            incarnation_id=registration.incarnation_id,
            broker_epoch=epoch,
            end_points=_endpoints(registration.endpoints, registration.security_protocols),
            features=_features(registration.features),
            rack=registration.rack,
            fenced=True,
            in_controlled_shutdown=False,
            log_dirs=registration.log_dirs,
        )
    )
    return Decision(tuple(records), epoch)


def decide_unfence(image: ClusterImage, node_id: NodeId, broker_epoch: BrokerEpoch) -> Decision[None]:
    """Let a broker serve, and elect the leaders that it makes possible.

    The broker has applied the metadata up to its own registration, and its logs are recovered (BRK-5, REC-8).

    Raises:
        ApiError: STALE_BROKER_EPOCH.
    """
    broker = require_broker_epoch(image, node_id, broker_epoch)
    if not broker.fenced:
        return Decision((), None)
    unfence = BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=broker_epoch, fenced=UNFENCE)
    return Decision((unfence, *plan_leaderless(image, node_id)), None)


def decide_controlled_shutdown(image: ClusterImage, node_id: NodeId, broker_epoch: BrokerEpoch) -> Decision[bool]:
    """Move a broker towards its end: it leaves the in-sync sets and gives up what it leads (BRK-7).

    The reply says whether it may stop: a broker that leads nothing is fenced at once; one that leads something is marked first, and may
    stop when it asks again.

    Raises:
        ApiError: STALE_BROKER_EPOCH.
    """
    broker = require_broker_epoch(image, node_id, broker_epoch)
    if broker.fenced:
        return Decision((), True)
    leads = any(partition.leader == node_id for _, partition in image.partitions())
    changes = plan_broker_gone(image, node_id, unclean=False)
    if leads:
        mark = BrokerRegistrationChangeRecord(
            broker_id=node_id, broker_epoch=broker_epoch, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN
        )
        return Decision((mark, *changes), False)
    fence = BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=broker_epoch, fenced=FENCE)
    return Decision((*changes, fence), True)


def decide_controller_registration(registration: ControllerRegistration) -> Decision[None]:
    """Register a controller; what it said before is replaced."""
    record = RegisterControllerRecord(
        controller_id=registration.node_id,
        incarnation_id=registration.incarnation_id,
        zk_migration_ready=False,
        end_points=_endpoints(registration.endpoints, registration.security_protocols),
        features=_features(registration.features),
    )
    return Decision((record,), None)


def require_broker_epoch(image: ClusterImage, node_id: NodeId, broker_epoch: BrokerEpoch) -> BrokerImage:
    """The broker, if it is registered with this epoch.

    Raises:
        ApiError: STALE_BROKER_EPOCH.
    """
    broker = image.brokers.get(node_id)
    if broker is None:
        raise ApiError(ErrorCode.stale_broker_epoch, f"No broker registration found for broker id {node_id}")
    if broker.epoch != broker_epoch:
        raise ApiError(
            ErrorCode.stale_broker_epoch, f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}"
        )
    return broker


def _require_features(image: ClusterImage, features: Mapping[str, FeatureRange]) -> None:
    for name, level in image.features.items():
        low, high = features.get(name, FeatureRange(0, 0))
        if not low <= level <= high:
            raise ApiError(
                ErrorCode.unsupported_version,
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {low} and {high}, inclusive.",
            )


def _endpoints(addresses: Mapping[str, Address], security_protocols: Mapping[str, int]) -> tuple[BrokerEndpoint, ...]:
    return tuple(
        BrokerEndpoint(name=name, host=address.host, port=address.port, security_protocol=security_protocols[name])
        for name, address in addresses.items()
    )


def _features(features: Mapping[str, FeatureRange]) -> tuple[SupportedFeature, ...]:
    return tuple(
        SupportedFeature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in features.items()
    )
