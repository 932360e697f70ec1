import asyncio
import uuid

import pytest

from esp.broker.data_path.produce_appender import ADMIN_CLIENT_ID
from esp.broker.groups.driver import GroupCoordinatorDriver
from esp.model.errors import ErrorCode
from esp.model.ids import OFFSETS_TOPIC
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic, delete_topic, of_one_partition, produce_request
from tests.unit.broker.group_conversation import (
    commit,
    commit_later,
    fetch_offsets,
    fetch_offsets_later,
    until_coordinated,
)
from tests.unit.broker.simulated_node import model, simulated


@pytest.mark.parametrize("version", range(1, 11))
@simulated(offsets_topic_num_partitions=2)
async def test_committed_offsets_are_told_and_those_that_are_not_there(node, version):
    client = await node.client()
    topic_id = await create_topic(client, partitions=2)
    topic = topic_id if version >= 10 else "t"
    wanted = [(topic, 1), (topic, 0)]
    refused = await fetch_offsets(client, wanted, version=version)
    if version == 1:
        assert refused == dict.fromkeys(wanted, ErrorCode.not_coordinator)
    else:
        assert refused is ErrorCode.not_coordinator
    await until_coordinated(client)
    await commit(client, {("t", 0): 7}, metadata="text")
    assert await fetch_offsets(client, wanted, version=version) == {(topic, 1): -1, (topic, 0): 7}
    if version >= 2:
        assert await fetch_offsets(client, None, version=version) == {(topic, 0): 7}
    answer = await fetch_offsets_later(client, wanted, version=version)
    ((topic,),) = (answer.groups[0].topics if version >= 8 else answer.topics,)
    assert [partition.metadata for partition in topic.partitions] == ["", "text"]


@pytest.mark.parametrize("version", [5, 9, 10])
@simulated(offsets_topic_num_partitions=1)
async def test_another_topic_of_the_name_does_not_get_an_offset_whose_end_was_never_written(node, version):
    """As if no coordinator had been there to forget it when the former topic was deleted."""
    client = await node.client()
    await until_coordinated(client)
    former = await create_topic(client)
    await commit(client, {(former if version >= 10 else "t", 0): 7}, version=version)
    log = node.log(OFFSETS_TOPIC)
    committed = bytes(log.read(0, 1 << 20, log.log_end_offset, at_least_one=True))
    await delete_topic(client, "t")
    present = await create_topic(client)
    written = produce_request([(OFFSETS_TOPIC, 0, committed)])
    assert (
        of_one_partition(await client.send(ApiKey.PRODUCE, 12, written, client_id=ADMIN_CLIENT_ID)).error_code
        is ErrorCode.none
    )
    await node.restart()
    client = await node.client()
    await until_coordinated(client)
    assert await fetch_offsets(client, [("t", 0)]) == {("t", 0): -1}
    assert await fetch_offsets(client, None) == {}
    assert await fetch_offsets(client, [(present, 0)], version=10) == {(present, 0): -1}
    await commit(client, {("t", 0): 1})
    assert await fetch_offsets(client, [("t", 0)]) == {("t", 0): 1}


@simulated(offsets_topic_num_partitions=2)
async def test_an_id_that_nobody_knows_is_told_at_its_partitions(node):
    client = await node.client()
    topic_id = await create_topic(client)
    await until_coordinated(client)
    await commit(client, {("t", 0): 7})
    stranger = uuid.UUID(int=5)
    assert await fetch_offsets(client, [(stranger, 0), (topic_id, 0)], version=10) == {
        (stranger, 0): ErrorCode.unknown_topic_id,
        (topic_id, 0): 7,
    }


@simulated(offsets_topic_num_partitions=2)
async def test_many_groups_are_answered_each_for_itself(node):
    client = await node.client()
    await create_topic(client)
    await until_coordinated(client)
    await commit(client, {("t", 0): 7}, group="a")
    types = model(ApiKey.OFFSET_FETCH, 9)
    request = types.Request(
        groups=tuple(types.OffsetFetchRequestGroup(group_id=group, topics=None) for group in ("b", "a"))
    )
    answer = await client.call(ApiKey.OFFSET_FETCH, 9, request)
    assert [(group.group_id, group.error_code, len(group.topics)) for group in answer.groups] == [
        ("b", 0, 0),
        ("a", 0, 1),
    ]


@pytest.mark.parametrize("version", [1, 2, 3, 7, 8, 10])
@simulated(offsets_topic_num_partitions=1)
async def test_no_offsets_are_fetched_before_the_log_is_read(node, version, monkeypatch):
    """A coordinator that answered then would say that nothing is committed: a consumer would begin at the beginning, or at the end."""
    client = await node.client()
    topic_id = await create_topic(client)
    await until_coordinated(client)
    await commit(client, {("t", 0): 7})
    node.kill()
    replay, may_read = GroupCoordinatorDriver._replay_log, asyncio.Event()

    async def replay_late(driver, end_offset):
        await may_read.wait()
        return await replay(driver, end_offset)

    monkeypatch.setattr(GroupCoordinatorDriver, "_replay_log", replay_late)
    await node.start()
    client = await node.client()
    wanted = [(topic_id if version >= 10 else "t", 0)]
    loading = ErrorCode.coordinator_load_in_progress
    await asyncio.sleep(1)  # the coordinator begins to load
    assert await fetch_offsets(client, wanted, version=version) == ({wanted[0]: loading} if version == 1 else loading)
    if version >= 2:
        assert await fetch_offsets(client, None, version=version) == loading
    if version < 8:  # aiokafka, which sends version 3, looks at the partitions alone
        answer = await fetch_offsets_later(client, wanted, version=version)
        ((partition,),) = (topic.partitions for topic in answer.topics)
        assert (partition.committed_offset, partition.error_code) == (-1, loading)
    may_read.set()
    await asyncio.sleep(1)
    assert await fetch_offsets(client, wanted, version=version) == {wanted[0]: 7}


@simulated(offsets_topic_num_partitions=2)
async def test_who_commits_and_asks_at_once_gets_what_it_committed(node):
    client = await node.client()
    await create_topic(client)
    await until_coordinated(client)
    commit_later(client, {("t", 0): 7})
    assert await fetch_offsets(client, None) == {("t", 0): 7}
