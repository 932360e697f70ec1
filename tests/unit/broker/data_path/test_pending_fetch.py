"""Fetch requests that wait, that are cut to a size, that need the device: through a whole node, which wakes them."""

import asyncio
import gc

import pytest

from esp.broker.data_path.pending_fetch import PendingFetch
from esp.model.errors import ErrorCode
from tests.unit.broker.conversation import create_topic, delete_topic, fetch, fetch_later, of_one_partition, produce
from tests.unit.broker.simulated_node import RefusedError, records, simulated, values

SEGMENT = "/data/t-0/00000000000000000000.log"


async def filled(node, count=3, size=100, topic="t", **configs):
    client = await node.client()
    await create_topic(client, topic, **configs)
    for number in range(count):
        await produce(client, topic, records(b"%d" % number * size))
    return client


def parts_of(answer):
    """(topic, partition, error, number of values) of each partition of an answer, in its order."""
    return [
        (topic.topic, part.partition_index, int(part.error_code), len(values(part.records)))
        for topic in answer.responses
        for part in topic.partitions
    ]


@simulated()
async def test_only_a_leader_that_knows_that_it_leads_says_that_an_offset_does_not_exist(node):
    client = await filled(node)
    assert (await fetch(client, "t", 9)).error_code is ErrorCode.offset_out_of_range
    node.process.pause()
    node.loop.call_later(30, node.process.resume)
    behind = fetch_later(client, [("t", 0, 9)])
    await asyncio.sleep(29)
    assert not behind.done()
    assert of_one_partition(await behind).error_code is ErrorCode.not_leader_or_follower
    await asyncio.sleep(1)
    assert (await fetch(client, "t", 9)).error_code is ErrorCode.offset_out_of_range


# waiting ---------------------------------------------------------------------------------------------------------------------------


@simulated()
async def test_a_fetch_at_the_end_is_answered_when_something_is_committed(node):
    client = await filled(node, 0)
    waiting = fetch_later(client, [("t", 0, 0)], max_wait_ms=30_000)
    await asyncio.sleep(10)
    assert not waiting.done()
    before = node.loop.time()
    await produce(await node.client(), "t", records(b"new"))
    assert values(of_one_partition(await waiting).records) == [b"new"]
    assert node.loop.time() - before < 0.01


@simulated()
async def test_a_fetch_that_finds_nothing_is_answered_empty_when_its_time_is_up(node):
    client = await filled(node)
    before = node.loop.time()
    answer = of_one_partition(await fetch_later(client, [("t", 0, 3)], max_wait_ms=500))
    assert 0.5 <= node.loop.time() - before < 0.51
    assert (answer.error_code, answer.records, answer.high_watermark) == (0, b"", 3)
    assert not node.hosted("t")._waiters


@pytest.mark.parametrize("is_answered", [True, False], ids=["answered", "client gone"])
def test_a_fetch_that_waited_is_in_no_circle(is_answered):
    """Circles are found late: each would keep its connection, and the buffer of that, for a minute."""

    @simulated()
    async def scenario(node):
        client = await filled(node)
        waiting = fetch_later(client, [("t", 0, 3)], max_wait_ms=500)
        gc.collect()
        gc.disable()
        try:
            await asyncio.sleep(0.1)
            assert sum(isinstance(found, PendingFetch) for found in gc.get_objects()) == 1
            if is_answered:
                await waiting
            client.close()
            await asyncio.sleep(1)
            await asyncio.gather(waiting, return_exceptions=True)
            assert not any(isinstance(found, PendingFetch) for found in gc.get_objects())
        finally:
            gc.enable()

    scenario()


@simulated()
async def test_nothing_waits_any_longer_for_a_client_that_has_gone(node):
    client = await filled(node)
    waiting = fetch_later(client, [("t", 0, 3)], max_wait_ms=2**31 - 1)
    await asyncio.sleep(1)
    assert node.hosted("t")._waiters
    client.close()
    await asyncio.sleep(1)
    assert not node.hosted("t")._waiters
    with pytest.raises(RefusedError):
        await waiting


@simulated()
async def test_a_fetch_waits_for_min_bytes_and_is_answered_with_what_there_is_when_its_time_is_up(node):
    client, producer = await filled(node, 1), await node.client()
    waiting = fetch_later(client, [("t", 0, 0)], max_wait_ms=1000, min_bytes=500)
    await asyncio.sleep(0.1)
    await produce(producer, "t", records(b"x" * 50))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await produce(producer, "t", records(b"x" * 500))
    assert len(values(of_one_partition(await waiting).records)) == 3
    waiting = fetch_later(client, [("t", 0, 2)], max_wait_ms=1000, min_bytes=100_000)
    assert len(values(of_one_partition(await waiting).records)) == 1


