"""The share partitions and sessions of a node: what is kept, and for how long."""

import asyncio

import pytest

from esp.model.errors import ErrorCode
from esp.schemas.share_state_records import RecordState, StateBatch
from tests.unit.broker.conversation import create_topic, delete_topic, produce
from tests.unit.broker.share.share_members import Member, MemoryPersister, leaders_of, set_group
from tests.unit.broker.simulated_node import records, simulated


@simulated()
async def test_a_request_whose_connection_has_ended_opens_no_session(node):
    topic_id = await create_topic(await node.client())
    leaders = leaders_of(node, MemoryPersister())
    member = Member(leaders)
    late = member._request(78)
    late.abandon()
    member._request = lambda _key: late
    answer = await member.fetch_later((topic_id, 0), wait_ms=0)
    assert answer.error_code is ErrorCode.share_session_not_found
    assert len(leaders._sessions) == 0
    assert member.context.at_end == []


@simulated()
async def test_names_of_groups_are_kept_with_their_share_partitions_only(node):
    client = await node.client()
    topic_id = await create_topic(client)
    leaders = leaders_of(node, MemoryPersister())
    for number in range(3):
        await Member(leaders, group=f"g{number}").fetch(wait_ms=0)
    assert leaders._settings == {}
    await Member(leaders, group="g").take((topic_id, 0), wait_ms=10)
    assert list(leaders._groups) == list(leaders._settings) == ["g"]
    await delete_topic(client, "t")
    await asyncio.sleep(1)
    assert leaders._groups == leaders._settings == {}


@simulated()
async def test_one_connection_is_watched_once(node):
    topic_id = await create_topic(await node.client())
    leaders = leaders_of(node, MemoryPersister())
    member = Member(leaders)
    for _ in range(3):
        member.epoch = 0
        await member.take((topic_id, 0), wait_ms=10)
        await member.fetch(epoch=-1)
    assert len(member.context.at_end) == 1
    member.cut()
    assert (len(leaders._sessions), len(leaders._watched)) == (0, 0)


@simulated()
async def test_settings_of_a_group_count_from_its_next_request_on(node):
    client = await node.client()
    topic_id = await create_topic(client)
    await set_group(client, auto_offset_reset="earliest")
    await produce(client, "t", records(b"value"))
    leaders = leaders_of(node, MemoryPersister())
    member = Member(leaders)
    first = await member.fetch_later((topic_id, 0), most=0, wait_ms=10)
    assert first.acquisition_lock_timeout.total_seconds() == 30
    await set_group(client, record_lock_duration_ms=20_000)
    second = await member.fetch_later()
    assert second.acquisition_lock_timeout.total_seconds() == 20
    before = node.loop.time()
    assert await Member(leaders, "other").take((topic_id, 0), wait_ms=60_000) == [(0, 0, 2)]
    assert node.loop.time() - before == pytest.approx(20, abs=0.1)


@simulated()
async def test_a_handler_counts_the_request_before_it_waits(node):
    """The next request of the connection finds the session, though this one has not been answered."""
    topic_id = await create_topic(await node.client())
    member = Member(leaders_of(node, MemoryPersister()))
    waiting = member.fetch_later((topic_id, 0), wait_ms=1_000)
    assert not waiting.done()
    assert await member.say({}) == {}
    await waiting


@simulated()
async def test_what_counts_already_is_written_again_when_no_coordinator_answered(node):
    client = await node.client()
    topic_id = await create_topic(client)
    await set_group(client, auto_offset_reset="earliest", record_lock_duration_ms=20_000)
    await produce(client, "t", records(b"value"))
    persister = MemoryPersister()
    member = Member(leaders_of(node, persister))
    assert await member.take((topic_id, 0)) == [(0, 0, 1)]
    persister.failure = ErrorCode.coordinator_not_available
    await asyncio.sleep(25)  # the lock has ended
    before = len(persister.writes)
    persister.failure = None
    await asyncio.sleep(2)
    assert [one.batches for one in persister.writes[before:]] == [(StateBatch(0, 1, RecordState.AVAILABLE, 1),)]
