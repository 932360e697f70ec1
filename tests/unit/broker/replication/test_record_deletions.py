"""Records are deleted at the leader, and the answer waits for the followers."""

import asyncio
from types import SimpleNamespace

import pytest

from esp.broker.replication.record_deletions import RecordDeletion, until_settled
from esp.model.errors import ErrorCode
from esp.model.ids import NodeId
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import fetch, list_offset, ms, produce
from tests.unit.broker.replica_cluster import clustered
from tests.unit.broker.simulated_node import model, records


def delete_later(client, offset, *, timeout_ms=30_000, topic="t", partition=0, version=2):
    types = model(ApiKey.DELETE_RECORDS, version)
    wanted = types.DeleteRecordsTopic(
        name=topic, partitions=(types.DeleteRecordsPartition(partition_index=partition, offset=offset),)
    )
    return client.send(ApiKey.DELETE_RECORDS, version, types.Request(topics=(wanted,), timeout=ms(timeout_ms)))


async def delete(client, offset, **options):
    ((topic,),) = ((await delete_later(client, offset, **options)).topics,)
    (partition,) = topic.partitions
    return partition.low_watermark, partition.error_code


async def filled(cluster, count=5, **options):
    cluster.controller.create(**options)
    await cluster.applied()
    client = await cluster[1].client()
    for number in range(count):
        assert (await produce(client, "t", records(b"%d" % number))).error_code is ErrorCode.none
    return client


@clustered()
async def test_all_replicas_have_moved_their_log_start_when_it_is_answered(cluster):
    client = await filled(cluster)
    assert await delete(client, 3) == (3, ErrorCode.none)
    assert [cluster[node].log().log_start_offset for node in (1, 2, 3)] == [3, 3, 3]
    assert (await fetch(client, "t", 2)).error_code is ErrorCode.offset_out_of_range
    assert (await fetch(client, "t", 3)).error_code is ErrorCode.none
    assert await delete(client, -1) == (5, ErrorCode.none)
    assert [cluster[node].log().log_start_offset for node in (1, 2, 3)] == [5, 5, 5]
    assert (await list_offset(client, "t", -2)).offset == 5


@clustered()
async def test_it_takes_a_moment_only_though_nothing_is_produced(cluster):
    client = await filled(cluster)
    await asyncio.sleep(5)
    begun = asyncio.get_running_loop().time()
    assert await delete(client, 4) == (4, ErrorCode.none)
    assert asyncio.get_running_loop().time() - begun < 0.1


@clustered()
async def test_a_follower_that_is_silent_is_waited_for_until_the_time_is_up(cluster):
    client = await filled(cluster)
    cluster[3].kill()
    begun = asyncio.get_running_loop().time()
    assert await delete(client, 2, timeout_ms=3000) == (0, ErrorCode.request_timed_out)
    assert asyncio.get_running_loop().time() - begun == pytest.approx(3, abs=0.2)
    assert cluster[1].log().log_start_offset == 2
    assert await delete(client, 2, timeout_ms=0) == (0, ErrorCode.request_timed_out)


@clustered()
async def test_nobody_waits_for_a_broker_that_does_not_serve_any_more(cluster):
    client = await filled(cluster)
    cluster[3].kill()
    answer = delete_later(client, 2)
    await asyncio.sleep(1)
    assert not answer.done()
    cluster.controller.fence(NodeId(3))
    await cluster.until(answer.done)
    assert answer.result().topics[0].partitions[0].error_code is ErrorCode.none


@clustered()
async def test_a_deletion_is_woken_from_its_first_look_on(cluster):
    client = await filled(cluster)
    cluster[3].kill()
    assert await delete(client, 2, timeout_ms=0) == (0, ErrorCode.request_timed_out)
    hosted, view = cluster[1].hosted(), SimpleNamespace(alive={NodeId(1), NodeId(2), NodeId(3)})
    await cluster.until(lambda: RecordDeletion(hosted, 2).low_watermark({NodeId(2)}) == 2)
    loop = asyncio.get_running_loop()
    waiting = loop.create_task(until_settled(cluster[1].env.clock, view, [RecordDeletion(hosted, 2)], 30_000))
    await asyncio.sleep(0)
    begun = loop.time()
    view.alive.discard(NodeId(3))
    (wake,) = hosted.log_start_waiters
    wake()
    await waiting
    assert loop.time() - begun < 0.1, "it looks once a second besides"