@simulated()
async def test_bytes_of_all_partitions_count_towards_min_bytes(node):
    client, producer = await node.client(), await node.client()
    await create_topic(client, partitions=2)
    waiting = fetch_later(client, [("t", 0, 0), ("t", 1, 0)], max_wait_ms=10_000, min_bytes=300)
    await produce(producer, "t", records(b"x" * 200))
    assert not waiting.done()
    await produce(producer, "t", records(b"x" * 200), partition=1)
    assert [count for *_, count in parts_of(await waiting)] == [1, 1]


@simulated()
async def test_an_error_of_one_partition_is_told_at_once(node):
    client = await filled(node)
    before = node.loop.time()
    answer = await fetch_later(client, [("t", 0, 3), ("missing", 0, 0), ("t", 5, 0)], max_wait_ms=10_000)
    assert node.loop.time() - before < 0.1
    assert [error for _, _, error, _ in parts_of(answer)] == [0, 3, 3]


@simulated()
async def test_a_fetch_that_waits_is_told_when_its_topic_is_deleted(node):
    client = await filled(node)
    waiting = fetch_later(client, [("t", 0, 3)], max_wait_ms=30_000)
    await asyncio.sleep(0.1)
    await delete_topic(await node.client(), "t")
    assert of_one_partition(await waiting).error_code in (
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
    )


@simulated()
async def test_a_client_that_goes_away_leaves_nothing_behind(node):
    client = await filled(node)
    fetch_later(client, [("t", 0, 3)], max_wait_ms=10_000).cancel()
    await asyncio.sleep(0.1)
    client.close()
    await asyncio.sleep(11)
    assert not node.hosted("t")._waiters
    assert (await fetch(await node.client(), "t")).error_code is ErrorCode.none


@simulated()
async def test_records_that_are_not_committed_are_not_read(node):
    client = await filled(node, 0, flush_messages=1)
    waiting = fetch_later(client, [("t", 0, 0)], max_wait_ms=30_000)
    await asyncio.sleep(0.01)
    hosted = node.hosted("t")
    seen = []
    hosted.wait(lambda: seen.append((hosted.log.high_watermark, hosted.log.recovery_point)))
    await produce(await node.client(), "t", records(b"x"))
    assert values(of_one_partition(await waiting).records) == [b"x"]
    assert all(high_watermark <= flushed for high_watermark, flushed in seen)


@pytest.mark.parametrize(("offset", "code"), [(-1, 1), (4, 1), (2**62, 1), (0, 0), (3, 0)])
def test_an_offset_outside_of_the_log_is_out_of_range(offset, code):
    @simulated()
    async def scenario(node):
        client = await filled(node)
        assert (await fetch(client, "t", offset)).error_code == code

    scenario()


@pytest.mark.parametrize(("epoch", "code"), [(-1, 0), (0, 0), (1, 75), (7, 75)])
def test_a_client_of_another_leader_epoch_is_refused(epoch, code):
    @simulated()
    async def scenario(node):
        client = await filled(node)
        answer = of_one_partition(await fetch_later(client, [("t", 0, 0, 1 << 20, epoch)]))
        assert answer.error_code == code
        await node.restart()
        client = await node.client()
        answer = of_one_partition(await fetch_later(client, [("t", 0, 0, 1 << 20, 0)]))
        assert answer.error_code is ErrorCode.fenced_leader_epoch

    scenario()


# sizes -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 1, 100, -1, -1000, -(2**31)])
@pytest.mark.parametrize("which", ["max_bytes", "partition_max_bytes"])
def test_the_first_batch_comes_whatever_its_size_and_nothing_more_than_the_limit(which, limit):
    @simulated()
    async def scenario(node):
        client = await filled(node)
        assert values((await fetch(client, "t", 1, **{which: limit})).records) == [b"1" * 100]

    scenario()


@simulated()
async def test_only_the_first_partition_with_records_may_exceed_the_limit(node):
    client = await node.client()
    await create_topic(client, partitions=3)
    for partition in (1, 2):
        await produce(client, "t", records(b"x" * 1000), partition=partition)
    answer = await fetch_later(client, [("t", 0, 0, 10), ("t", 1, 0, 10), ("t", 2, 0, 10)])
    assert [count for *_, count in parts_of(answer)] == [0, 1, 0]


