"""What a consumer with isolation level read_committed is given: decided transactions, and the names of the aborted ones (LSO-1, LSO-2)."""

import asyncio

import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.records.batch_header import read_header, stamp
from esp.records.transaction_marker import build_marker
from tests.unit.broker.conversation import create_topic, fetch, fetch_later, list_offset, of_one_partition, produce
from tests.unit.broker.replica_cluster import clustered
from tests.unit.broker.simulated_node import model, records, simulated, values

COMMITTED = {"isolation_level": 1}


def append(node, batch, topic="t", *, is_committed=True):
    """Append as a leader does that was told that the transaction is in order."""
    hosted = node.hosted(topic)
    data = bytearray(batch)
    offset = hosted.log.log_end_offset
    hosted.log.append(data, stamp(data, read_header(data), offset, hosted.leader.leader_epoch), 0)
    if is_committed:
        hosted.leader.maybe_advance_high_watermark()
    hosted.appended()
    return offset


def write(node, producer, value=b"value", sequence=0, **options):
    return append(
        node,
        records(value, producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=True),
        **options,
    )


def end(node, producer, *, is_commit, **options):
    marker = build_marker(producer, 0, is_commit=is_commit, coordinator_epoch=3, timestamp_ms=1_795_000_000_000)
    return append(node, marker, **options)


def pairs(answer):
    aborted = answer.aborted_transactions
    return None if aborted is None else [(each.producer_id, each.first_offset) for each in aborted]


async def three_transactions(node, *, rolls=False, is_there=False):
    """One that is aborted, one that is committed, and one that stays open at offset 5."""
    client = await node.client()
    topic_id = None if is_there else await create_topic(client)
    write(node, 1, b"aborted")
    write(node, 2, b"committed")
    end(node, 1, is_commit=False)
    end(node, 2, is_commit=True)
    if rolls:
        node.log("t").roll(0)
    await produce(client, "t", records(b"plain"))
    write(node, 3, b"open")
    await produce(client, "t", records(b"hidden"))
    return client, topic_id


@pytest.mark.parametrize("version", range(4, 19))
@simulated()
async def test_the_answer_ends_at_the_last_stable_offset_and_names_the_aborted(node, version):
    client, topic_id = await three_transactions(node)
    topic = topic_id if version >= 13 else "t"
    answer = await fetch(client, topic, version=version, **COMMITTED)
    assert (answer.high_watermark, answer.last_stable_offset) == (7, 5)
    assert [value for value in values(answer.records) if len(value) > 4][-1] == b"plain"
    assert pairs(answer) == [(1, 0)]
    uncommitted = await fetch(client, topic, version=version)
    assert values(uncommitted.records)[-1] == b"hidden"
    assert pairs(uncommitted) is None
    assert (uncommitted.high_watermark, uncommitted.last_stable_offset) == (7, 5)


@simulated()
async def test_the_aborted_are_those_of_the_returned_range(node):
    client, _ = await three_transactions(node)
    assert pairs(await fetch(client, "t", 2, **COMMITTED)) == [(1, 0)]
    assert pairs(await fetch(client, "t", 3, **COMMITTED)) == []
    assert pairs(await fetch(client, "t", 1, partition_max_bytes=1, **COMMITTED)) == [(1, 0)]
    nothing = await fetch(client, "t", 5, **COMMITTED)
    assert (nothing.records, pairs(nothing)) == (b"", [])


@simulated()
async def test_errors_name_no_transactions(node):
    client, _ = await three_transactions(node)
    answer = await fetch(client, "t", 99, **COMMITTED)
    assert (answer.error_code, pairs(answer)) == (ErrorCode.offset_out_of_range, None)


@simulated()
async def test_a_waiting_fetch_is_woken_when_the_transaction_is_decided(node):
    client, _ = await three_transactions(node)
    waiting = fetch_later(client, [("t", 0, 5)], max_wait_ms=30_000, **COMMITTED)
    await produce(await node.client(), "t", records(b"more"))
    await asyncio.sleep(5)
    assert not waiting.done()
    before = node.loop.time()
    end(node, 3, is_commit=False)
    answer = of_one_partition(await waiting)
    assert node.loop.time() - before < 0.01
    assert values(answer.records)[:3] == [b"open", b"hidden", b"more"]
    assert pairs(answer) == [(3, 5)]
    assert answer.last_stable_offset == 9


@simulated()
async def test_a_marker_that_is_not_committed_decides_nothing(node):
    client, _ = await three_transactions(node)
    end(node, 3, is_commit=True, is_committed=False)
    answer = await fetch(client, "t", 5, **COMMITTED)
    assert (answer.records, answer.last_stable_offset) == (b"", 5)


@simulated()
async def test_a_session_tells_of_the_stable_offset_when_it_moved(node):
    client, _ = await three_transactions(node)
    first = await fetch_later(client, [("t", 0, 5)], session=(0, 0), **COMMITTED)
    assert of_one_partition(first).last_stable_offset == 5
    session = first.session_id
    assert not (await fetch_later(client, [], session=(session, 1), **COMMITTED)).responses
    end(node, 3, is_commit=True)
    answer = of_one_partition(await fetch_later(client, [], session=(session, 2), **COMMITTED))
    assert answer.last_stable_offset == 8
    assert (values(answer.records)[0], pairs(answer)) == (b"open", [])


