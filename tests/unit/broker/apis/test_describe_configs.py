import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.simulated_node import model, simulated

TOPIC, BROKER = 2, 4


async def ask(client, resource_type, name, *, version=4, keys=None, **options):
    types = model(ApiKey.DESCRIBE_CONFIGS, version)
    resource = types.DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=keys)
    (result,) = (
        await client.call(ApiKey.DESCRIBE_CONFIGS, version, types.Request(resources=(resource,), **options))
    ).results
    return result


@pytest.mark.parametrize("version", range(1, 5))
@simulated()
async def test_a_topics_settings_say_where_they_come_from(node, version):
    client = await node.client()
    await create_topic(client, retention_ms=7)
    result = await ask(client, TOPIC, "t", version=version, include_synonyms=True)
    by_name = {config.name: config for config in result.configs}
    assert (result.error_code, result.resource_type, result.resource_name) == (0, TOPIC, "t")
    assert (by_name["retention.ms"].value, by_name["retention.ms"].config_source) == ("7", 1)
    assert (by_name["segment.bytes"].value, by_name["segment.bytes"].config_source) == ("1073741824", 5)
    assert next(iter(by_name["retention.ms"].synonyms)).value == "7"


@pytest.mark.parametrize("keys", [("retention.ms", "no.such"), ("retention.ms",)])
@simulated()
async def test_only_the_settings_that_are_asked_for_are_told(node, keys):
    client = await node.client()
    await create_topic(client)
    result = await ask(client, TOPIC, "t", keys=keys)
    assert [config.name for config in result.configs] == ["retention.ms"]
    assert result.configs[0].synonyms == ()


@simulated()
async def test_documentation_is_told_to_who_asks_for_it(node):
    client = await node.client()
    await create_topic(client)
    (config,) = (await ask(client, TOPIC, "t", keys=("retention.ms",), include_documentation=True)).configs
    assert config.documentation
    (config,) = (await ask(client, TOPIC, "t", keys=("retention.ms",))).configs
    assert not config.documentation


@simulated()
async def test_this_nodes_settings_are_told_and_no_other_nodes(node):
    client = await node.client()
    result = await ask(client, BROKER, "1")
    by_name = {config.name: config.value for config in result.configs}
    assert by_name["num.partitions"] == "1"
    assert (await ask(client, BROKER, "2")).error_code is ErrorCode.invalid_request
    assert (await ask(client, BROKER, "")).error_code is ErrorCode.none


@pytest.mark.parametrize(
    ("resource_type", "name", "code"),
    [
        (TOPIC, "missing", 3),
        (TOPIC, "", 17),
        (BROKER, "x", 42),
        (8, "2", 42),
        (8, "", 42),
        (16, "", 42),
        (32, "", 42),
        (99, "t", 42),
    ],
)
@simulated()
async def test_what_is_not_there_is_refused(node, resource_type, name, code):
    assert (await ask(await node.client(), resource_type, name)).error_code == code


@pytest.mark.parametrize("version", [1, 4])
@simulated()
async def test_a_long_name_is_quoted_only_in_part(node, version):
    result = await ask(await node.client(), BROKER, "9" * 32767, version=version)
    assert result.error_code is ErrorCode.invalid_request


@simulated()
async def test_groups_and_client_metrics_have_settings_though_nobody_gave_them_any(node):
    client = await node.client()
    group = {config.name: config.value for config in (await ask(client, 32, "g")).configs}
    assert group["consumer.session.timeout.ms"] == "45000"
    metrics = {config.name: config.value for config in (await ask(client, 16, "m")).configs}
    assert metrics == {"interval.ms": "300000", "match": "", "metrics": ""}


@simulated()
async def test_loggers_of_this_node_are_told_with_their_levels(node):
    result = await ask(await node.client(), 8, "1")
    levels = {config.name: config.value for config in result.configs}
    assert levels["esp.broker.app"] in ("DEBUG", "INFO", "WARN", "ERROR")
    assert {config.config_source for config in result.configs} == {6}
