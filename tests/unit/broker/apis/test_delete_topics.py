import uuid

import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic, delete_topic, metadata, ms, produce
from tests.unit.broker.simulated_node import model, records, simulated


@pytest.mark.parametrize("version", range(1, 7))
@simulated()
async def test_a_topic_is_deleted_by_name(node, version):
    client = await node.client()
    await create_topic(client)
    assert (await delete_topic(client, "t", version=version)).error_code is ErrorCode.none
    assert (await delete_topic(client, "t", version=version)).error_code is ErrorCode.unknown_topic_or_partition
    assert (await metadata(client)).topics == ()
    assert (await produce(client, "t", records(b"x"))).error_code is ErrorCode.unknown_topic_or_partition


@simulated()
async def test_a_topic_is_deleted_by_id(node):
    client = await node.client()
    topic_id = await create_topic(client)
    answer = await delete_topic(client, topic_id)
    assert (answer.error_code, answer.name, answer.topic_id) == (ErrorCode.none, "t", topic_id)
    answer = await delete_topic(client, topic_id)
    assert (answer.error_code, answer.name) == (ErrorCode.unknown_topic_id, None)
    assert (await delete_topic(client, uuid.uuid4())).error_code is ErrorCode.unknown_topic_id


@pytest.mark.parametrize(("version", "code"), [(1, 42), (2, 42), (3, 73), (6, 73)])
@simulated(delete_topic_enable=False)
async def test_deletion_may_be_turned_off(node, version, code):
    client = await node.client()
    await create_topic(client)
    assert (await delete_topic(client, "t", version=version)).error_code == code
    assert len((await metadata(client)).topics) == 1


@simulated()
async def test_each_topic_is_answered_for_itself(node):
    client = await node.client()
    for name in "ab":
        await create_topic(client, name)
    types = model(ApiKey.DELETE_TOPICS, 6)
    states = [types.DeleteTopicState(name=name, topic_id=None) for name in ("a", "missing", "b", None)]
    answer = await client.call(ApiKey.DELETE_TOPICS, 6, types.Request(topics=tuple(states), timeout=ms(1)))
    assert [(each.name, int(each.error_code)) for each in answer.responses] == [
        (None, 42),
        ("a", 0),
        ("missing", 3),
        ("b", 0),
    ]


@simulated()
async def test_a_topic_is_given_by_its_name_or_its_id_and_never_by_both_or_neither(node):
    client = await node.client()
    await create_topic(client, "t")
    types = model(ApiKey.DELETE_TOPICS, 6)
    topic_id = node.replicas.by_topic["t"][0].topic_id
    both = types.DeleteTopicState(name="t", topic_id=topic_id)
    neither = types.DeleteTopicState(name=None, topic_id=None)
    answer = await client.call(ApiKey.DELETE_TOPICS, 6, types.Request(topics=(both, neither), timeout=ms(1000)))
    assert [result.error_code for result in answer.responses] == [ErrorCode.invalid_request] * 2
    assert node.hosted("t").leader is not None, "nothing was deleted"


@simulated()
async def test_a_topic_that_is_named_twice_is_refused_once(node):
    client = await node.client()
    await create_topic(client)
    types = model(ApiKey.DELETE_TOPICS, 6)
    state = types.DeleteTopicState(name="t", topic_id=None)
    answer = await client.call(ApiKey.DELETE_TOPICS, 6, types.Request(topics=(state, state), timeout=ms(1)))
    assert [(it.name, it.error_code, it.error_message) for it in answer.responses] == [
        ("t", ErrorCode.invalid_request, "Duplicate topic name.")
    ]


@simulated()
async def test_without_time_nothing_is_deleted(node):
    client = await node.client()
    await create_topic(client)
    types = model(ApiKey.DELETE_TOPICS, 6)
    state = types.DeleteTopicState(name="t", topic_id=None)
    answer = await client.call(ApiKey.DELETE_TOPICS, 6, types.Request(topics=(state,), timeout=ms(0)))
    assert [it.error_code for it in answer.responses] == [ErrorCode.request_timed_out]
    assert node.hosted("t") is not None


@pytest.mark.parametrize("version", range(1, 7))
@simulated()
async def test_a_controller_deletes_by_every_version(node, version):
    client = await node.client(node.node.controller.listening[0])
    await create_topic(await node.client())
    assert (await delete_topic(client, "t", version=version)).error_code is ErrorCode.none
    assert (await delete_topic(client, "t", version=version)).error_code is ErrorCode.unknown_topic_or_partition
