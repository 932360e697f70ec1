"""Fetch requests for very many partitions, on a whole node: answered as others are, in slices, and while others are served."""

import asyncio

import pytest

from esp.broker.data_path import fetch_sessions
from esp.broker.data_path.long_fetch import LongFetch
from esp.broker.data_path.pending_fetch import ConsumerReads, PendingFetch
from esp.broker.request import ClientContext, Request
from esp.broker.turns.turns import Turns
from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.protocol.fetch_codec import FetchPartition
from esp.protocol.messages import encode_request
from esp.protocol.progress import AT_ONCE_ELEMENTS
from esp.protocol.registry import ApiKey
from esp.simulation.machine.clock import SimulatedClock
from tests.unit.broker.conversation import create_topic, fetch_later, fetch_request, metadata, produce
from tests.unit.broker.simulated_node import RefusedError, records, simulated, values
from tests.unit.storage.helpers import CPU

MANY = AT_ONCE_ELEMENTS + 60
WRITTEN = (0, 5, 63, 64, 65, MANY - 1)


async def filled(node):
    """A client, and a topic of many partitions with a record in some of them."""
    client = await node.client()
    await create_topic(client, partitions=MANY)
    for partition in WRITTEN:
        await produce(client, "t", records(b"%d" % partition), partition=partition)
    return client


def wanted(offset=0, partitions=range(MANY)):
    return [("t", partition, offset) for partition in partitions]


def at_the_end():
    return [("t", partition, int(partition in WRITTEN)) for partition in range(MANY)]


def parts_of(answer):
    return [part for topic in answer.responses for part in topic.partitions]


def found(answer):
    return {part.partition_index: values(part.records) for part in parts_of(answer) if part.records}


@pytest.mark.parametrize("version", [4, 11, 12])
@simulated()
async def test_every_partition_is_answered_in_its_order(node, version):
    client = await filled(node)
    answer = await fetch_later(client, wanted(), version=version)
    assert [part.partition_index for part in parts_of(answer)] == list(range(MANY))
    assert found(answer) == {partition: [b"%d" % partition] for partition in WRITTEN}
    assert {part.error_code for part in parts_of(answer)} == {ErrorCode.none}


@simulated()
async def test_it_is_answered_when_something_is_committed_anywhere(node):
    client = await filled(node)
    waiting = fetch_later(client, at_the_end(), max_wait_ms=30_000)
    await asyncio.sleep(10)
    assert not waiting.done()
    before = node.loop.time()
    await produce(await node.client(), "t", records(b"new"), partition=5)
    assert found(await waiting) == {5: [b"new"]}
    assert node.loop.time() - before < 0.02


@simulated()
async def test_it_is_answered_empty_when_its_time_is_up(node):
    client = await filled(node)
    before = node.loop.time()
    answer = await fetch_later(client, at_the_end(), max_wait_ms=500)
    assert 0.5 <= node.loop.time() - before < 0.52
    assert not found(answer)
    assert not any(node.hosted("t", partition)._waiters for partition in range(MANY))


@simulated()
async def test_it_waits_for_enough(node):
    client, producer = await filled(node), await node.client()
    waiting = fetch_later(client, at_the_end(), max_wait_ms=10_000, min_bytes=300)
    for partition in (7, 99):
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await produce(producer, "t", records(b"x" * 200), partition=partition)
    assert set(found(await waiting)) == {7, 99}


@simulated()
async def test_an_error_of_one_partition_is_told_at_once(node):
    client = await filled(node)
    before = node.loop.time()
    answer = await fetch_later(client, [*at_the_end(), ("missing", 0, 0)], max_wait_ms=10_000)
    assert node.loop.time() - before < 0.1
    assert parts_of(answer)[-1].error_code is ErrorCode.unknown_topic_or_partition


@simulated()
async def test_nothing_waits_any_longer_for_a_client_that_has_gone(node):
    client = await filled(node)
    waiting = fetch_later(client, at_the_end(), max_wait_ms=2**31 - 1)
    await asyncio.sleep(1)
    assert all(node.hosted("t", partition)._waiters for partition in range(MANY))
    client.close()
    await asyncio.sleep(1)
    assert not any(node.hosted("t", partition)._waiters for partition in range(MANY))
    with pytest.raises(RefusedError):
        await waiting


