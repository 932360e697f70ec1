"""The registration of brokers and controllers, and the removal of brokers (BRK-1, BRK-2; KIP-631, KIP-966).

A broker is not removed if it holds the last copy of a partition that is known to be complete, so that records would be lost (BRK-10).
"""

import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from esp.controller.decision import SLICE_CHANGES_MAX, Decision
from esp.controller.image import CLUSTER_DEFAULT, BrokerImage, ClusterImage, FeatureRange
from esp.controller.leadership import plan_broker_gone
from esp.controller.sliced_changes import Partitions, SlicedChanges
from esp.model.errors import ApiError, ErrorCode
from esp.model.features import METADATA_VERSION
from esp.model.ids import (
    NO_BROKER_EPOCH,
    RESERVED_DIRECTORIES,
    BrokerEpoch,
    DirectoryId,
    NodeId,
    TopicPartition,
    uuid_to_base64,
)
from esp.model.partition import PartitionState
from esp.ports.network import Address
from esp.schemas.metadata_records import (
    BROKER_RESOURCE,
    BrokerEndpoint,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    SupportedFeature,
    UnregisterBrokerRecord,
)
from esp.settings.rebalance import DRAINING, REMOVAL_FORCED

log = logging.getLogger(__name__)


_SHOWN_MAX: Final = 10
"""Partitions that a refusal names; the rest it counts."""


def partitions_last_on(image: ClusterImage, node_id: NodeId) -> Iterator[TopicPartition]:
    """The partitions of which only this broker has a complete copy, whether it is alive or not."""
    for topic, state in image.partitions():
        if is_last_copy(state, node_id):
            yield TopicPartition(topic.name, state.partition)


def trashed_last_on(image: ClusterImage, node_id: NodeId) -> Iterator[TopicPartition]:
    """The partitions of topics in the trash of which only this one of the registered brokers has a complete log."""
    for trashed in image.trashed_topics.values():
        for state in trashed.topic.partitions:
            if complete_copies(state) & image.brokers.keys() == {node_id}:
                yield TopicPartition(trashed.topic.name, state.partition)


def is_last_copy(state: PartitionState, node_id: NodeId) -> bool:
    """True if only this broker has a complete copy of a partition."""
    return len(state.isr) < 2 and complete_copies(state) == {node_id}  # no set is made for most of very many partitions


def complete_copies(state: PartitionState) -> set[NodeId]:
    """The replicas with every committed record, as far as known (ELR-2); if there are none, the last-known leader, which has most."""
    return {*state.isr, *state.elr} or set(state.last_known_elr)


def forced_removals(image: ClusterImage) -> tuple[str, ...]:
    """The ids of brokers whose removal is forced, whatever records are lost: the value of ``broker.removal.forced`` of all brokers."""
    text = image.broker_configs.get(CLUSTER_DEFAULT, {}).get(REMOVAL_FORCED, "")
    return tuple(part.strip() for part in text.split(",") if part.strip())


def listed(partitions: list[TopicPartition]) -> str:
    """Partitions in a message, not too many."""
    names = ", ".join(map(str, partitions[:_SHOWN_MAX]))
    return names if len(partitions) <= _SHOWN_MAX else f"{names} and {len(partitions) - _SHOWN_MAX} more"


