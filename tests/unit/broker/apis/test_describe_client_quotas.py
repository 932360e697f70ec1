import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.simulated_node import model, simulated

_TOGETHER = (
    "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter "
    "component."
)


async def describe(client, *components, version=1):
    types = model(ApiKey.DESCRIBE_CLIENT_QUOTAS, version)
    wanted = tuple(
        types.ComponentData(entity_type=kind, match_type=how, match=match) for kind, how, match in components
    )
    request = types.Request(components=wanted, strict=False)
    return await client.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, request)


@pytest.mark.parametrize("version", [0, 1])
@simulated()
async def test_there_are_none(node, version):
    client = await node.client()
    for components in ([], [("user", 0, "x")], [("user", 1, None), ("client-id", 2, None)], [("ip", 2, None)]):
        answer = await describe(client, *components, version=version)
        assert (answer.error_code, answer.error_message, answer.entries) == (ErrorCode.none, "", ())


@pytest.mark.parametrize(
    ("components", "text"),
    [
        ([("user", 7, "x")], "Unknown match type 7"),
        ([("user", 0, None)], "Request specified MATCH_TYPE_EXACT, but set match string to null."),
        ([("user", 1, "x")], "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
        ([("user", 2, "x")], "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."),
        ([("", 0, "x")], "Invalid empty entity type."),
        ([("user", 1, None)] * 2, "Entity type user cannot appear more than once in the filter."),
        (
            [("ip", 2, None), ("client-id", 2, None)],
            _TOGETHER,
        ),
    ],
)
@simulated()
async def test_filters_without_a_meaning_are_refused(node, components, text):
    answer = await describe(await node.client(), *components)
    assert (answer.error_code, answer.error_message) == (ErrorCode.invalid_request, text)


@simulated()
async def test_an_unknown_entity_is_not_supported(node):
    answer = await describe(await node.client(), ("nope", 0, "x"))
    assert (answer.error_code, answer.error_message) == (ErrorCode.unsupported_version, "Unsupported entity type nope")
