"""Requests about settings for tests of a whole node, in one line each."""

from esp.protocol.registry import ApiKey
from tests.unit.broker.simulated_node import model

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


async def alter(client, *resources, version=1, validate_only=False):
    """Change settings step by step; ``resources``: (type, name, (setting, operation, value), ...). Returns (code, message) of each."""
    types = model(ApiKey.INCREMENTAL_ALTER_CONFIGS, version)
    request = types.Request(
        resources=tuple(
            types.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=tuple(
                    types.AlterableConfig(name=setting, config_operation=operation, value=value)
                    for setting, operation, value in operations
                ),
            )
            for kind, name, *operations in resources
        ),
        validate_only=validate_only,
    )
    return outcomes(await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request))


async def replace(client, *resources, version=2, validate_only=False):
    """Change settings as a whole; ``resources``: (type, name, settings). Returns (code, message) of each."""
    types = model(ApiKey.ALTER_CONFIGS, version)
    request = types.Request(
        resources=tuple(
            types.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=tuple(types.AlterableConfig(name=setting, value=value) for setting, value in settings.items()),
            )
            for kind, name, settings in resources
        ),
        validate_only=validate_only,
    )
    return outcomes(await client.call(ApiKey.ALTER_CONFIGS, version, request))


def outcomes(answer):
    return [(response.error_code, response.error_message) for response in answer.responses]


async def describe(client, kind, name, *keys, version=4):
    """The settings of a resource by name, each as (value, source)."""
    types = model(ApiKey.DESCRIBE_CONFIGS, version)
    resource = types.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys or None)
    [result] = (await client.call(ApiKey.DESCRIBE_CONFIGS, version, types.Request(resources=(resource,)))).results
    assert result.error_code == 0, result
    return {config.name: (config.value, config.config_source) for config in result.configs}
