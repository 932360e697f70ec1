import asyncio

import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.apis.test_describe_log_dirs import describe
from tests.unit.broker.conversation import create_topic, produce
from tests.unit.broker.simulated_node import model, records, simulated

TWO = {"log_dirs": ("/a", "/b"), "metadata_log_dir": "/a"}
BATCH = 100_000


async def alter(client, path, *topics, version=2):
    """The error codes by topic and partition."""
    types = model(ApiKey.ALTER_REPLICA_LOG_DIRS, version)
    wanted = tuple(types.AlterReplicaLogDirTopic(name=name, partitions=numbers) for name, numbers in topics)
    request = types.Request(dirs=(types.AlterReplicaLogDir(path=path, topics=wanted),))
    answer = await client.call(ApiKey.ALTER_REPLICA_LOG_DIRS, version, request)
    return {
        (topic.topic_name, partition.partition_index): partition.error_code
        for topic in answer.results
        for partition in topic.partitions
    }


async def places(client):
    """(directory, lag, is future) of all logs of partition t-0."""
    return sorted(
        (result.log_dir, partition.offset_lag, partition.is_future_key)
        for result in (await describe(client, ("t", (0,)))).results
        for topic in result.topics
        for partition in topic.partitions
    )


@pytest.mark.parametrize("version", [1, 2])
@simulated(**TWO)
async def test_a_replica_moves_and_is_shown_as_a_future_one_with_its_lag_meanwhile(node, version):
    client = await node.client()
    await create_topic(client)
    for _ in range(20):
        await produce(client, "t", records(b"x" * BATCH))
    ((here, _, _),) = await places(client)
    there = {"/a": "/b", "/b": "/a"}[here]
    node.replicas.throttles.moves.update(10 * BATCH)
    assert await alter(client, there, ("t", (0,)), version=version) == {("t", 0): ErrorCode.none}
    await asyncio.sleep(1)
    current, future = sorted(await places(client), key=lambda place: place[2])
    assert current == (here, 0, False)
    assert future[0] == there
    assert future[2]
    assert 5 < future[1] < 15
    await asyncio.sleep(3)
    assert await places(client) == [(there, 0, False)]


@simulated(**TWO)
async def test_each_partition_is_answered_for_itself(node):
    client = await node.client()
    await create_topic(client)
    assert await alter(client, "/no/such", ("t", (0, 7)), ("u", (0,))) == {
        ("t", 0): ErrorCode.log_dir_not_found,
        ("t", 7): ErrorCode.log_dir_not_found,
        ("u", 0): ErrorCode.log_dir_not_found,
    }
    ((here, _, _),) = await places(client)
    assert await alter(client, here, ("t", (0, 7)), ("u", (0,))) == {
        ("t", 0): ErrorCode.none,
        ("t", 7): ErrorCode.unknown_topic_or_partition,
        ("u", 0): ErrorCode.unknown_topic_or_partition,
    }
    assert await places(client) == [(here, 0, False)]


@simulated(**TWO)
async def test_a_topic_that_comes_later_is_made_where_it_was_wished(node):
    client = await node.client()
    for number in range(4):
        await alter(client, "/b", ("t", (number,)))
    await create_topic(client, partitions=4)
    assert all(name in node.replicas.directories.all[1].logs for name in [hosted.name for hosted in node.replicas])