PROTOCOL_NUMBERS: Final = MappingProxyType({"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3})
"""Kafka's number of each security protocol."""


def protocol_numbers(listeners: Iterable[str], protocols: Mapping[str, str]) -> dict[str, int]:
    """Return the numbers of the protocols that a node's listeners speak, by the listeners' names.

    Args:
        listeners: the names.
        protocols: the protocol of each, by its name; one that is missing speaks PLAINTEXT.
    """
    return {name: PROTOCOL_NUMBERS[protocols.get(name, "PLAINTEXT")] for name in listeners}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A broker's registration when it starts.

    ``incarnation_id`` is new with every start of the process. ``previous_broker_epoch`` comes from the clean-shutdown files; -1 if they
    are missing or differ, and the shutdown was unclean or unknown (BRK-2).
    """

    node_id: NodeId
    cluster_id: str
    """The cluster id that its data directories hold."""
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
    """A controller's registration when it starts."""

    node_id: NodeId
    incarnation_id: uuid.UUID
    endpoints: Mapping[str, Address]
    security_protocols: Mapping[str, int]
    features: Mapping[str, FeatureRange]


def departures_of(registration: BrokerRegistration, changes_max: int | None = SLICE_CHANGES_MAX) -> SlicedChanges:
    """The way of a broker out of the sets that it was in before it registers.

    Args:
        registration: the broker's request.
        changes_max: the most partitions that a slice changes; None for one slice of any size.
    """
    node_id = registration.node_id

    def plan(image: ClusterImage, partitions: Partitions) -> Iterator[PartitionChangeRecord]:
        is_clean = registration.previous_broker_epoch == image.brokers[node_id].epoch
        return plan_broker_gone(image, node_id, unclean=not is_clean, partitions=partitions)

    return SlicedChanges(plan, changes_max)


def decide_broker_registration(
    image: ClusterImage,
    registration: BrokerRegistration,
    next_offset: int,
    *,
    has_session: bool = False,
    is_connected: bool = False,
    departures: SlicedChanges | None = None,
) -> Decision[BrokerEpoch]:
    """Register a broker, fenced; its former registration is replaced.

    The broker leaves every in-sync set first, and after an unclean shutdown every eligible set too (BRK-2): in the same batch, or in slices
    before it, whose reply is NO_BROKER_EPOCH. The same incarnation gets the epoch that it has already (KAFKA-16952).

    Args:
        image: the newest state, committed or not.
        registration: the broker's request.
        next_offset: offset of the first record of this slice, which becomes the broker's epoch if it is the last one (BRK-1).
        has_session: whether the registered incarnation has a live session and is not known to be dead.
        is_connected: whether the connection of its last heartbeat is open.
        departures: made for all slices of this decision by :func:`departures_of`; without them there is one slice.

    Raises:
        ApiError: DUPLICATE_BROKER_REGISTRATION, if another incarnation lives; INVALID_REGISTRATION, if its directories cannot be its own;
            UNSUPPORTED_VERSION, if it cannot work at a level that the cluster works at.
    """
    existing = image.brokers.get(registration.node_id)
    if has_session and existing is not None and is_duplicate(existing, registration, is_connected=is_connected):
        raise ApiError(
            ErrorCode.duplicate_broker_registration,
            "Another broker is registered with that broker id. If the broker was recently restarted this should self-resolve once the "
            "heartbeat manager expires the broker's session.",
        )
    _require_directories(image, registration)
    _require_features(image, registration.features)
    if existing is not None and existing.incarnation_id == registration.incarnation_id:
        return Decision((), existing.epoch)
    records: list[MetadataRecord] = []
    if existing is not None:
        changes, is_complete = (departures or departures_of(registration, None)).next(image)
        if not is_complete:
            return Decision(tuple(changes), NO_BROKER_EPOCH)
        records += changes
    epoch = BrokerEpoch(next_offset)
    assert existing is None or epoch > existing.epoch, "each registration has a greater epoch (BRK-1)"
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


def is_duplicate(existing: BrokerImage, registration: BrokerRegistration, *, is_connected: bool) -> bool:
    """True if two living processes may claim one id: another incarnation is registered, and the newcomer cannot have taken its place.

    An incarnation in controlled shutdown gives way, as in Kafka. Beyond Kafka, so does an incarnation whose directory and addresses the
    newcomer has, once the connection of its last heartbeat has ended: its kernel has closed it with the process (BRK-1). Directory and
    addresses alone prove nothing: a copy of the directory has the same id, and two hosts, containers or forwarded ports may go by one
    address.
    """
    if existing.incarnation_id == registration.incarnation_id or existing.in_controlled_shutdown:
        return False
    has_its_directory = not set(existing.log_dirs).isdisjoint(registration.log_dirs)
    return is_connected or not (has_its_directory and existing.endpoints == registration.endpoints)


def decide_unregister_broker(
    image: ClusterImage, node_id: NodeId, changes_max: int | None = SLICE_CHANGES_MAX
) -> Decision[None]:
    """Forget a broker; it leaves all in-sync sets, and the eligible ones too, since it may never come back.

    That it was to be emptied, or forced out, is forgotten with it: a broker that gets its id later begins without.

    It is forgotten in the last slice. No slice before that touches a partition of which the broker has the last copy by then: the last one
    is refused for it, as the first would have been (BRK-10).

    Args:
        image: the newest state, committed or not.
        node_id: the broker.
        changes_max: the most partitions that a slice changes; None for one slice of any size.

    Raises:
        ApiError: BROKER_ID_NOT_REGISTERED, by a later slice too: another request was faster; POLICY_VIOLATION, if the last complete copy of
            a partition would go with it (BRK-10); and by a later slice STALE_BROKER_EPOCH: it has registered anew.
    """
    epoch = _require_registered(image, node_id).epoch
    lost = _check_last_copies(image, node_id)
    if lost is not None:
        log.warning("broker %d is unregistered by force, and with it is lost %s", node_id, lost)

    def plan(image: ClusterImage, partitions: Partitions) -> Iterator[PartitionChangeRecord]:
        if str(node_id) not in forced_removals(image):
            partitions = ((topic, state) for topic, state in partitions if not is_last_copy(state, node_id))
        return plan_broker_gone(image, node_id, unclean=True, partitions=partitions)

    departures, checked = SlicedChanges(plan, changes_max), image

    def leave(image: ClusterImage) -> Decision[None]:
        _require_registered(image, node_id)
        require_broker_epoch(image, node_id, epoch)
        changes, is_complete = departures.next(image)
        if not is_complete:
            return Decision(tuple(changes), None, leave)
        if image is not checked:
            _check_last_copies(image, node_id)
        forgotten = UnregisterBrokerRecord(broker_id=node_id, broker_epoch=epoch)
        return Decision((*changes, *_settings_that_go_with(image, node_id), forgotten), None)

    return leave(image)


def decide_controller_registration(registration: ControllerRegistration) -> Decision[None]:
    """Register a controller; its former registration is replaced."""
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
    assert broker is None or broker.node_id == node_id, "brokers stand under their ids"
    if broker is None:
        raise ApiError(ErrorCode.stale_broker_epoch, f"No broker registration found for broker id {node_id}")
    if broker.epoch != broker_epoch:
        raise ApiError(
            ErrorCode.stale_broker_epoch, f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}"
        )
    return broker


def _require_registered(image: ClusterImage, node_id: NodeId) -> BrokerImage:
    broker = image.brokers.get(node_id)
    if broker is None:
        raise ApiError(ErrorCode.broker_id_not_registered, f"Broker ID {node_id} is not currently registered")
    return broker


def _check_last_copies(image: ClusterImage, node_id: NodeId) -> str | None:
    """BRK-10: raise if records would be lost with a broker that is not forced out; of one that is, return what is lost, if anything."""
    lost, trashed = list(partitions_last_on(image, node_id)), list(trashed_last_on(image, node_id))
    if not lost and not trashed:
        return None
    parts = [f"the last complete copy of {len(lost)} partition(s): {listed(lost)}"] if lost else []
    if trashed:
        parts.append(f"the last complete log of {len(trashed)} partition(s) in the trash: {listed(trashed)}")
    held = ", and ".join(parts)
    if str(node_id) in forced_removals(image):
        return held
    raise ApiError(
        ErrorCode.policy_violation,
        f"Broker {node_id} holds {held}. Start it again and move them away (restore or purge topics in the trash), or give them up: set "
        f"{REMOVAL_FORCED}={node_id} for all brokers, and ask again.",
    )


def _settings_that_go_with(image: ClusterImage, node_id: NodeId) -> Iterator[ConfigRecord]:
    if DRAINING in image.broker_configs.get(str(node_id), {}):
        yield ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=str(node_id), name=DRAINING, value=None)
    forced = forced_removals(image)
    if str(node_id) in forced:
        others = ",".join(each for each in forced if each != str(node_id))
        yield ConfigRecord(
            resource_type=BROKER_RESOURCE, resource_name=CLUSTER_DEFAULT, name=REMOVAL_FORCED, value=others or None
        )


def _require_directories(image: ClusterImage, registration: BrokerRegistration) -> None:
    problem = None
    if not registration.log_dirs:
        problem = "No directories specified in request"
    elif any(directory.int < RESERVED_DIRECTORIES for directory in registration.log_dirs):
        problem = "Reserved directory ID in request"
    elif len(set(registration.log_dirs)) != len(registration.log_dirs):
        problem = "Duplicate directory ID in request"
    else:
        for broker in image.brokers.values():
            for directory in broker.log_dirs if broker.node_id != registration.node_id else ():
                if directory in registration.log_dirs:
                    problem = (
                        f"Broker {broker.node_id} is already registered with directory {uuid_to_base64(directory)}"
                    )
    if problem is not None:
        raise ApiError(ErrorCode.invalid_registration, problem)


def _require_features(image: ClusterImage, features: Mapping[str, FeatureRange]) -> None:
    if METADATA_VERSION not in features:
        raise ApiError(
            ErrorCode.invalid_registration, f"The broker does not state its supported versions of {METADATA_VERSION}"
        )
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
