from esp.model.errors import ErrorCode
from tests.unit.broker.config_requests import BROKER_LOGGER, SET, TOPIC, alter, describe
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.simulated_node import simulated


async def _controller_client(node):
    [address] = node.node.controller.listening
    return await node.client(address)


@simulated()
async def test_tools_may_ask_the_controller_itself(node):
    await create_topic(await node.client())
    client = await _controller_client(node)
    right = (TOPIC, "t", ("retention.ms", SET, "5"))
    wrong = (TOPIC, "u", ("retention.ms", SET, "5"))
    unknown = (ErrorCode.unknown_topic_or_partition, "The topic 'u' does not exist.")
    assert await alter(client, right, wrong) == [(ErrorCode.none, None), unknown]
    assert (await describe(client, TOPIC, "t"))["retention.ms"] == ("5", 1)


@simulated()
async def test_a_controller_says_what_is_wrong_with_a_request(node):
    await create_topic(await node.client())
    client = await _controller_client(node)
    change = (TOPIC, "t", ("retention.ms", SET, "5"))
    assert await alter(client, change, change) == [(ErrorCode.invalid_request, "Duplicate resource.")] * 2
    null = (TOPIC, "t", ("retention.ms", SET, None))
    [(code, message)] = await alter(client, null)
    assert (code, message) == (ErrorCode.invalid_request, "Null value not supported for : retention.ms")


@simulated()
async def test_a_controller_has_loggers_too(node):
    client = await _controller_client(node)
    before = (await describe(client, BROKER_LOGGER, "1"))["root"]
    assert await alter(client, (BROKER_LOGGER, "1", ("root", SET, before[0]))) == [(ErrorCode.none, None)]
