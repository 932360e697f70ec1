import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.config_requests import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, SET, TOPIC, alter
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.simulated_node import model, simulated


async def ask(client, *kinds, version=1):
    request = model(ApiKey.LIST_CONFIG_RESOURCES, version).Request(resource_types=kinds)
    answer = await client.call(ApiKey.LIST_CONFIG_RESOURCES, version, request)
    return answer.error_code, {(found.resource_type, found.resource_name) for found in answer.config_resources}


async def fill(client):
    await create_topic(client)
    await alter(
        client,
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "46000")),
        (CLIENT_METRICS, "m", ("interval.ms", SET, "1000")),
    )


@simulated()
async def test_everything_that_has_settings_is_listed(node):
    client = await node.client()
    await fill(client)
    everything = {(TOPIC, "t"), (BROKER, "1"), (BROKER_LOGGER, "1"), (CLIENT_METRICS, "m"), (GROUP, "g")}
    assert await ask(client) == (ErrorCode.none, everything)
    assert await ask(client, GROUP, TOPIC) == (ErrorCode.none, {(TOPIC, "t"), (GROUP, "g")})


@simulated()
async def test_the_first_version_lists_subscriptions_to_metrics(node):
    client = await node.client()
    await fill(client)
    assert await ask(client, version=0) == (ErrorCode.none, {(CLIENT_METRICS, "m")})


@pytest.mark.parametrize("kinds", [(3,), (0,), (TOPIC, 0)])
@simulated()
async def test_kinds_that_do_not_exist_are_refused(node, kinds):
    assert await ask(await node.client(), *kinds) == (ErrorCode.unsupported_version, set())
