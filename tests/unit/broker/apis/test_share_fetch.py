"""Members of share groups on a whole node: ShareFetch and ShareAcknowledge over the wire, with the node's own share coordinators."""

import asyncio

import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic, produce
from tests.unit.broker.data_path.test_read_committed import end, write
from tests.unit.broker.group_conversation import until_coordinated
from tests.unit.broker.guarded_node import ask
from tests.unit.broker.share.share_members import set_group
from tests.unit.broker.share_group_conversation import SETTINGS
from tests.unit.broker.share_groups import with_share_groups
from tests.unit.broker.simulated_node import records, values
from tests.unit.broker.wire_share_member import ACCEPT, REJECT, RELEASE, RENEW, WireMember, until_assigned

NODE = {**SETTINGS, "share_coordinator_state_topic_num_partitions": 3}


async def prepared(client, *counts, partitions=1, **configs):
    """A topic with batches of so many records, of which the group ``g`` reads all; the topic's id."""
    topic_id = await create_topic(client, partitions=partitions)
    await set_group(client, **{"auto_offset_reset": "earliest", **configs})
    for count in counts:
        await produce(client, "t", records(*[b"value"] * count))
    await until_coordinated(client)
    await until_assigned(client, partitions)
    return topic_id


async def described(client):
    """Start offset and lag of the only partition."""
    wanted = [{"group_id": "g", "topics": [{"topic_name": "t", "partitions": [0]}]}]
    (group,) = (await ask(client, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, groups=wanted)).groups
    (found,) = group.topics[0].partitions
    return found.start_offset, found.lag


@pytest.mark.parametrize("version", [1, 2])
@with_share_groups(**NODE)
async def test_records_are_taken_accepted_released_and_rejected(scene, version):
    node, client = scene
    topic_id = await prepared(client, 3, 4)
    member = WireMember(client, topic_id, version=version)
    answers = await member.fetch(0)
    assert values(answers[0].records) == [b"value"] * 7
    assert await member.say({0: [(0, 2, ACCEPT), (3, 4, RELEASE), (5, 6, ACCEPT, REJECT)]}) == {0: ErrorCode.none}
    assert (await described(client))[1] == 2
    assert await member.take() == [(0, 3, 4, 2)]
    assert await member.take(words={0: [(3, 4, ACCEPT)]}, wait_ms=10) == []
    assert (await described(client))[1] == 0
    assert await member.leave() == {}
    late = await ask(client, ApiKey.SHARE_ACKNOWLEDGE, version, group_id="g", member_id="m", share_session_epoch=5)
    assert late.error_code is ErrorCode.share_session_not_found
    assert node.process.alive


@with_share_groups(**NODE)
async def test_several_members_have_each_record_once(scene):
    node, client = scene
    topic_id = await prepared(client, *[10] * 20, partitions=2)
    members = [WireMember(await node.client(), topic_id, f"m{number}") for number in range(3)]
    got = []
    for member in members * 10:
        for number, first, last, count in await member.take(*(() if member.epoch else (0, 1)), most=10, wait_ms=10):
            got += [(number, offset, count) for offset in range(first, last + 1)]
            assert await member.say({number: [(first, last, ACCEPT)]}) == {number: ErrorCode.none}
    assert sorted(got) == [(0, offset, 1) for offset in range(200)]


@with_share_groups(**NODE)
async def test_records_of_a_member_whose_connection_ends_are_there_for_others_at_once(scene):
    node, client = scene
    topic_id = await prepared(client, 5)
    lost, other = WireMember(await node.client(), topic_id, "lost"), WireMember(client, topic_id, "other")
    assert await lost.take(0) == [(0, 0, 4, 1)]
    waiting = other.fetch_later(0, wait_ms=100_000)
    await asyncio.sleep(1)
    assert not waiting.done()
    before = node.loop.time()
    lost.client.close()
    (topic,) = (await waiting).responses
    assert [(p.first_offset, p.last_offset, p.delivery_count) for p in topic.partitions[0].acquired_records] == [
        (0, 4, 2)
    ]
    assert node.loop.time() - before < 1


@with_share_groups(**NODE)
async def test_renewed_records_stay_with_their_member(scene):
    node, client = scene
    topic_id = await prepared(client, 3, record_lock_duration_ms=15_000)
    holder, other = WireMember(client, topic_id, "holder"), WireMember(await node.client(), topic_id, "other")
    assert await holder.take(0) == [(0, 0, 2, 1)]
    waiting = other.fetch_later(0, wait_ms=100_000)
    before = node.loop.time()
    for _ in range(3):
        await asyncio.sleep(10)
        assert await holder.say({0: [(0, 1, RENEW)]}, is_renew_ack=True) == {0: ErrorCode.none}
    (topic,) = (await waiting).responses
    assert [(p.first_offset, p.last_offset) for p in topic.partitions[0].acquired_records] == [(2, 2)]
    assert await holder.say({0: [(0, 1, ACCEPT)]}) == {0: ErrorCode.none}
    assert node.loop.time() - before > 30


