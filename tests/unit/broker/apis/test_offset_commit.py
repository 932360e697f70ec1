import uuid

import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.group_conversation import commit, fetch_offsets, member, until_coordinated
from tests.unit.broker.simulated_node import simulated


@pytest.mark.parametrize("version", range(2, 11))
@simulated(offsets_topic_num_partitions=2)
async def test_committed_offsets_outlive_the_process(node, version):
    client = await node.client()
    topic_id = await create_topic(client, partitions=2)
    assert await commit(client, {("t", 0): 7}, version=9) == {("t", 0): ErrorCode.not_coordinator}
    await until_coordinated(client)
    topic, stranger = (topic_id, uuid.UUID(int=5)) if version >= 10 else ("t", "u")
    unknown = ErrorCode.unknown_topic_or_partition
    answer = await commit(client, {(topic, 0): 7, (topic, 2): 8, (stranger, 0): 9, (topic, 1): 10}, version=version)
    assert answer == {
        (topic, 0): ErrorCode.none,
        (topic, 2): unknown,
        (stranger, 0): ErrorCode.unknown_topic_id if version >= 10 else unknown,
        (topic, 1): ErrorCode.none,
    }
    assert await fetch_offsets(client, None) == {("t", 0): 7, ("t", 1): 10}
    await node.restart()
    client = await node.client()
    assert await fetch_offsets(client, None) == {("t", 0): 7, ("t", 1): 10}


@simulated(offsets_topic_num_partitions=2, group_initial_rebalance_delay_ms=0)
async def test_only_members_commit_for_a_group_with_members(node):
    client = await node.client()
    await create_topic(client)
    await until_coordinated(client)
    joined = await member(client)
    assert await commit(client, {("t", 0): 7}) == {("t", 0): ErrorCode.unknown_member_id}
    assert await commit(client, {("t", 0): 7}, joined=joined) == {("t", 0): ErrorCode.none}
    joined = type("Old", (), {"generation_id": 0, "member_id": joined.member_id})
    assert await commit(client, {("t", 0): 8}, joined=joined) == {("t", 0): ErrorCode.illegal_generation}


@simulated(offsets_topic_num_partitions=2)
async def test_a_commit_of_nothing_that_exists_asks_no_coordinator(node):
    client = await node.client()
    assert await commit(client, {}) == {}
    assert await commit(client, {("u", 0): 7}) == {("u", 0): ErrorCode.unknown_topic_or_partition}


@simulated(offsets_topic_num_partitions=2, offset_metadata_max_bytes=5)
async def test_long_texts_are_refused(node):
    client = await node.client()
    await create_topic(client)
    await until_coordinated(client)
    assert await commit(client, {("t", 0): 7}, metadata="12345") == {("t", 0): ErrorCode.none}
    assert await commit(client, {("t", 0): 8}, metadata="123456") == {("t", 0): ErrorCode.offset_metadata_too_large}


@simulated(offsets_topic_num_partitions=2, offset_metadata_max_bytes=5)
async def test_the_empty_group_keeps_offsets_too(node):
    client = await node.client()
    await create_topic(client)
    await until_coordinated(client, "")
    assert await commit(client, {("t", 0): 7}, group="") == {("t", 0): ErrorCode.none}
    assert await fetch_offsets(client, None, group="") == {("t", 0): 7}
