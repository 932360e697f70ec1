"""Changes to settings of topics, brokers, groups and client metrics. Rules, error codes and texts are those of Kafka 4.3's controller."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from esp.controller.changed_minimums import plan_epochs_of_raised_minimums, plan_kept_candidates
from esp.controller.decision import Decision
from esp.controller.image import CLUSTER_DEFAULT, MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION, ClusterImage
from esp.controller.topics import CONFIG_VALUE_LENGTH_MAX
from esp.model.errors import ApiError, ErrorCode
from esp.model.features import ELIGIBLE_LEADER_REPLICAS
from esp.model.ids import NodeId
from esp.schemas.metadata_records import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClearElrRecord,
    ConfigRecord,
    MetadataRecord,
)
from esp.settings.throttled_replicas import REPAIRED_REPLICAS

BROKER_LOGGER: Final = 8
"""The type of the resource that is a node's loggers: their levels are in no metadata log."""

_NONE: Final[Mapping[str, str]] = {}


class Operation(IntEnum):
    """The operation on a setting, by its number in IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    """The entries are added to the list that counts now, except entries that it has already."""
    SUBTRACT = 3
    """The entries are taken out of the list that counts now."""


class ConfigResource(NamedTuple):
    """The owner of settings: its type as in ConfigRecord, and its name; that of all brokers is empty."""

    type: int
    name: str


class ConfigOperation(NamedTuple):
    """A change of one setting; only of DELETE may the value be None."""

    name: str
    operation: Operation
    value: str | None


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of one resource's settings.

    Attributes:
        resource: the owner of the settings.
        operations: at most one for each setting.
        replaces_all: whether settings that are not named go back to their default (AlterConfigs).
    """

    resource: ConfigResource
    operations: tuple[ConfigOperation, ...]
    replaces_all: bool = False


class Rules(Protocol):
    """The part of :class:`esp.controller.config_rules.ConfigRules` that is used here."""

    def is_list(self, resource_type: int, name: str) -> bool:
        """True if a setting takes a list."""

    def default(self, resource_type: int, name: str) -> str:
        """The list that counts where the resource has none of its own."""

    def validate(
        self, resource_type: int, resource_name: str, configs: Mapping[str, str], changed: Sequence[str]
    ) -> None:
        """Raise ApiError if a resource may not have these settings."""


def names_unclean_election(change: ConfigChange) -> bool:
    """True if a change may give a leader to partitions that could not have one before (ELECT-1.5)."""
    return change.replaces_all or any(operation.name == UNCLEAN_LEADER_ELECTION for operation in change.operations)


def configs_of(image: ClusterImage, resource: ConfigResource) -> Mapping[str, str]:
    """The settings that were given to a resource; none if it is not there."""
    if resource.type == TOPIC_RESOURCE:
        topic = image.topics_by_name.get(resource.name)
        return _NONE if topic is None else topic.configs
    if resource.type == BROKER_RESOURCE:
        return image.broker_configs.get(resource.name, _NONE)
    if resource.type == GROUP_RESOURCE:
        return image.group_configs.get(resource.name, _NONE)
    if resource.type == CLIENT_METRICS_RESOURCE:
        return image.client_metrics_configs.get(resource.name, _NONE)
    return _NONE


def apply_operations(
    current: Mapping[str, str], change: ConfigChange, default: Callable[[str], str]
) -> dict[str, str | None]:
    """The settings that a change touches with their new values; None for settings that are removed.

    Args:
        current: the resource's present settings.
        change: the change to make; it appends to lists only.
        default: the list that counts where the resource has none.
    """
    touched: dict[str, str | None] = {}
    if change.replaces_all:
        touched.update(dict.fromkeys(name for name in current if name != REPAIRED_REPLICAS))  # no client may set it
    for name, operation, value in change.operations:
        if operation is Operation.DELETE:
            touched[name] = None
            continue
        assert value is not None, "only a deletion goes without a value"
        if operation is Operation.SET:
            touched[name] = value
            continue
        text = current.get(name, default(name)).strip()
        parts = [part.strip() for part in text.split(",")] if text else []
        for part in value.split(","):
            if operation is Operation.APPEND and part not in parts:
                parts.append(part)
            elif operation is Operation.SUBTRACT and part in parts:
                parts.remove(part)
        touched[name] = ",".join(parts)
    return touched


