import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic, fetch, ms, produce
from tests.unit.broker.simulated_node import model, records, simulated

NONE, OUT_OF_RANGE, UNKNOWN = (
    ErrorCode.none,
    ErrorCode.offset_out_of_range,
    ErrorCode.unknown_topic_or_partition,
)


async def delete(client, *topics, timeout_ms=1000, version=2):
    """``topics``: a name and pairs of partition and offset. Returns low watermark and error by topic and partition, in order."""
    types = model(ApiKey.DELETE_RECORDS, version)
    wanted = tuple(
        types.DeleteRecordsTopic(
            name=name,
            partitions=tuple(
                types.DeleteRecordsPartition(partition_index=i, offset=offset) for i, offset in partitions
            ),
        )
        for name, *partitions in topics
    )
    answer = await client.call(ApiKey.DELETE_RECORDS, version, types.Request(topics=wanted, timeout=ms(timeout_ms)))
    return [
        (topic.name, partition.partition_index, partition.low_watermark, partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    ]


async def filled(node, count=6, **settings):
    client = await node.client()
    await create_topic(client, partitions=2, **settings)
    for number in range(count):
        await produce(client, "t", records(b"%d" % number))
    return client


@pytest.mark.parametrize("version", [0, 1, 2])
@simulated()
async def test_what_lies_below_is_gone(node, version):
    client = await filled(node)
    assert await delete(client, ("t", (0, 4)), version=version) == [("t", 0, 4, NONE)]
    assert (await fetch(client, "t", 3)).error_code is OUT_OF_RANGE
    assert (await fetch(client, "t", 4)).error_code is NONE


@simulated()
async def test_each_partition_is_answered_once_and_for_itself(node):
    client = await filled(node)
    assert await delete(client, ("t", (0, 7), (1, -1), (9, 0), (-1, 0)), ("u", (0, 0)), ("t", (0, 3))) == [
        ("t", 0, 3, NONE),
        ("t", 1, 0, NONE),
        ("t", 9, -1, UNKNOWN),
        ("t", -1, -1, UNKNOWN),
        ("u", 0, -1, UNKNOWN),
    ]
    assert await delete(client, ("t", (0, 7))) == [("t", 0, -1, OUT_OF_RANGE)]
    assert await delete(client, ("t", (0, -2))) == [("t", 0, -1, OUT_OF_RANGE)]
    assert await delete(client, ("t", (0, 1))) == [("t", 0, 3, NONE)]
    assert await delete(client) == []
    assert await delete(client, ("t",)) == []


@simulated()
async def test_without_followers_no_time_is_needed(node):
    client = await filled(node)
    assert await delete(client, ("t", (0, 2)), timeout_ms=0) == [("t", 0, 2, NONE)]


@pytest.mark.parametrize("power", [False, True])
@simulated()
async def test_records_that_were_deleted_do_not_come_back_with_a_crash(node, power):
    client = await filled(node, flush_messages=1)
    await delete(client, ("t", (0, 4)))
    await node.restart(power=power)
    client = await node.client()
    assert (await fetch(client, "t", 3)).error_code is OUT_OF_RANGE
    assert node.log("t").log_start_offset == 4
    assert node.log("t").log_end_offset == 6


@simulated()
async def test_an_answer_is_an_error_while_the_new_start_cannot_be_written_down(node):
    client = await filled(node)
    node.disk.fail("write", "*log-start-offset-checkpoint*", times=9)
    assert await delete(client, ("t", (0, 4))) == [("t", 0, -1, ErrorCode.kafka_storage_error)]
    node.disk.heal()
    assert await delete(client, ("t", (0, 4))) == [("t", 0, 4, NONE)]
