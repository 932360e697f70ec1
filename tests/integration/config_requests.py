"""Requests about settings, each over a connection of its own to one node."""

from collections.abc import Sequence
from typing import Any

from kio.schema.alter_configs.v2 import request as alter_configs
from kio.schema.describe_configs.v4 import request as describe_configs
from kio.schema.incremental_alter_configs.v1 import request as incremental
from kio.static.primitive import i8

from esp.testing.node_process import NodeProcess
from tests.integration.wire import Wire

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
FINE = ("none", None)

Operation = tuple[str, int, str | None]
"""A setting, what is done to it, a value."""

Told = tuple[str | None, int, list[tuple[str, str | None, int]]]
"""A setting's value, its source, its synonyms."""


def alter(node: NodeProcess, *resources: tuple[int, str, Sequence[Operation]], check: bool = False) -> list[Any]:
    """Change settings, or only check that; code and message for each resource."""
    request = incremental.IncrementalAlterConfigsRequest(
        resources=tuple(
            incremental.AlterConfigsResource(
                resource_type=i8(kind),
                resource_name=name,
                configs=tuple(
                    incremental.AlterableConfig(name=setting, config_operation=i8(operation), value=value)
                    for setting, operation, value in operations
                ),
            )
            for kind, name, operations in resources
        ),
        validate_only=check,
    )
    with Wire(node) as wire:
        return [(answer.error_code.name, answer.error_message) for answer in wire.call(request).responses]


def replace(node: NodeProcess, kind: int, name: str, settings: dict[str, str | None]) -> Any:
    """Give a resource these settings and no others."""
    configs = tuple(alter_configs.AlterableConfig(name=setting, value=value) for setting, value in settings.items())
    resource = alter_configs.AlterConfigsResource(resource_type=i8(kind), resource_name=name, configs=configs)
    with Wire(node) as wire:
        request = alter_configs.AlterConfigsRequest(resources=(resource,), validate_only=False)
        [answer] = wire.call(request).responses
    return answer.error_code.name, answer.error_message


def describe(node: NodeProcess, kind: int, name: str, *keys: str) -> Any:
    """Code and message where a resource is refused, else its settings by name."""
    resource = describe_configs.DescribeConfigsResource(
        resource_type=i8(kind), resource_name=name, configuration_keys=keys or None
    )
    with Wire(node) as wire:
        request = describe_configs.DescribeConfigsRequest(resources=(resource,), include_synonyms=True)
        [answer] = wire.call(request).results
    if answer.error_code.name != "none":
        return answer.error_code.name, answer.error_message
    return {
        setting.name: (
            setting.value,
            setting.config_source,
            [(synonym.name, synonym.value, synonym.source) for synonym in setting.synonyms],
        )
        for setting in answer.configs
    }