@simulated()
async def test_partitions_after_the_limit_are_answered_without_records(node):
    client = await node.client()
    await create_topic(client, partitions=2)
    for partition in (0, 1):
        await produce(client, "t", records(b"x" * 1000), partition=partition)
    answer = await fetch_later(client, [("t", 0, 0), ("t", 1, 0)], max_bytes=1000)
    assert [count for *_, count in parts_of(answer)] == [1, 0]


@simulated()
async def test_of_one_partition_no_more_is_read_at_once_than_is_quickly_looked_for_in_the_page_cache(node):
    """A client that wants more at once is not kept waiting for it."""
    client = await filled(node, 10, size=900_000)
    begun_s = node.loop.time()
    waiting = fetch_later(
        client, [("t", 0, 0, 10_000_000)], max_bytes=100_000_000, min_bytes=8_900_000, max_wait_ms=10_000
    )
    assert [count for *_, count in parts_of(await waiting)] == [9]
    assert node.loop.time() - begun_s < 1


@simulated(fetch_max_bytes=1000)
async def test_the_nodes_own_limit_counts_too(node):
    client = await filled(node, 3, size=600)
    assert len(values((await fetch(client, "t")).records)) == 1


# the device ------------------------------------------------------------------------------------------------------------------------


async def make_cold(node):
    await node.log("t").flush()
    node.disk.make_cold(SEGMENT)


@simulated()
async def test_cold_records_are_read_off_the_loop_and_hold_up_nobody_else(node):
    client, other = await filled(node, 3, size=5000), await node.client()
    await make_cold(node)
    cold = fetch_later(client, [("t", 0, 0)])
    await asyncio.sleep(0)
    assert not cold.done()
    assert values(of_one_partition(await cold).records) == [b"%d" % number * 5000 for number in range(3)]
    assert values((await fetch(other, "t", 2)).records) == [b"2" * 5000]


@simulated()
async def test_a_cold_fetch_of_many_partitions_is_answered_like_a_warm_one(node):
    client = await filled(node, 3, size=5000)
    await create_topic(client, "u")
    await produce(client, "u", records(b"u"))
    parts = [("u", 0, 0), ("t", 0, 1), ("missing", 0, 0), ("t", 0, 99)]
    warm = await fetch_later(client, parts)
    await make_cold(node)
    assert await fetch_later(client, parts) == warm


@simulated()
async def test_requests_behind_a_cold_fetch_of_the_same_connection_keep_their_order(node):
    client = await filled(node, 3, size=5000)
    await make_cold(node)
    first = fetch_later(client, [("t", 0, 0)])
    second = fetch_later(client, [("missing", 0, 0)])
    assert parts_of(await first)[0][3] == 3
    assert parts_of(await second)[0][2] == 3


@simulated()
async def test_a_partition_that_turns_cold_while_its_fetch_waits_is_answered_at_the_latest_when_time_is_up(node):
    client, producer = await filled(node, 1, size=5000), await node.client()
    waiting = fetch_later(client, [("t", 0, 0)], max_wait_ms=2000, min_bytes=6000)
    await asyncio.sleep(0.1)
    await make_cold(node)
    await produce(producer, "t", records(b"x" * 5000))
    assert of_one_partition(await waiting).error_code is ErrorCode.none
    assert len(values((await fetch(client, "t")).records)) == 2


@simulated()
async def test_a_device_that_fails_costs_its_partition_an_error_and_the_node_nothing(node):
    client = await filled(node, 3, size=5000)
    await create_topic(client, "u")
    await produce(client, "u", records(b"u"))
    await make_cold(node)
    node.disk.fail("read", "*/t-0/*.log", times=1000)
    answer = await fetch_later(client, [("t", 0, 0), ("u", 0, 0)])
    assert parts_of(answer) == [("t", 0, 56, 0), ("u", 0, 0, 1)]


@simulated()
async def test_a_broken_batch_costs_its_partition_an_error_and_the_node_nothing(node):
    client = await filled(node, 3, size=200)
    for place in range(8, 12):
        node.disk.corrupt(SEGMENT, place, 0xFF)
    answer = await fetch(client, "t", partition_max_bytes=100)
    assert answer.error_code is ErrorCode.corrupt_message
    assert (await fetch(client, "missing")).error_code is ErrorCode.unknown_topic_or_partition


