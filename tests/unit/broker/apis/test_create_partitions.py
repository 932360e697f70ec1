import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic, ms, produce
from tests.unit.broker.simulated_node import model, records, simulated


async def grow(client, *wanted, version=3, validate_only=False, timeout_ms=1000):
    """``wanted``: name, count and, if replicas are given, these. Returns error and message by topic, in order."""
    types = model(ApiKey.CREATE_PARTITIONS, version)
    topics = tuple(
        types.CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=tuple(types.CreatePartitionsAssignment(broker_ids=ids) for ids in given[0]) if given else None,
        )
        for name, count, *given in wanted
    )
    request = types.Request(topics=topics, timeout=ms(timeout_ms), validate_only=validate_only)
    answer = await client.call(ApiKey.CREATE_PARTITIONS, version, request)
    return [(result.name, result.error_code, result.error_message) for result in answer.results]


@pytest.mark.parametrize("version", range(4))
@simulated()
async def test_new_partitions_take_records_as_soon_as_it_is_answered(node, version):
    client = await node.client()
    await create_topic(client)
    assert await grow(client, ("t", 3), version=version) == [("t", ErrorCode.none, None)]
    assert (await produce(client, "t", records(b"x"), partition=2)).error_code is ErrorCode.none
    assert await grow(client, ("t", 4, [(1,)]), version=version) == [("t", ErrorCode.none, None)]
    assert (await produce(client, "t", records(b"x"), partition=3)).error_code is ErrorCode.none


@simulated()
async def test_each_topic_is_answered_for_itself_and_one_that_is_named_twice_is_refused(node):
    client = await node.client()
    await create_topic(client)
    await create_topic(client, "u")
    assert await grow(client, ("t", 2), ("missing", 2), ("u", 3), ("t", 2), ("v", 1)) == [
        ("t", ErrorCode.invalid_request, "Duplicate topic name."),
        ("missing", ErrorCode.unknown_topic_or_partition, None),
        ("u", ErrorCode.none, None),
        ("v", ErrorCode.unknown_topic_or_partition, None),
    ]
    assert len(node.metadata.image.topics_by_name["t"].partitions) == 1


@simulated()
async def test_a_dry_run_creates_nothing(node):
    client = await node.client()
    await create_topic(client)
    assert await grow(client, ("t", 5), validate_only=True) == [("t", ErrorCode.none, None)]
    assert len(node.metadata.image.topics_by_name["t"].partitions) == 1


@simulated()
async def test_without_time_nothing_is_done(node):
    client = await node.client()
    await create_topic(client)
    assert await grow(client, ("t", 5), timeout_ms=0) == [("t", ErrorCode.request_timed_out, None)]
    assert len(node.metadata.image.topics_by_name["t"].partitions) == 1
    assert await grow(client, timeout_ms=0) == []


@simulated()
async def test_partitions_that_were_added_are_there_after_a_restart(node):
    client = await node.client()
    await create_topic(client)
    await grow(client, ("t", 3))
    await produce(client, "t", records(b"x"), partition=2)
    await node.restart()
    assert node.log("t", 2).log_end_offset == 1
    assert len(node.metadata.image.topics_by_name["t"].partitions) == 3
