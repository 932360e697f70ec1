"""Requests and sessions of very many partitions, on a whole node: answered as others are, in slices, while others are served."""

import asyncio

import pytest

from esp.broker.share.leaders import IDLE_US
from esp.model.errors import ErrorCode
from esp.protocol.progress import AT_ONCE_ELEMENTS
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic, delete_topic, metadata, produce
from tests.unit.broker.group_conversation import delete_groups, until_coordinated
from tests.unit.broker.guarded_node import ask
from tests.unit.broker.share.share_members import set_group
from tests.unit.broker.share_group_conversation import SETTINGS
from tests.unit.broker.share_groups import with_share_groups
from tests.unit.broker.simulated_node import records
from tests.unit.broker.wire_share_member import ACCEPT, RELEASE, WireMember, pieces, until_assigned

MANY = AT_ONCE_ELEMENTS + 70
WRITTEN = (0, 17, AT_ONCE_ELEMENTS, MANY - 1)
NODE = {**SETTINGS, "share_coordinator_state_topic_num_partitions": 3}


async def filled(client, partitions=MANY, written=WRITTEN):
    """A topic with two records in some partitions, of which the group ``g`` reads all; the topic's id."""
    topic_id = await create_topic(client, partitions=partitions)
    await set_group(client, auto_offset_reset="earliest")
    await until_coordinated(client)
    await until_assigned(client, partitions)
    for partition in written:
        await produce(client, "t", records(b"a", b"b"), partition=partition)
    return topic_id


def share_partitions(node):
    return {
        wanted.partition
        for group in node.node.broker.dispatcher._services.share_leaders()._groups.values()
        for wanted in group
    }


@with_share_groups(**NODE)
async def test_all_partitions_are_fetched_acknowledged_and_released(scene):
    node, client = scene
    topic_id = await filled(client)
    member, other = WireMember(await node.client(), topic_id), WireMember(await node.client(), topic_id, "other")
    got = await member.take(*range(MANY), wait_ms=5_000)
    while len(got) < len(WRITTEN):
        got += await member.take(wait_ms=5_000)
    assert sorted(got) == [(partition, 0, 1, 1) for partition in WRITTEN]
    said = await member.say({partition: [(0, 0, ACCEPT)] for partition in range(MANY)})
    expected = {partition: ErrorCode.none if partition in WRITTEN else ErrorCode.invalid_request for partition in said}
    assert len(said) == MANY
    assert said == expected
    waiting = other.fetch_later(*range(MANY), wait_ms=100_000)
    await asyncio.sleep(1)
    assert not waiting.done()
    member.client.close()
    answer = await waiting
    again = pieces({each.partition_index: each for topic in answer.responses for each in topic.partitions})
    while len(again) < len(WRITTEN):
        again += await other.take(wait_ms=100)
    assert sorted(again) == [(partition, 1, 1, 2) for partition in WRITTEN]


@with_share_groups(**NODE)
async def test_others_are_served_before_a_request_of_many_partitions_is(scene):
    node, client = scene
    topic_id = await filled(client)
    member = WireMember(await node.client(), topic_id)
    waiting = member.fetch_later(*range(MANY), wait_ms=0)
    await metadata(client, ["t"])
    assert not waiting.done()
    await waiting
    assert share_partitions(node) == set(range(MANY))


@with_share_groups(**NODE)
async def test_a_waiting_fetch_hears_of_the_one_partition_that_has_news(scene):
    node, client = scene
    topic_id = await filled(client, written=())
    member = WireMember(await node.client(), topic_id)
    assert await member.take(*range(MANY), wait_ms=1_000) == []
    waiting = member.fetch_later(wait_ms=100_000)
    await asyncio.sleep(10)
    before = node.loop.time()
    await produce(client, "t", records(b"new"), partition=99)
    answer = await waiting
    assert [each.partition_index for topic in answer.responses for each in topic.partitions] == [99]
    assert node.loop.time() - before < 0.5


@with_share_groups(**NODE)
async def test_words_of_a_member_that_came_back_find_nothing_of_before(scene):
    """Its old records are released at each partition before its new session does anything there, though that takes turns."""
    node, client = scene
    topic_id = await filled(client, written=range(MANY))
    member = WireMember(await node.client(), topic_id)
    got = await member.take(*range(MANY), most=10_000, wait_ms=5_000)
    while len(got) < MANY:
        got += await member.take(most=10_000, wait_ms=5_000)
    back = WireMember(await node.client(), topic_id)
    again = await back.take(*range(MANY), most=10_000, wait_ms=5_000)
    while len(again) < MANY:
        again += await back.take(most=10_000, wait_ms=5_000)
    assert sorted(again) == [(partition, 0, 1, 2) for partition in range(MANY)]
    assert set((await back.say({partition: [(0, 1, ACCEPT)] for partition in range(MANY)})).values()) == {0}


@with_share_groups(**NODE)
async def test_share_partitions_without_use_leave_memory_and_are_as_they_were_when_they_come_back(scene):
    node, client = scene
    topic_id = await filled(client, partitions=3, written=(0, 1))
    member = WireMember(client, topic_id)
    assert sorted(await member.take(0, 1, 2)) == [(0, 0, 1, 1), (1, 0, 1, 1)]
    assert await member.say({0: [(0, 1, ACCEPT, RELEASE)]}) == {0: ErrorCode.none}
    waiting = WireMember(await node.client(), topic_id, "waiting").fetch_later(2, wait_ms=IDLE_US // 1000 + 100_000)
    await asyncio.sleep(IDLE_US / 1_000_000 + 90)
    assert share_partitions(node) == {2}, "the locks of 1 have ended, and nobody has come since; at 2 one waits"
    assert sorted(await member.take()) == [(0, 1, 1, 2), (1, 0, 1, 2)]
    await waiting
    await member.leave()
    await asyncio.sleep(2 * IDLE_US / 1_000_000)
    assert share_partitions(node) == set()


@pytest.mark.parametrize("ending", ["deleted group", "deleted topic"])
@with_share_groups(**NODE)
async def test_share_partitions_go_with_their_group_and_topic(scene, ending):
    node, client = scene
    topic_id = await filled(client, partitions=1, written=(0,))
    member = WireMember(client, topic_id)
    assert await member.take(0) == [(0, 0, 1, 1)]
    if ending == "deleted topic":
        await delete_topic(client, "t")
        await asyncio.sleep(1)
    else:
        await ask(client, ApiKey.SHARE_GROUP_HEARTBEAT, 1, group_id="g", member_id="m", member_epoch=-1)
        assert await delete_groups(client, "g") == {"g": ErrorCode.none}
        assert await member.say({0: [(0, 0, ACCEPT)]}) == {0: ErrorCode.unknown_server_error}, "Kafka's word for it"
    assert share_partitions(node) == set()