@with_share_groups(**NODE)
async def test_after_the_end_of_the_node_unacknowledged_records_come_again_and_accepted_ones_never(scene):
    node, client = scene
    topic_id = await prepared(client, 2, 2, 2)
    member = WireMember(client, topic_id)
    assert await member.take(0) == [(0, 0, 5, 1)]
    assert await member.say({0: [(0, 0, ACCEPT), (2, 2, ACCEPT), (4, 4, RELEASE)]}) == {0: ErrorCode.none}
    await node.restart()
    client = await node.client()
    await until_coordinated(client)
    again = []
    member = WireMember(client, topic_id)
    while len(again) < 3:
        again += await member.take(*(() if member.epoch else (0,)))
    assert again == [(0, 1, 1, 1), (0, 3, 3, 1), (0, 4, 4, 2), (0, 5, 5, 1)]


@with_share_groups(**NODE)
async def test_read_committed_waits_for_the_end_of_transactions_and_passes_aborted_ones(scene):
    node, client = scene
    topic_id = await prepared(client, isolation_level="read_committed")
    member = WireMember(client, topic_id)
    write(node, 1)
    write(node, 2)
    waiting = member.fetch_later(0, wait_ms=100_000)
    await asyncio.sleep(1)
    end(node, 2, is_commit=True)
    await asyncio.sleep(1)
    assert not waiting.done(), "the first transaction is open"
    end(node, 1, is_commit=False)
    (topic,) = (await waiting).responses
    assert [(p.first_offset, p.last_offset) for p in topic.partitions[0].acquired_records] == [(1, 1)]
    assert await member.take(words={0: [(1, 1, ACCEPT)]}, wait_ms=10) == []
    assert (await described(client))[1] == 0


@with_share_groups(**NODE)
async def test_a_fetch_that_waits_hears_of_records_and_of_a_topic_that_goes(scene):
    node, client = scene
    topic_id = await prepared(client)
    member = WireMember(await node.client(), topic_id)
    waiting = member.fetch_later(0, wait_ms=100_000)
    await asyncio.sleep(1)
    await produce(client, "t", records(b"value"))
    (topic,) = (await waiting).responses
    assert values(topic.partitions[0].records) == [b"value"]
    waiting = member.fetch_later(wait_ms=100_000)
    await asyncio.sleep(1)
    await ask(client, ApiKey.DELETE_TOPICS, 6, topics=[{"name": "t", "topic_id": None}], timeout=1000)
    (topic,) = (await waiting).responses
    assert topic.partitions[0].error_code in (ErrorCode.not_leader_or_follower, ErrorCode.unknown_topic_id)
    assert (await member.fetch(wait_ms=10))[0].error_code is ErrorCode.unknown_topic_id


@with_share_groups(**NODE)
async def test_deleted_records_make_room_for_those_behind_them(scene):
    """KAFKA-19227: the window is full of records that nobody acknowledges, until they are deleted."""
    node, client = scene
    topic_id = await prepared(client, 100, 100, partition_max_record_locks=100)
    holder, other = WireMember(client, topic_id, "holder"), WireMember(await node.client(), topic_id, "other")
    assert await holder.take(0) == [(0, 0, 99, 1)]
    waiting = other.fetch_later(0, wait_ms=20_000)
    await asyncio.sleep(1)
    deleted = {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 100}]}], "timeout": 1000}
    await ask(client, ApiKey.DELETE_RECORDS, 2, **deleted)
    (topic,) = (await waiting).responses
    assert [(p.first_offset, p.last_offset) for p in topic.partitions[0].acquired_records] == [(100, 199)]


@with_share_groups(**NODE)
async def test_a_client_over_its_quota_is_sent_what_it_acquired_and_waits_after_that(scene):
    node, client = scene
    topic_id = await prepared(client)
    for _ in range(4):
        await produce(client, "t", records(b"x" * 20_000))
    entity = [{"entity_type": "client-id", "entity_name": None}]
    ops = [{"key": "consumer_byte_rate", "value": 1_000.0, "remove": False}]
    await ask(client, ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[{"entity": entity, "ops": ops}], validate_only=False)
    member = WireMember(await node.client(), topic_id)
    before, throttled_s = node.loop.time(), 0
    for offset in range(4):
        answer = await member.fetch_later(*(() if offset else (0,)), most=1)
        assert node.loop.time() - before == pytest.approx(throttled_s, abs=0.1), "the connection was muted so long"
        (topic,) = answer.responses
        assert len(values(topic.partitions[0].records)) == len(topic.partitions[0].acquired_records) == 1
        throttled_s += answer.throttle_time.total_seconds()
    assert throttled_s > 60, "80 kB, with what is free"


@with_share_groups(level=0, **NODE)
async def test_a_cluster_without_the_feature_has_no_members(scene):
    _, client = scene
    for key in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE):
        for version in (1, 2):
            answer = await ask(client, key, version, group_id="g", member_id="m")
            assert answer.error_code is ErrorCode.unsupported_version
