"""The checks that a broker itself makes of a request to change settings, before it calls the controller: Kafka's ``ConfigAdminManager``.

Settings of brokers are checked here because they rest on the node's own file; levels of loggers concern this process alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from esp.broker.configs.logger_levels import change_logger_levels, validate_logger_changes
from esp.controller.config_rules import ConfigRules
from esp.controller.configs import (
    BROKER_LOGGER,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    Operation,
    apply_operations,
)
from esp.controller.image import CLUSTER_DEFAULT
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId
from esp.schemas.metadata_records import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from esp.settings.broker import BrokerSettings
from esp.settings.dynamic import DYNAMIC_ONLY, validate_broker_changes
from esp.settings.known import known_settings
from esp.settings.setting import find_integer


def duplicates(changes: Sequence[ConfigChange]) -> frozenset[ConfigResource]:
    """The resources that are named more than once."""
    often = Counter(change.resource for change in changes)
    return frozenset(resource for resource, count in often.items() if count > 1)


def check_form(change: ConfigChange) -> None:
    """Check what can be seen without knowing any setting.

    Raises:
        ApiError: INVALID_REQUEST: a setting is named twice, or has no value where it needs one.
    """
    names = [operation.name for operation in change.operations]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.invalid_request, "Error due to duplicate config keys")
    nulls = [
        name for name, operation, value in change.operations if value is None and operation is not Operation.DELETE
    ]
    if nulls:
        raise ApiError(ErrorCode.invalid_request, f"Null value not supported for : {', '.join(nulls)}")


class ConfigChecks:
    """Checks one request.

    Args:
        node_id: of this node.
        given: what its file gave it.
        broker_configs: what the metadata gives brokers.
    """

    def __init__(self, node_id: NodeId, given: BrokerSettings, broker_configs: Mapping[str, Mapping[str, str]]) -> None:
        self._node_id = node_id
        self._given = given
        self._broker_configs = broker_configs
        self._rules = ConfigRules(given)

    def take(self, change: ConfigChange, *, validate_only: bool) -> bool:
        """Check one change; if it is one of this node's loggers, make it. Says whether the controller is to be asked.

        Raises:
            ApiError: it is refused.
        """
        check_form(change)
        kind, resource_name = change.resource
        if kind == BROKER_LOGGER and not change.replaces_all:
            self.change_loggers(change, validate_only=validate_only)
            return False
        if kind == BROKER_RESOURCE:
            if resource_name != CLUSTER_DEFAULT:
                self._require_this_node(resource_name, "Unexpected broker id, expected {}, but received {}")
            self._check_broker(change)
        elif kind not in (TOPIC_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE):
            raise ApiError(ErrorCode.invalid_request, f"Unknown resource type {kind}")
        return True

    def change_loggers(self, change: ConfigChange, *, validate_only: bool) -> None:
        """Check, and make, a change of this node's loggers.

        Raises:
            ApiError: it is refused.
        """
        self._require_this_node(change.resource.name, "Unexpected node id. Expected {}, but received {}")
        validate_logger_changes(change.operations)
        if not validate_only:
            change_logger_levels(change.operations)

    def _require_this_node(self, name: str, problem: str) -> None:
        number = find_integer(name)
        if number is None:
            raise ApiError(ErrorCode.invalid_request, f"Node id must be an integer, but it is: {name}")
        if number != self._node_id:
            raise ApiError(ErrorCode.invalid_request, problem.format(self._node_id, number))

    def _check_broker(self, change: ConfigChange) -> None:
        for operation in change.operations:
            self._check_operation(operation)
        current = self._broker_configs.get(change.resource.name, {})
        touched = apply_operations(current, change, lambda name: self._rules.default(BROKER_RESOURCE, name))
        validate_broker_changes(
            {name: value for name, value in touched.items() if value is not None},
            self._given,
            for_all=change.resource.name == CLUSTER_DEFAULT,
            in_effect=self._in_effect,
        )

    def _check_operation(self, operation: ConfigOperation) -> None:
        name = operation.name
        if operation.operation not in (Operation.APPEND, Operation.SUBTRACT):
            return
        if name not in known_settings("broker") and name not in DYNAMIC_ONLY:
            raise ApiError(ErrorCode.invalid_config, f"Unknown config name: {name}")
        if not self._rules.is_list(BROKER_RESOURCE, name):
            raise ApiError(
                ErrorCode.invalid_config,
                f"Config value {operation.operation.name.lower()} is not allowed for config key: {name}",
            )

    def _in_effect(self, name: str) -> str | None:
        """The value of a setting that counts at this node, None if it has none."""
        for layer in (
            self._broker_configs.get(str(self._node_id), {}),
            self._broker_configs.get(CLUSTER_DEFAULT, {}),
            self._given.explicit,
        ):
            if name in layer:
                return layer[name]
        known = known_settings("broker").get(name)
        return known.default if known is not None else None