@simulated()
async def test_a_client_may_go_at_any_moment(node):
    await filled(node)
    for _ in range(20):
        client = await node.client()
        waiting = fetch_later(client, at_the_end(), max_wait_ms=2**31 - 1)
        await asyncio.sleep(node.rng.random() / 100)
        client.close()
        with pytest.raises(RefusedError):
            await waiting
    await asyncio.sleep(1)
    assert not any(node.hosted("t", partition)._waiters for partition in range(MANY))


@simulated()
async def test_who_has_gone_before_it_was_begun_is_not_waited_for(node):
    client = await filled(node)
    request = Request(ApiKey.FETCH, 12, 1, None, ClientContext("", Address("127.0.0.1", 5)), pytest.fail)
    request.abandon()
    hosted = [node.hosted("t", partition) for partition in range(MANY)]
    wanted_here = [FetchPartition("t", partition, 1, 1 << 20) for partition in range(20)]
    reads = ConsumerReads(lambda _topic, partition: hosted[partition], lambda: True)
    fetch = PendingFetch(reads, request, wanted_here, None, incremental=False, min_bytes=1, cpu=CPU, max_bytes=1 << 20)
    clock = SimulatedClock(node.loop)
    await LongFetch(fetch, request, clock, None, Turns(clock)).begin(1_000)
    assert not any(one._waiters for one in hosted)
    assert (await metadata(client, [], version=9)).brokers


@simulated()
async def test_others_are_served_meanwhile(node):
    busy, other = await filled(node), await node.client()
    await metadata(other, [], version=9)
    long = fetch_later(busy, [("missing", partition, 0) for partition in range(3_000)])
    turns = 0
    while not long.done():
        turns += 1
        assert (await metadata(other, [], version=9)).brokers
    assert turns > 1
    assert len(parts_of(await long)) == 3_000


@simulated()
async def test_what_follows_on_the_connection_is_answered_behind_it(node):
    client = await filled(node)
    sent = [fetch_later(client, wanted(0, range(count))) for count in (MANY, 1, MANY, 2)]
    assert [len(parts_of(await answer)) for answer in sent] == [MANY, 1, MANY, 2]


@simulated()
async def test_bytes_that_are_no_request_end_the_connection_and_nothing_else(node):
    client = await filled(node)
    frame = encode_request(ApiKey.FETCH, 12, 1, "c", fetch_request(wanted()))
    with pytest.raises(RefusedError):
        await client.send_frame(frame[:-500] + b"\xff" * 500, 1)
    assert (await metadata(await node.client(), [], version=9)).brokers


@simulated()
async def test_a_session_of_many_partitions_tells_news_only(node):
    client = await filled(node)
    first = await fetch_later(client, wanted(), session=(0, 0))
    assert len(parts_of(first)) == MANY
    session = first.session_id
    again = await fetch_later(client, wanted(1, WRITTEN), session=(session, 1))
    assert not parts_of(again)
    waiting = fetch_later(client, [], session=(session, 2), max_wait_ms=10_000)
    await asyncio.sleep(1)
    await produce(await node.client(), "t", records(b"new"), partition=77)
    assert found(await waiting) == {77: [b"new"]}
    forgotten = [("t", partition) for partition in range(MANY) if partition != 77]
    left = await fetch_later(client, wanted(0, [77]), session=(session, 3), forgotten=forgotten)
    assert found(left) == {77: [b"new"]}
    refused = await fetch_later(client, wanted(), session=(session, 9))
    assert refused.error_code is ErrorCode.invalid_fetch_session_epoch


@simulated()
async def test_without_room_for_its_partitions_there_is_no_session(node, monkeypatch):
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", MANY)
    client = await filled(node)
    session = (await fetch_later(client, wanted(0, range(MANY - 1)), session=(0, 0))).session_id
    assert session
    assert not (await fetch_later(client, wanted(0, [0, 1]), session=(0, 0))).session_id
    assert (await fetch_later(client, wanted(0, [MANY - 1]), session=(session, 1))).session_id == session
    more = [("missing", partition, 0) for partition in range(MANY)]
    refused = await fetch_later(client, more, session=(session, 2))
    assert refused.error_code is ErrorCode.fetch_session_id_not_found
    assert (await fetch_later(client, wanted(0, [0, 1]), session=(0, 0))).session_id
