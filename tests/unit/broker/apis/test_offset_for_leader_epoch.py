import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic, produce
from tests.unit.broker.simulated_node import model, records, simulated


async def ask(client, epoch, *, version=4, topic="t", partition=0, current=-1, replica_id=-1):
    types = model(ApiKey.OFFSET_FOR_LEADER_EPOCH, version)
    wanted = types.OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    request = types.Request(
        replica_id=replica_id, topics=(types.OffsetForLeaderTopic(topic=topic, partitions=(wanted,)),)
    )
    return (await client.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, request)).topics[0].partitions[0]


async def two_epochs(node):
    """Epoch of the offsets 0 and 1, and of offset 2."""
    client = await node.client()
    await create_topic(client)
    for _ in range(2):
        await produce(client, "t", records(b"x"))
    first = node.hosted("t").leader.leader_epoch
    await node.restart()
    client = await node.client()
    await produce(client, "t", records(b"x"))
    return client, first, node.hosted("t").leader.leader_epoch


@pytest.mark.parametrize("version", [2, 3, 4])
@simulated()
async def test_an_epoch_ends_where_the_next_one_begins_and_the_latest_at_the_end(node, version):
    client, first, second = await two_epochs(node)
    answers = [await ask(client, epoch, version=version) for epoch in (first, second, second + 1, -1)]
    assert [(answer.leader_epoch, answer.end_offset) for answer in answers] == [
        (first, 2),
        (second, 3),
        (-1, -1),
        (-1, -1),
    ]


@simulated()
async def test_a_consumer_is_told_of_the_end_also_where_the_high_watermark_is_behind(node):
    client, _, second = await two_epochs(node)
    node.log("t").high_watermark = 1
    assert (await ask(client, second)).end_offset == 3


@simulated()
async def test_a_client_of_another_epoch_is_refused(node):
    client, first, second = await two_epochs(node)
    assert (await ask(client, first, current=first)).error_code is ErrorCode.fenced_leader_epoch
    assert (await ask(client, first, current=second + 1)).error_code is ErrorCode.unknown_leader_epoch
    assert (await ask(client, first, current=second)).error_code is ErrorCode.none


@pytest.mark.parametrize(("topic", "partition"), [("t", 1), ("u", 0)])
@simulated()
async def test_a_partition_that_is_not_there_is_an_error(node, topic, partition):
    client, first, _ = await two_epochs(node)
    answer = await ask(client, first, topic=topic, partition=partition)
    assert answer.error_code is ErrorCode.unknown_topic_or_partition