@simulated()
async def test_a_topic_deleted_while_its_cold_records_are_read_costs_no_more_than_an_error(node):
    for pause_us in range(0, 4000, 400):
        client = await filled(node, 3, size=5000, file_delete_delay_ms=0)
        await make_cold(node)
        cold = fetch_later(client, [("t", 0, 0)])
        await asyncio.sleep(pause_us / 1e6)
        await delete_topic(await node.client(), "t")
        node.replicas._directories.online[0].purge(node.env.clock.wall_ms())
        assert of_one_partition(await cold).error_code in (0, 3, 6, 56)


# sessions --------------------------------------------------------------------------------------------------------------------------


@simulated()
async def test_a_session_is_told_only_what_is_new(node):
    client, producer = await node.client(), await node.client()
    await create_topic(client, partitions=3)
    await produce(producer, "t", records(b"a"))
    full = await fetch_later(client, [("t", number, 0) for number in range(3)], session=(0, 0))
    assert [part for _, part, _, _ in parts_of(full)] == [0, 1, 2]
    session = full.session_id
    assert session != 0
    nothing = await fetch_later(client, [("t", 0, 1)], session=(session, 1))
    assert parts_of(nothing) == []
    await produce(producer, "t", records(b"b"), partition=2)
    news = await fetch_later(client, [], session=(session, 2))
    assert parts_of(news) == [("t", 2, 0, 1)]
    assert node.hosted("t", 2).log.high_watermark == 1


@simulated()
async def test_a_waiting_session_is_woken_by_any_of_its_partitions(node):
    client, producer = await node.client(), await node.client()
    await create_topic(client, partitions=3)
    full = await fetch_later(client, [("t", number, 0) for number in range(3)], session=(0, 0))
    waiting = fetch_later(client, [], session=(full.session_id, 1), max_wait_ms=30_000)
    await asyncio.sleep(0.1)
    await produce(producer, "t", records(b"b"), partition=1)
    assert parts_of(await waiting) == [("t", 1, 0, 1)]


@simulated()
async def test_partitions_that_gave_records_are_read_last_the_next_time(node):
    client = await node.client()
    await create_topic(client, partitions=3)
    for partition in range(3):
        for _ in range(3):
            await produce(client, "t", records(b"x" * 1000), partition=partition)
    full = await fetch_later(client, [("t", number, 0) for number in range(3)], session=(0, 0), max_bytes=1)
    seen = [next(part for _, part, _, count in parts_of(full) if count)]
    for epoch in range(1, 3):
        answer = await fetch_later(client, [], session=(full.session_id, epoch), max_bytes=1)
        seen.append(next(part for _, part, _, count in parts_of(answer) if count))
    assert seen == [0, 1, 2]


@simulated()
async def test_a_session_forgets_partitions_and_ends(node):
    client = await node.client()
    await create_topic(client, partitions=2)
    full = await fetch_later(client, [("t", 0, 0), ("t", 1, 0)], session=(0, 0))
    await fetch_later(client, [], session=(full.session_id, 1), forgotten=[("t", 0)])
    for partition in (0, 1):
        await produce(client, "t", records(b"x"), partition=partition)
    answer = await fetch_later(client, [], session=(full.session_id, 2))
    assert parts_of(answer) == [("t", 1, 0, 1)]
    last = await fetch_later(client, [("t", 0, 0)], session=(full.session_id, -1))
    assert last.session_id == 0
    gone = await fetch_later(client, [], session=(full.session_id, 3))
    assert gone.error_code is ErrorCode.fetch_session_id_not_found


@pytest.mark.parametrize(("session", "code"), [((123, 1), 70), ((None, 5), 71), ((None, 0), 0)])
def test_a_session_that_does_not_follow_is_refused(session, code):
    @simulated()
    async def scenario(node):
        client = await filled(node)
        full = await fetch_later(client, [("t", 0, 0)], session=(0, 0))
        number = full.session_id if session[0] is None else session[0]
        answer = await fetch_later(client, [], session=(number, session[1]))
        assert answer.error_code == code

    scenario()


@simulated()
async def test_a_session_tells_an_error_again_until_it_is_over(node):
    client = await filled(node)
    full = await fetch_later(client, [("u", 0, 0)], session=(0, 0))
    assert parts_of(full) == [("u", 0, 3, 0)]
    again = await fetch_later(client, [], session=(full.session_id, 1))
    assert parts_of(again) == [("u", 0, 3, 0)]
    await create_topic(client, "u")
    assert parts_of(await fetch_later(client, [], session=(full.session_id, 2))) == [("u", 0, 0, 0)]
    assert parts_of(await fetch_later(client, [], session=(full.session_id, 3))) == []
