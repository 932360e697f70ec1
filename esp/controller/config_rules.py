"""The settings that a resource may have: the rules of topics, brokers, groups and client metrics in one place, for the controller."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from esp.controller.topics import find_name_problem
from esp.model.errors import ApiError, ErrorCode
from esp.schemas.metadata_records import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from esp.settings.broker import BrokerSettings
from esp.settings.client_metrics import validate_client_metrics_configs
from esp.settings.dynamic import validate_broker_values
from esp.settings.group import validate_group_configs
from esp.settings.known import known_settings
from esp.settings.setting import Kind, find_integer
from esp.settings.topic_overrides import validate_topic_overrides
from esp.settings.topic_table import TOPIC_SETTINGS


@dataclass(frozen=True, slots=True)
class ConfigRules:
    """Rules that rest on the settings of the node that decides."""

    node: BrokerSettings

    def is_list(self, resource_type: int, name: str) -> bool:
        """True if a setting takes a list, so that entries can be appended to it. For Kafka, client metrics have no lists."""
        if resource_type == TOPIC_RESOURCE:
            return name in TOPIC_SETTINGS and TOPIC_SETTINGS[name].kind is Kind.LIST
        if resource_type == BROKER_RESOURCE:
            known = known_settings("broker").get(name)
            return known is not None and known.kind is Kind.LIST
        return False

    def default(self, resource_type: int, name: str) -> str:
        """The list that counts where the resource has none of its own."""
        if resource_type == TOPIC_RESOURCE:
            broker_name = TOPIC_SETTINGS[name].broker_name
            if broker_name is None:
                return known_settings("topic")[name].default or ""
            name = broker_name
        return self.node.explicit.get(name, known_settings("broker")[name].default or "")

    def validate(
        self, resource_type: int, resource_name: str, configs: Mapping[str, str], changed: Collection[str]
    ) -> None:
        """Check the settings that a resource would have.

        Args:
            resource_type: as in ConfigRecord.
            resource_name: of the resource, which need not be there.
            configs: all that it would have.
            changed: the names of the settings that it does not have yet.

        Raises:
            ApiError: it may not have them; code and text are Kafka's.
        """
        if resource_type == TOPIC_RESOURCE:
            _check_topic_name(resource_name)
            validate_topic_overrides(configs, changed)
        elif resource_type == BROKER_RESOURCE:
            _check_broker_name(resource_name)
            validate_broker_values({name: configs[name] for name in changed}, for_all=not resource_name)
        elif resource_type == GROUP_RESOURCE:
            validate_group_configs(resource_name, configs, self.node)
        elif resource_type == CLIENT_METRICS_RESOURCE:
            validate_client_metrics_configs(resource_name, configs)
        else:
            raise ApiError(ErrorCode.invalid_request, f"Unknown resource type {resource_type}")


def _check_topic_name(name: str) -> None:
    if not name:
        raise ApiError(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    problem = find_name_problem(name)
    if problem is not None:
        raise ApiError(ErrorCode.invalid_topic_exception, problem)


def _check_broker_name(name: str) -> None:
    if not name:
        return
    number = find_integer(name)
    if number is None:
        raise ApiError(ErrorCode.invalid_request, "Unable to parse broker name as a base 10 number.")
    if number < 0:
        raise ApiError(ErrorCode.invalid_request, "Invalid negative broker ID.")