def decide_alter_configs(
    image: ClusterImage, changes: Sequence[ConfigChange], rules: Rules, *, validate_only: bool
) -> Decision[list[ApiError | None]]:
    """Change settings; the reply says for each change, in that order, why it cannot be made, or None.

    With a new ``min.insync.replicas`` goes a record that clears the eligible leader replicas that rest on the old one (ELR-3), with records
    that bring back those that stay complete; with a greater one, also a record for each partition that it counts for
    (:mod:`esp.controller.changed_minimums`). That of a single broker counts for no partition.

    Args:
        image: the newest state, committed or not.
        changes: each of another resource.
        rules: the rules of settings.
        validate_only: whether nothing is to be changed.
    """
    records: list[MetadataRecord] = []
    reply: list[ApiError | None] = []
    for change in changes:
        try:
            records += _change(image, change, rules)
            reply.append(None)
        except ApiError as error:
            reply.append(error)
    assert len(reply) == len(changes), "each resource is answered"
    records += plan_kept_candidates(image, records)
    records += plan_epochs_of_raised_minimums(image, records)
    return Decision(() if validate_only else tuple(records), reply)


def _change(image: ClusterImage, change: ConfigChange, rules: Rules) -> list[MetadataRecord]:
    kind, resource_name = change.resource
    for operation in change.operations:
        if operation.operation in (Operation.APPEND, Operation.SUBTRACT) and not rules.is_list(kind, operation.name):
            raise ApiError(
                ErrorCode.invalid_config,
                f"Can't {operation.operation.name} to key {operation.name} because its type is not LIST.",
            )
    current = configs_of(image, change.resource)
    touched = apply_operations(current, change, lambda name: rules.default(kind, name))
    # Brokers get a record though nothing changes: so one makes them read anew what a setting points to (KAFKA-14136).
    fresh = {name: value for name, value in touched.items() if kind == BROKER_RESOURCE or current.get(name) != value}
    _check_min_insync_replicas(image, change.resource, fresh)
    if any(value is not None and len(value) > CONFIG_VALUE_LENGTH_MAX for value in fresh.values()):
        raise ApiError(
            ErrorCode.invalid_config,
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{CONFIG_VALUE_LENGTH_MAX} bytes.",
        )
    left = {name: value for name, value in {**current, **fresh}.items() if value is not None}
    rules.validate(kind, resource_name, left, [name for name, value in fresh.items() if value is not None])
    _require_resource(image, change.resource)
    records: list[MetadataRecord] = [
        ConfigRecord(resource_type=kind, resource_name=resource_name, name=name, value=value)
        for name, value in fresh.items()
        if value is not None or name in current
    ]
    sets_minimum = kind == TOPIC_RESOURCE or change.resource == (BROKER_RESOURCE, CLUSTER_DEFAULT)
    if sets_minimum and current.get(MIN_INSYNC_REPLICAS) != left.get(MIN_INSYNC_REPLICAS):
        records.append(ClearElrRecord(topic_name=resource_name if kind == TOPIC_RESOURCE else ""))
    return records


def _check_min_insync_replicas(image: ClusterImage, resource: ConfigResource, fresh: Mapping[str, str | None]) -> None:
    """Leaders and controller agree on it because it stands in the metadata, for all brokers alike (ELR-3)."""
    if resource.type != BROKER_RESOURCE or MIN_INSYNC_REPLICAS not in fresh:
        return
    if not image.features.get(ELIGIBLE_LEADER_REPLICAS):
        return
    if resource.name != CLUSTER_DEFAULT:
        raise ApiError(
            ErrorCode.invalid_config,
            f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled.",
        )
    if fresh[MIN_INSYNC_REPLICAS] is None:
        raise ApiError(
            ErrorCode.invalid_config,
            f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled.",
        )


def _require_resource(image: ClusterImage, resource: ConfigResource) -> None:
    if resource.type == TOPIC_RESOURCE and resource.name not in image.topics_by_name:
        raise ApiError(ErrorCode.unknown_topic_or_partition, f"The topic '{resource.name}' does not exist.")
    if resource.type == BROKER_RESOURCE and resource.name != CLUSTER_DEFAULT:
        node_id = NodeId(int(resource.name))
        if node_id not in image.brokers and node_id not in image.controllers:
            raise ApiError(ErrorCode.broker_id_not_registered, f"No node with id {node_id} found.")
