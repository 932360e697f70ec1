import asyncio
import uuid

import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.conversation import create_topic, fetch, fetch_later, of_one_partition, produce
from tests.unit.broker.simulated_node import model, records, simulated, values


@pytest.mark.parametrize("version", range(4, 19))
@simulated()
async def test_records_come_as_they_were_produced(node, version):
    client = await node.client()
    topic_id = await create_topic(client)
    batches = [records(b"a", b"b"), records(b"c", codec=3)]
    for batch in batches:
        await produce(client, "t", batch)
    topic = topic_id if version >= 13 else "t"
    for isolation_level in (0, 1):
        answer = await fetch(client, topic, version=version, isolation_level=isolation_level)
        assert values(answer.records) == [b"a", b"b", b"c"]
        assert bytes(answer.records)[21:61] == batches[0][21:61], "what the checksum covers is not touched"
        assert (answer.high_watermark, answer.last_stable_offset) == (3, 3)
        assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert values((await fetch(client, topic, 1, version=version)).records) == [b"a", b"b", b"c"], "whole batches"
    assert values((await fetch(client, topic, 2, version=version)).records) == [b"c"]


@pytest.mark.parametrize("version", [4, 12, 13, 18])
@simulated()
async def test_what_is_not_there_is_an_error_of_its_partition(node, version):
    client = await node.client()
    await create_topic(client)
    answer = await fetch(client, uuid.uuid4() if version >= 13 else "u", version=version)
    assert answer.error_code is (ErrorCode.unknown_topic_id if version >= 13 else ErrorCode.unknown_topic_or_partition)


@pytest.mark.parametrize("version", [4, 12, 14, 15, 18])
@simulated()
async def test_a_node_that_is_no_replica_is_refused_records(node, version):
    client = await node.client()
    topic_id = await create_topic(client)
    await produce(client, "t", records(b"a"))
    if version >= 15:
        types = model(1, version)
        options = {"replica_state": types.ReplicaState(replica_id=2, replica_epoch=1)}
    else:
        options = {"replica_id": 2}
    topic = topic_id if version >= 13 else "t"
    for leader_epoch, code in ((0, ErrorCode.unknown_leader_epoch), (-1, ErrorCode.fenced_leader_epoch)):
        if version < 9:  # which has no leader epoch
            code = ErrorCode.fenced_leader_epoch
        parts = [(topic, 0, 0, 1 << 20, leader_epoch)]
        answer = of_one_partition(await fetch_later(client, parts, version=version, **options))
        assert answer.error_code is code


@pytest.mark.parametrize("max_wait_ms", [0, -1, -(2**31)])
@simulated()
async def test_no_time_to_wait_is_an_answer_at_once(node, max_wait_ms):
    client = await node.client()
    await create_topic(client)
    before = node.loop.time()
    answer = of_one_partition(await fetch_later(client, [("t", 0, 0)], max_wait_ms=max_wait_ms))
    assert (answer.error_code, answer.records) == (ErrorCode.none, b"")
    assert node.loop.time() - before < 0.1


@simulated(max_incremental_fetch_session_cache_slots=1)
async def test_without_room_for_a_session_the_client_is_served_without_one(node):
    clients = [await node.client() for _ in range(2)]
    await create_topic(clients[0])
    sessions = [(await fetch_later(client, [("t", 0, 0)], session=(0, 0))).session_id for client in clients]
    assert sessions[0] != 0
    assert sessions[1] == 0


@simulated()
async def test_a_session_by_name_cannot_go_on_by_id(node):
    client = await node.client()
    topic_id = await create_topic(client)
    session = (await fetch_later(client, [("t", 0, 0)], session=(0, 0))).session_id
    answer = await fetch_later(client, [(topic_id, 0, 0)], version=13, session=(session, 1))
    assert answer.error_code is ErrorCode.fetch_session_topic_id_error


@simulated()
async def test_an_answer_when_the_time_is_up_is_of_that_moment(node):
    client = await node.client()
    await create_topic(client)
    await produce(client, "t", records(b"a"))
    waiting = fetch_later(client, [("t", 0, 1)], max_wait_ms=500)
    await asyncio.sleep(0.1)
    node.log("t").raise_log_start(1)  # by retention, of which no request that waits is told
    assert of_one_partition(await waiting).log_start_offset == 1