@pytest.mark.parametrize("is_cold", [False, True])
@simulated()
async def test_after_a_restart_the_index_is_read_from_its_file(node, is_cold):
    client, _ = await three_transactions(node, rolls=True)
    await node.stop()
    node.settle()
    await node.start()
    client = await node.client()
    assert node.log("t").files.segments[0].aborted is None
    if is_cold:
        for name in node.names("/data/t-0"):
            node.disk.make_cold(f"/data/t-0/{name}")
    found, offset = [], 0
    while offset < 5:
        answer = await fetch(client, "t", offset, **COMMITTED)
        assert answer.last_stable_offset == 5
        data = bytes(answer.records)
        while data:
            header = read_header(data)
            offset = header.next_offset
            data = data[header.size :]
        found += pairs(answer)
    assert set(found) == {(1, 0)}


@simulated()
async def test_what_is_compacted_while_the_aborted_are_searched_for_is_read_again(node):
    """Else the answer would have aborted records of the log before, without the name of their transaction, which is gone with them."""
    await three_transactions(node, rolls=True)
    await node.stop()
    node.settle()
    await node.start()
    client = await node.client()
    log = node.log("t")
    assert log.files.segments[0].aborted is None
    search, searches = log.aborted.find_cold, []

    async def find_nothing_any_more(_log, *arguments):
        searches.append(await search(*arguments))
        log.files.unsynced.on_cut((), [])
        return []

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(log), "find_aborted_transactions", find_nothing_any_more)
        answer = await fetch(client, "t", 0, **COMMITTED)
    assert len(searches) == 1
    assert values(answer.records)[0] == b"aborted"
    assert pairs(answer) == [(1, 0)]


@simulated()
async def test_list_offsets_is_bounded_by_the_stable_offset(node):
    client, _ = await three_transactions(node)
    for timestamp, committed, uncommitted in ((-1, 5, 7), (-2, 0, 0), (-4, 0, 0)):
        assert (await list_offset(client, "t", timestamp, isolation_level=1)).offset == committed
        assert (await list_offset(client, "t", timestamp)).offset == uncommitted
    append(node, records(b"latest", timestamp_ms=1_795_000_009_000))
    for timestamp in (-3, 1_795_000_008_000):
        assert (await list_offset(client, "t", timestamp)).offset == 7
        hidden = await list_offset(client, "t", timestamp, isolation_level=1)
        assert (hidden.error_code, hidden.offset, hidden.timestamp) == (ErrorCode.none, -1, -1)
    early = await list_offset(client, "t", 1, isolation_level=1)
    assert early.offset == 0


@simulated()
async def test_describe_producers_tells_of_open_transactions_and_coordinators(node):
    client, _ = await three_transactions(node)
    types = model(ApiKey.DESCRIBE_PRODUCERS, 0)
    request = types.Request(topics=(types.TopicRequest(name="t", partition_indexes=(0,)),))
    answer = await client.call(ApiKey.DESCRIBE_PRODUCERS, 0, request)
    producers = {each.producer_id: each for each in answer.topics[0].partitions[0].active_producers}
    assert {key: (each.coordinator_epoch, each.current_txn_start_offset) for key, each in producers.items()} == {
        1: (3, -1),
        2: (3, -1),
        3: (-1, 5),
    }


@clustered()
async def test_a_follower_that_is_fed_markers_serves_the_same_and_leads_with_it(cluster):
    cluster.controller.create()
    await cluster.applied()
    await three_transactions(cluster[1], is_there=True)
    await cluster.until(cluster.are_equal)
    await cluster.until(lambda: all(cluster[number].log().high_watermark == 7 for number in (1, 2, 3)))
    states = {cluster[number].log().producers.encode() for number in (1, 2, 3)}
    assert len(states) == 1
    client = await cluster[2].client()
    answer = await fetch(client, "t", **COMMITTED)
    assert (answer.last_stable_offset, pairs(answer)) == (5, [(1, 0)])
    waiting = fetch_later(client, [("t", 0, 5)], max_wait_ms=5000, **COMMITTED)
    began = cluster.loop.time()
    end(cluster[1], 3, is_commit=False)
    assert pairs(of_one_partition(await waiting)) == [(3, 5)]
    assert cluster.loop.time() - began < 0.1
    write(cluster[1], 3, b"again", 1)
    await cluster.until(cluster.are_equal)
    cluster[1].kill()
    cluster.controller.fail_over(1)
    await cluster[2].applied()
    await cluster[3].applied()
    led = cluster[cluster.controller.state().leader]
    await cluster.until(lambda: led.log().high_watermark == 9)
    answer = await fetch(await led.client(), "t", **COMMITTED)
    assert (answer.last_stable_offset, pairs(answer)) == (8, [(1, 0), (3, 5)])
