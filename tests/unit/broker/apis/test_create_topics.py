import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic, create_topics, metadata, ms
from tests.unit.broker.simulated_node import model, simulated


@pytest.mark.parametrize("version", range(2, 8))
@simulated()
async def test_topics_are_created_each_for_itself(node, version):
    client = await node.client()
    await create_topic(client, "there")
    answers = await create_topics(
        client,
        [("a", 3, {}), ("there", 1, {}), ("bad name", 1, {}), ("b", 1, {"no_such": 1}), ("c", 1, {"retention_ms": 5})],
        version=version,
    )
    assert {answer.name: answer.error_code.name for answer in answers} == {
        "a": "none",
        "there": "topic_already_exists",
        "bad name": "invalid_topic_exception",
        "b": "invalid_config",
        "c": "none",
    }
    by_name = {answer.name: answer for answer in answers}
    assert by_name["there"].error_message == "Topic 'there' already exists."
    if version >= 5:
        assert (by_name["a"].num_partitions, by_name["a"].replication_factor) == (3, 1)
        configs = {config.name: config for config in by_name["c"].configs}
        assert configs["retention.ms"].value == "5"
        assert configs["cleanup.policy"].value == "delete"
    if version >= 7:
        assert by_name["a"].topic_id == node.metadata.image.topics_by_name["a"].topic_id


@simulated(num_partitions=4)
async def test_the_nodes_defaults_count_where_nothing_is_said(node):
    client = await node.client()
    (answer,) = await create_topics(client, [("t", -1, {})], replication_factor=-1)
    assert (answer.num_partitions, answer.replication_factor) == (4, 1)


@simulated()
async def test_a_name_that_comes_twice_is_refused_and_the_rest_is_not(node):
    client = await node.client()
    answers = await create_topics(client, [("t", 1, {}), ("u", 1, {}), ("t", 2, {})])
    assert [(answer.name, answer.error_code) for answer in answers] == [
        ("t", ErrorCode.invalid_request),
        ("u", ErrorCode.none),
    ]


@simulated()
async def test_validation_creates_nothing(node):
    client = await node.client()
    (answer,) = await create_topics(client, [("t", 2, {})], validate_only=True)
    assert (answer.error_code, answer.num_partitions) == (ErrorCode.none, 2)
    assert (await metadata(client)).topics == ()
    assert not [name for name in node.names() if name.startswith("t-")]


@pytest.mark.parametrize(("partitions", "factor", "code"), [(0, 1, 37), (-2, 1, 37), (1, 0, 38), (1, 2, 38)])
@simulated()
async def test_impossible_numbers_are_refused(node, partitions, factor, code):
    client = await node.client()
    (answer,) = await create_topics(client, [("t", partitions, {})], replication_factor=factor)
    assert answer.error_code == code
    assert answer.error_message


@pytest.mark.parametrize("version", [2, 4, 7])
@simulated()
async def test_long_texts_of_the_client_are_quoted_only_in_part(node, version):
    client = await node.client()
    for topic in (("x" * 32767, 1, {}), ("t", 1, {"k" * 32767: 1}), ("t", 1, {"retention.ms": "k" * 32767})):
        (answer,) = await create_topics(client, [topic], version=version)
        assert answer.error_code is not ErrorCode.none
        assert 0 < len(answer.error_message) < 5000
    assert node.process.alive


@simulated()
async def test_no_topics_are_no_error(node):
    assert await create_topics(await node.client(), []) == ()


@simulated()
async def test_without_time_nothing_is_created(node):
    client = await node.client()
    types = model(ApiKey.CREATE_TOPICS, 7)
    topic = types.CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=(), configs=())
    request = types.Request(topics=(topic,), timeout=ms(0), validate_only=False)
    answer = await client.call(ApiKey.CREATE_TOPICS, 7, request)
    assert [(it.error_code, it.configs) for it in answer.topics] == [(ErrorCode.request_timed_out, ())]
    assert node.hosted("t") is None