@clustered()
async def test_who_waits_is_told_that_somebody_else_leads_now(cluster):
    client = await filled(cluster)
    cluster[3].kill()
    answer = delete_later(client, 2)
    await asyncio.sleep(1)
    cluster.controller.change(leader=NodeId(2), isr=(NodeId(2), NodeId(1)))
    await cluster.until(answer.done)
    partition = answer.result().topics[0].partitions[0]
    assert (partition.low_watermark, partition.error_code) == (-1, ErrorCode.not_leader_or_follower)
    assert cluster[1].hosted().log_start_waiters == {}


@clustered()
async def test_only_the_leader_deletes(cluster):
    await filled(cluster)
    client = await cluster[2].client()
    assert await delete(client, 2) == (-1, ErrorCode.not_leader_or_follower)
    assert await delete(client, 2, topic="u") == (-1, ErrorCode.unknown_topic_or_partition)
    assert await delete(client, 2, partition=7) == (-1, ErrorCode.unknown_topic_or_partition)
    assert cluster[2].log().log_start_offset == 0


async def with_a_log_start_within_a_batch(cluster, **options):
    """Batches of the offsets 0..4, 5..9, 10 and so on at brokers 1 and 2, the log starting at 7."""
    client = await filled(cluster, 0, replicas=(1, 2), **options)
    for size in (5, 5, 1, 1):
        assert (await produce(client, "t", records(*[b"x"] * size))).error_code is ErrorCode.none
    assert await delete(client, 7) == (7, ErrorCode.none)
    return client


async def with_a_third_replica(cluster):
    cluster.controller.change(replicas=(NodeId(1), NodeId(2), NodeId(3)))
    await cluster.until(lambda: 3 in cluster.controller.state().isr)


@pytest.mark.parametrize("flush_messages", [1, 1_000])
def test_a_new_replica_begins_with_the_batch_in_which_the_leaders_log_starts(flush_messages):
    @clustered()
    async def scenario(cluster):
        await with_a_log_start_within_a_batch(cluster, flush_messages=flush_messages)
        await with_a_third_replica(cluster)
        log = cluster[3].log()
        assert (log.log_start_offset, log.first_segment_offset, log.log_end_offset) == (7, 5, 12)
        assert cluster[1].bytes_of().endswith(cluster[3].bytes_of())

    scenario()


@clustered(log_segment_bytes=200)
async def test_a_replica_that_began_within_a_batch_lives_on_like_any_other(cluster):
    client = await with_a_log_start_within_a_batch(cluster)
    cluster[1].log().delete_old_segments_blocking(0)
    await with_a_third_replica(cluster)
    log = cluster[3].log()
    assert (log.log_start_offset, log.first_segment_offset) == (7, 5)
    assert await delete(client, 8) == (8, ErrorCode.none)
    assert log.log_start_offset == 8
    for power in (False, True):
        cluster[3].kill(power=power)
        await cluster[3].start()
        await cluster.until(lambda: 3 in cluster.controller.state().isr)
        assert (await produce(client, "t", records(b"y"))).error_code is ErrorCode.none
        log = cluster[3].log()
        await cluster.until(lambda log=log: log.log_end_offset == cluster[1].log().log_end_offset)
        assert cluster[3].bytes_of() == cluster[1].bytes_of()
    cluster.controller.change(leader=NodeId(3))
    await cluster.applied()
    client = await cluster[3].client()
    assert (await list_offset(client, "t", -2)).offset == 8
    assert (await produce(client, "t", records(b"z"))).error_code is ErrorCode.none
    assert await delete(client, -1) == (15, ErrorCode.none)
