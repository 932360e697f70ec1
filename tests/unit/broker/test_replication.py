"""Brokers that copy partitions from one another: what they hold, who is in sync, what happens when roles change."""

import asyncio
import uuid
from dataclasses import replace

import pytest

from esp.broker.replication.gone_logs import TOLD_ONE_BY_ONE
from esp.controller.image import ClusterDelta
from esp.model.errors import ErrorCode
from esp.model.ids import LOST_DIRECTORY, NO_NODE, UNASSIGNED_DIRECTORY, DirectoryId, NodeId
from esp.replication.partition_follower import CommittedDataLossError
from esp.replication.refused_batches import SETTLING_US
from esp.storage import log as log_module
from esp.storage.timestamp_search import search_timestamp
from tests.unit.broker.conversation import (
    fetch,
    fetch_later,
    list_offset,
    of_one_partition,
    produce,
    produce_later,
)
from tests.unit.broker.replica_cluster import clustered
from tests.unit.broker.simulated_node import RefusedError, records, values


async def filled(cluster, count=3, *, size=10, at=1, **options):
    cluster.controller.create(**options)
    await cluster.applied()
    client = await cluster[at].client()
    for number in range(count):
        answer = await produce(client, "t", records(b"%d" % number * size))
        assert answer.error_code is ErrorCode.none
    return client


# copies --------------------------------------------------------------------------------------------------------------------------------


@clustered()
async def test_what_is_acknowledged_by_all_is_on_every_replica(cluster):
    cluster.controller.create()
    await cluster.applied()
    client = await cluster[1].client()
    for number in range(5):
        answer = await produce(client, "t", records(b"%d" % number))
        assert (answer.error_code, answer.base_offset) == (0, number)
        assert all(cluster[node].log().log_end_offset > number for node in (1, 2, 3))
    await cluster.until(cluster.are_equal)


@clustered()
async def test_followers_learn_soon_what_was_committed(cluster):
    client = await filled(cluster, 1)
    for number in range(2, 5):
        await asyncio.sleep(1)
        await produce(client, "t", records(b"x"))
        for node in (2, 3):
            log = cluster[node].log()
            assert await cluster.until(lambda log=log, number=number: log.high_watermark == number) < 0.05


@clustered(replica_fetch_max_bytes=3000, replica_fetch_response_max_bytes=5000, log_segment_bytes=10_000)
async def test_large_logs_are_copied_across_segments_whatever_the_limits_of_a_fetch(cluster):
    cluster.controller.create(partitions=4, replicas=(1, 2), leader=1)
    await cluster.applied()
    client = await cluster[1].client()
    waiting = [
        produce_later(client, "t", records(b"%d" % number * 700), partition=number % 4, acks=1) for number in range(200)
    ]
    for answer in waiting:
        await answer
    for partition in range(4):
        await cluster.until(lambda partition=partition: cluster.are_equal("t", partition, among=(1, 2)))
        assert cluster[2].log("t", partition).log_end_offset == 50


@clustered(replica_fetch_max_bytes=10, replica_fetch_response_max_bytes=10)
async def test_a_batch_larger_than_the_limit_of_a_fetch_is_copied_all_the_same(cluster):
    client = await filled(cluster, 3, size=5000)
    assert (await produce(client, "t", records(b"x" * 10_000))).error_code is ErrorCode.none


@clustered(log_segment_bytes=9000)
async def test_cold_segments_are_copied(cluster):
    cluster[3].kill()
    cluster.controller.create(replicas=(1, 3), leader=1)
    cluster.controller.change(isr=(NodeId(1),))
    await cluster[1].applied()
    client = await cluster[1].client()
    for number in range(5):
        await produce(client, "t", records(b"%d" % number * 5000))
    await cluster[1].log().flush()
    for name in cluster[1].disk.listdir("/data/t-0"):
        if name.endswith(".log"):
            cluster[1].disk.make_cold(f"/data/t-0/{name}")
    await cluster[3].start()
    await cluster.until(lambda: cluster.are_equal(among=(1, 3)))
    assert cluster[3].log().log_end_offset == 5


# new leaders -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [(), (2,), (3,), (2, 3)])
def test_a_new_leader_is_followed_at_once_whoever_hears_of_it_first(late):
    @clustered()
    async def scenario(cluster):
        await filled(cluster, 3)
        cluster.controller.create("u", leader=2)  # so that there is a session already, with a request parked in it
        await asyncio.sleep(2)
        for node in late:
            cluster[node].metadata_delay_s = 0.05
        cluster[1].kill()
        cluster.controller.fail_over(NodeId(1))
        await cluster[2].applied()
        client = await cluster[2].client()
        began = cluster.loop.time()
        answer = await produce(client, "t", records(b"after"))
        assert (answer.error_code, answer.base_offset) == (0, 3)
        assert cluster.loop.time() - began < 0.15
        assert cluster[3].log().log_end_offset == 4

    scenario()


@clustered()
async def test_a_new_leader_fetches_no_more(cluster):
    await filled(cluster, 1)
    fetchers = cluster[2].replicas._roles._fetchers
    assert cluster[2].hosted() in fetchers._sources
    cluster.controller.change(leader=NodeId(2))
    await cluster.applied()
    assert cluster[2].hosted() not in fetchers._sources
    assert not any(fetcher.followed() for fetcher in fetchers._fetchers.values())


@clustered()
async def test_a_leader_that_comes_back_is_followed_at_once(cluster):
    await filled(cluster, 1)
    cluster[1].kill()
    await asyncio.sleep(10.5)
    await cluster[1].start()
    client = await cluster[1].client()
    began = cluster.loop.time()
    assert (await produce(client, "t", records(b"x"))).error_code is ErrorCode.none
    assert cluster.loop.time() - began < 0.2


@clustered()
async def test_the_tail_of_an_old_leader_that_nobody_has_is_cut(cluster):
    client = await filled(cluster, 3)
    cluster[2].kill()
    cluster[3].kill()
    for number in range(3):
        await produce(client, "t", records(b"lost %d" % number), acks=1)
    assert (cluster[1].log().log_end_offset, cluster[1].log().high_watermark) == (6, 3)
    cluster[1].kill()
    await cluster[2].start()
    await cluster[3].start()
    cluster.controller.change(leader=NodeId(2), isr=(NodeId(2), NodeId(3)))
    await cluster[2].applied()
    client = await cluster[2].client()
    await cluster.until(lambda: cluster[3].hosted().follower is not None)
    assert (await produce(client, "t", records(b"kept"))).base_offset == 3
    await cluster[1].start()
    await cluster.until(cluster.are_equal)
    assert values(cluster[1].bytes_of())[3:] == [b"kept"]


@clustered()
async def test_several_rounds_of_divergence_end_with_the_leaders_log(cluster):
    controller = cluster.controller
    controller.create(min_insync_replicas=1)
    await cluster.applied()
    # Each of two brokers leads alone in turn, over and over, while the other is away: KIP-279.
    controller.change(isr=(NodeId(1), NodeId(2)))
    for turn in range(6):
        leader, other = (1, 2) if turn % 2 else (2, 1)
        await cluster.applied()
        cluster[other].kill()
        controller.change(leader=NodeId(leader), isr=(NodeId(leader),), recovering=True)
        await cluster.applied()
        client = await cluster[leader].client()
        for _ in range(3):
            await produce(client, "t", records(b"turn %d" % turn), acks=1)
        cluster[leader].kill()
        controller.change(leader=NodeId(-1))
        await cluster[other].start()
        if turn < 5:
            await cluster[leader].start()
    controller.change(leader=NodeId(1), isr=(NodeId(1),), recovering=True)
    for node in (1, 2):
        if not cluster[node].process.alive:
            await cluster[node].start()
    await cluster.until(cluster.are_equal)


@clustered()
async def test_leader_that_may_lack_acknowledged_records_says_so_and_no_other(cluster, caplog):
    def told():
        return [record.getMessage() for record in caplog.records if "may be lost" in record.getMessage()]

    controller = cluster.controller
    controller.create(min_insync_replicas=1)
    await cluster.applied()
    await produce(await cluster[1].client(), "t", records(b"one", b"two"))
    await cluster.until(cluster.are_equal)
    controller.change(leader=NodeId(2))
    await cluster.applied()
    assert told() == []
    epoch = controller.change(leader=NodeId(3), isr=(NodeId(3),), recovering=True).leader_epoch
    await cluster.applied()
    (line,) = told()
    assert line.startswith(f"t-0 is led here from epoch {epoch} on, elected outside of the in-sync and eligible")
    assert line.endswith("acknowledged records from offset 2 on may be lost")


@clustered()
async def test_a_gap_is_no_loss_while_another_node_led_a_moment_ago(cluster):
    async def send(node, sequence):
        batch = records(b"a", producer_id=7, producer_epoch=0, base_sequence=sequence)
        return (await produce(await cluster[node].client(), "t", batch)).error_code

    cluster.controller.create()
    await cluster.applied()
    assert await send(1, 0) is ErrorCode.none
    assert await send(1, 2) is ErrorCode.out_of_order_sequence_number, "nobody led before"
    cluster.controller.change(leader=NodeId(2))
    await cluster.applied()
    assert await send(2, 2) is ErrorCode.not_leader_or_follower, "the one before it may be on its way from there"
    assert [await send(2, sequence) for sequence in (1, 2)] == [ErrorCode.none] * 2
    await asyncio.sleep(SETTLING_US / 1e6)
    assert await send(2, 4) is ErrorCode.out_of_order_sequence_number


@clustered()
async def test_a_waiting_produce_is_refused_as_soon_as_the_leader_leads_no_more(cluster):
    client = await filled(cluster, 1)
    cluster[2].kill()
    waiting = produce_later(client, "t", records(b"x"), timeout_ms=30_000)
    await asyncio.sleep(0.5)
    assert not waiting.done()
    began = cluster.loop.time()
    cluster.controller.change(leader=NodeId(3))
    assert of_one_partition(await waiting).error_code is ErrorCode.not_leader_or_follower
    assert cluster.loop.time() - began < 0.05


@clustered()
async def test_an_older_state_of_a_partition_changes_nothing(cluster):
    await filled(cluster, 1)
    old, old_delta = cluster.controller.image, cluster.controller.full_delta()
    cluster.controller.change(leader=NodeId(2))
    await cluster.applied()
    assert cluster[1].hosted().leader is None
    cluster[1].tell(old, old_delta)
    await asyncio.sleep(0.1)
    assert cluster[1].hosted().leader is None
    assert cluster[1].hosted().follower.leader_epoch == 1


@clustered()
async def test_a_partition_without_leader_serves_nobody_and_goes_on_when_it_has_one(cluster):
    client = await filled(cluster, 2)
    cluster.controller.change(leader=NodeId(-1))
    await cluster.applied()
    assert (await produce(client, "t", records(b"x"))).error_code is ErrorCode.not_leader_or_follower
    assert (await fetch(client, "t")).error_code is ErrorCode.not_leader_or_follower
    cluster.controller.change(leader=NodeId(1))
    await cluster.applied()
    assert (await produce(client, "t", records(b"x"))).base_offset == 2


@clustered()
async def test_a_new_leader_does_not_tell_the_latest_offset_before_it_has_committed_in_its_epoch(cluster):
    client = await filled(cluster, 3)
    await cluster.until(cluster.are_equal)
    assert (await list_offset(client, "t", -1)).offset == 3
    cluster[3].kill()
    await produce(client, "t", records(b"x"), acks=1)
    await cluster.until(lambda: cluster[2].log().log_end_offset == 4)
    cluster[1].kill()
    cluster.controller.change(leader=NodeId(2))
    await cluster.applied()
    client = await cluster[2].client()
    for version, code in ((4, ErrorCode.leader_not_available), (5, ErrorCode.offset_not_available)):
        assert (await list_offset(client, "t", -1, version=version)).error_code is code
    assert (await list_offset(client, "t", -2)).offset == 0
    cluster.controller.change(isr=(NodeId(2),))
    await cluster.applied()
    assert (await list_offset(client, "t", -1)).offset == 4


@clustered()
async def test_a_search_by_time_that_began_before_the_high_watermark_was_current_finds_nothing_out(
    cluster, monkeypatch
):
    client = await filled(cluster, 3)
    await cluster.until(cluster.are_equal)
    cluster[3].kill()
    await produce(client, "t", records(b"x", timestamp_ms=1_795_000_000_001), acks=1)
    await cluster.until(lambda: cluster[2].log().log_end_offset == 4)
    cluster[1].kill()
    cluster.controller.change(leader=NodeId(2))
    await cluster.applied()
    client = await cluster[2].client()
    has_begun, may_go_on = asyncio.Event(), asyncio.Event()

    async def search(*arguments):
        has_begun.set()
        await may_go_on.wait()
        return await search_timestamp(*arguments)

    monkeypatch.setattr(log_module, "search_timestamp", search)
    asking = asyncio.create_task(list_offset(client, "t", 1_795_000_000_001))
    await has_begun.wait()
    cluster.controller.change(isr=(NodeId(2),))
    await cluster.applied()
    may_go_on.set()
    assert (await asking).error_code is ErrorCode.offset_not_available
    assert (await list_offset(client, "t", 1_795_000_000_001)).offset == 3


# the in-sync set -----------------------------------------------------------------------------------------------------------------------


@clustered(replica_lag_time_max_ms=2000)
async def test_a_replica_that_lags_leaves_the_set_and_comes_back_when_it_has_caught_up(cluster):
    client = await filled(cluster, 1)
    cluster[3].kill()
    began = cluster.loop.time()
    assert (await produce(client, "t", records(b"x"))).error_code is ErrorCode.none
    assert 1.5 < cluster.loop.time() - began < 3.5, "it waited for the set to shrink"
    assert cluster.controller.state().isr == (1, 2)
    await cluster[3].start()
    await cluster.until(lambda: set(cluster.controller.state().isr) == {1, 2, 3})
    await cluster.until(cluster.are_equal)


@clustered(replica_lag_time_max_ms=2000)
async def test_idle_replicas_stay_in_sync_for_ever(cluster):
    client = await filled(cluster, 1, partitions=3)
    await asyncio.sleep(60)
    assert not cluster.controller.altered
    for _ in range(20):
        await asyncio.sleep(0.9)
        await produce(client, "t", records(b"x"))
    assert not cluster.controller.altered


@clustered(replica_lag_time_max_ms=2000)
async def test_a_fenced_replica_is_not_taken_back_before_it_is_unfenced(cluster):
    client = await filled(cluster, 1)
    cluster.controller.fence(3)
    cluster.controller.change(isr=(NodeId(1), NodeId(2)))
    await cluster.applied()
    await produce(client, "t", records(b"x"))
    await asyncio.sleep(5)
    assert cluster.controller.state().isr == (1, 2)
    cluster.controller.fence(3, fenced=False)
    assert await cluster.until(lambda: len(cluster.controller.state().isr) == 3) < 0.1


@clustered(replica_lag_time_max_ms=2000)
async def test_produce_is_refused_below_the_minimum_of_in_sync_replicas(cluster):
    client = await filled(cluster, 1, min_insync_replicas=2)
    cluster[2].kill()
    cluster[3].kill()
    answer = await produce(client, "t", records(b"x"))
    assert answer.error_code in (ErrorCode.not_enough_replicas_after_append, ErrorCode.request_timed_out)
    await cluster.until(lambda: cluster.controller.state().isr == (1,))
    await cluster.applied()
    assert (await produce(client, "t", records(b"y"))).error_code is ErrorCode.not_enough_replicas
    assert (await produce(client, "t", records(b"z"), acks=1)).error_code is ErrorCode.none
    assert cluster[1].log().high_watermark == 1
    await cluster[2].start()
    await cluster.until(lambda: cluster[1].log().high_watermark == 3)


@clustered(replica_lag_time_max_ms=2000)
async def test_a_lesser_minimum_commits_nothing_at_a_leader_that_the_same_metadata_replaces(cluster):
    client = await filled(cluster, min_insync_replicas=2)
    for node in (2, 3):
        cluster[node].kill()
    assert (await produce(client, "t", records(b"of nobody else"), acks=1)).error_code is ErrorCode.none
    await cluster.until(lambda: cluster.controller.state().isr == (1,))
    await cluster[1].applied()
    await asyncio.sleep(5)
    hosted = cluster[1].hosted()
    before = hosted.log.high_watermark
    assert before < hosted.log.log_end_offset
    # While this leader is cut off, one of the eligible is elected, and the minimum becomes 1: it hears of both at once.
    image = cluster.controller.image
    topic = image.topics_by_name["t"]
    (state,) = topic.partitions
    state = replace(
        state,
        leader=NodeId(3),
        leader_epoch=state.leader_epoch + 1,
        partition_epoch=state.partition_epoch + 1,
        isr=(NodeId(3),),
    )
    topic = replace(topic, partitions=(state,), configs={"min.insync.replicas": "1"})
    image = replace(image, offset=image.offset + 1, topics_by_name={"t": topic}, topics_by_id={topic.topic_id: topic})
    delta = ClusterDelta(
        changed_partitions={topic.topic_id: frozenset([0])}, changed_topic_configs=frozenset([topic.topic_id])
    )
    await cluster[1].replicas.apply(image, delta, cluster[1].metadata.publish)
    assert hosted.leader is None
    assert hosted.log.high_watermark == before, "nothing is committed that the new leader does not have"


@clustered(replica_lag_time_max_ms=2000)
async def test_a_change_of_the_set_that_is_not_answered_is_sent_again(cluster):
    client = await filled(cluster, 1)
    cluster.controller.lossy = 1
    cluster[3].kill()
    answer = await produce(client, "t", records(b"x"), timeout_ms=60_000)
    assert answer.error_code is ErrorCode.none
    assert cluster.controller.state().isr == (1, 2)


@clustered(replica_lag_time_max_ms=2000)
async def test_what_waits_for_a_change_of_the_set_goes_on_with_the_answer_before_the_metadata_comes(cluster):
    client = await filled(cluster, 1)
    cluster[1].metadata_delay_s = 20
    cluster[3].kill()
    began = cluster.loop.time()
    assert (await produce(client, "t", records(b"x"))).error_code is ErrorCode.none
    assert cluster.loop.time() - began < 4


@clustered(replica_lag_time_max_ms=2000)
async def test_one_request_changes_the_sets_of_all_partitions(cluster):
    cluster.controller.create(partitions=50, leader=1)
    await cluster.applied()
    client = await cluster[1].client()
    for partition in range(50):
        await produce(client, "t", records(b"x"), partition=partition)
    cluster[3].kill()
    waiting = [produce_later(client, "t", records(b"y"), partition=partition) for partition in range(50)]
    for answer in waiting:
        assert of_one_partition(await answer).error_code is ErrorCode.none
    assert len(cluster.controller.altered) <= 3


# whoever may read ------------------------------------------------------------------------------------------------------------------------


@clustered()
async def test_a_follower_serves_consumers_up_to_what_it_knows_to_be_committed(cluster):
    await filled(cluster, 3)
    await cluster.until(cluster.are_equal)
    client = await cluster[2].client()
    assert values((await fetch(client, "t", version=12)).records) == [b"%d" % number * 10 for number in range(3)]
    waiting = fetch_later(client, [("t", 0, 3)], max_wait_ms=5000)
    await produce(await cluster[1].client(), "t", records(b"new"))
    began = cluster.loop.time()
    assert values(of_one_partition(await waiting).records) == [b"new"]
    assert cluster.loop.time() - began < 0.05
    assert (await fetch(client, "t", version=10)).error_code is ErrorCode.not_leader_or_follower
    assert (await produce(client, "t", records(b"x"))).error_code is ErrorCode.not_leader_or_follower
    cluster.controller.change(isr=(NodeId(1),))
    await cluster.applied()
    assert (await fetch(client, "t", version=12)).error_code is ErrorCode.not_leader_or_follower


@clustered()
async def test_a_consumer_is_sent_to_the_replica_in_its_rack(cluster):
    for node, rack in ((1, "a"), (2, "b"), (3, "c")):
        cluster[node].kill()
        await cluster[node].start(broker_rack=rack, replica_selector_class="x")
    client = await filled(cluster, 3)
    for rack, nearest in (("a", -1), ("b", 2), ("c", 3), ("d", -1), ("", -1)):
        answer = await fetch(client, "t", rack_id=rack)
        assert answer.preferred_read_replica == nearest
        assert bool(answer.records) == (nearest == -1)
    began = cluster.loop.time()
    answer = of_one_partition(await fetch_later(client, [("t", 0, 3)], rack_id="b", max_wait_ms=5000))
    assert answer.preferred_read_replica == 2
    assert cluster.loop.time() - began < 0.1
    cluster.controller.fence(2)
    await cluster.applied()
    assert (await fetch(client, "t", rack_id="b")).preferred_read_replica == -1


# replicas come and go ------------------------------------------------------------------------------------------------------------------


@clustered(log_segment_bytes=1500)
async def test_a_new_replica_begins_where_the_leaders_log_begins(cluster):
    client = await filled(cluster, 10, size=500, replicas=(1, 2), retention_bytes=2000, file_delete_delay_ms=0)
    cluster[1].log().delete_old_segments_blocking(cluster[1].env.clock.wall_ms())
    start = cluster[1].log().log_start_offset
    assert start > 0
    state = cluster.controller.state()
    cluster.controller.change(replicas=(*state.replicas, NodeId(3)))
    await cluster.until(lambda: 3 in cluster.controller.state().isr)
    assert cluster[3].log().log_start_offset == start
    assert (await produce(client, "t", records(b"x"))).error_code is ErrorCode.none
    assert values(cluster[3].bytes_of()) == values(cluster[1].bytes_of())


@clustered()
async def test_a_replica_that_should_be_here_no_more_is_put_aside_after_the_metadata_says_so(cluster):
    client = await filled(cluster, 3)
    cluster.controller.change(replicas=(NodeId(1), NodeId(2)), isr=(NodeId(1), NodeId(2)))
    await cluster.applied()
    assert cluster[3].hosted() is None
    names = [name for name in cluster[3].disk.listdir("/data") if name.startswith("t-0")]
    assert len(names) == 1
    assert names[0].endswith("-delete")
    assert (await produce(client, "t", records(b"x"))).error_code is ErrorCode.none
    cluster.controller.change(replicas=(NodeId(1), NodeId(2), NodeId(3)))
    await cluster.until(lambda: 3 in cluster.controller.state().isr)
    await cluster.until(cluster.are_equal)


@clustered()
async def test_a_deleted_topic_goes_everywhere_and_one_of_its_name_begins_empty(cluster):
    await filled(cluster, 3)
    cluster.controller.delete()
    await cluster.applied()
    assert all(cluster[node].hosted() is None for node in (1, 2, 3))
    await filled(cluster, 1)
    await cluster.until(cluster.are_equal)
    assert cluster[3].log().log_end_offset == 1


@clustered()
async def test_a_broker_that_comes_back_elsewhere_is_found(cluster):
    client = await filled(cluster, 3)
    cluster[1].kill()
    cluster[1].address = cluster[1].address._replace(port=9999)
    await cluster[1].start()
    client = await cluster[1].client()
    answer = await produce(client, "t", records(b"x"))
    assert (answer.error_code, answer.base_offset) == (0, 3)


# the disk --------------------------------------------------------------------------------------------------------------------------------


@clustered()
async def test_with_flush_messages_1_every_copy_is_flushed_before_the_answer(cluster):
    client = await filled(cluster, 0, flush_messages=1)
    for number in range(3):
        answer = await produce(client, "t", records(b"%d" % number))
        assert answer.error_code is ErrorCode.none
        assert all(cluster[node].log().recovery_point > number for node in (1, 2, 3))
    for node in (1, 2, 3):
        cluster[node].kill(power=True)
    for node in (1, 2, 3):
        await cluster[node].start()
    await cluster.until(cluster.are_equal)
    assert cluster[1].log().log_end_offset == 3


@pytest.mark.parametrize("node", [1, 2])
def test_a_log_directory_that_fails_stops_its_replicas_and_no_others(node):
    @clustered()
    async def scenario(cluster):
        broker = cluster[node]
        broker.kill()
        await broker.start(log_dirs=("/data", "/more"))
        cluster.controller.create(partitions=4, leader=1)
        await cluster.applied()
        failing = [number for number in range(4) if broker.log("t", number).path.startswith("/more")]
        assert len(failing) == 2
        broker.disk.fail("write", "/more/*.log", times=1000)
        client = await cluster[1].client()
        waiting = [produce_later(client, "t", records(b"x"), partition=number, timeout_ms=1000) for number in range(4)]
        codes = [of_one_partition(await answer).error_code for answer in waiting]
        assert all((code == 0) == (number not in failing) for number, code in enumerate(codes))
        assert broker.told_offline == [(broker.directory_ids[1],)]
        assert all(broker.hosted("t", number).is_offline == (number in failing) for number in range(4))
        await asyncio.sleep(5)
        assert broker.process.alive

    scenario()


@pytest.mark.parametrize("node", [1, 2])
def test_a_node_without_any_log_directory_left_ends_and_says_why(node):
    @clustered()
    async def scenario(cluster):
        client = await filled(cluster, 1)
        cluster[node].disk.fail("write", "/data/t-0/*.log", times=1000)
        if node == 1:
            with pytest.raises(RefusedError):
                await produce(client, "t", records(b"x"), timeout_ms=1000)
        else:
            await produce(client, "t", records(b"x"), timeout_ms=1000)
        assert not cluster[node].process.alive
        assert "/data/t-0" in cluster[node].process.end_reason
        assert "no log directory is left" in cluster[node].process.end_reason

    scenario()


@clustered()
async def test_a_replica_for_which_there_was_no_room_is_made_later(cluster):
    cluster[3].disk.fill_up(10)
    client = await filled(cluster, 0)
    assert cluster[3].hosted() is None
    assert (await produce(client, "t", records(b"x"), acks=1)).error_code is ErrorCode.none
    await cluster[3].replicas.make_missing()
    assert cluster[3].hosted() is None
    cluster[3].disk.heal()
    await cluster[3].replicas.make_missing()
    await cluster.until(cluster.are_equal)


@clustered()
async def test_a_batch_that_rots_at_the_leader_is_taken_over_by_nobody_and_holds_up_no_other_partition(cluster):
    cluster[2].kill()
    client = await filled(cluster, 0, partitions=2, replicas=(1, 2), leader=1)
    for _ in range(3):
        await produce(client, "t", records(b"x" * 100), acks=1)
    for place in range(300, 310):
        cluster[1].disk.corrupt("/data/t-0/00000000000000000000.log", place, 0xFF)
    await cluster[2].start()
    await produce(client, "t", records(b"y"), partition=1)
    await cluster.until(lambda: cluster.are_equal("t", 1, among=(1, 2)))
    await asyncio.sleep(5)
    assert cluster[2].log("t", 0).log_end_offset == 1
    assert len(values(cluster[2].bytes_of("t", 0))) == 1


@clustered()
async def test_the_controller_is_told_in_which_directory_a_replica_is(cluster):
    broker = cluster[2]
    broker.kill()
    await broker.start(log_dirs=("/data", "/more"))
    unassigned = cluster.controller.image.brokers[NodeId(1)].log_dirs[0]
    cluster.controller.create(partitions=4, leader=1)
    for number in range(4):
        cluster.controller.change("t", number, directories=(unassigned, unassigned, unassigned))

    def all_told():
        return all(
            cluster.controller.state("t", number).directories[1]
            == broker.directory_ids[broker.log("t", number).path.startswith("/more")]
            for number in range(4)
        )

    await cluster.applied()
    await cluster.until(all_told)
    await cluster.until(lambda: {message.broker_id for message in cluster.controller.assigned} == {2, 3})
    count = len(cluster.controller.assigned)
    await asyncio.sleep(10)
    assert len(cluster.controller.assigned) == count


@clustered()
async def test_a_broker_that_starts_tells_where_its_replicas_are(cluster):
    controller, broker = cluster.controller, cluster[3]
    controller.create(replicas=(3,), leader=3)
    await cluster.applied()
    broker.kill()
    controller.change(directories=(cluster[1].directory_ids[0],))  # as after a move by hand
    await broker.start()
    await cluster.until(lambda: controller.state().directories == (broker.directory_ids[0],))


@clustered()
async def test_the_controller_learns_of_a_replica_that_was_stopped(cluster):
    client = await filled(cluster)
    controller, broker = cluster.controller, cluster[3]
    controller.change(directories=tuple(cluster[node].directory_ids[0] for node in (1, 2, 3)))
    await cluster.applied()
    broker.replicas.take_offline(broker.hosted(), CommittedDataLossError("its leader has another log"))
    await cluster.until(lambda: controller.state().directories[2] == LOST_DIRECTORY)
    await cluster.applied()
    count = len(controller.assigned)
    controller.change(isr=(NodeId(1), NodeId(2)))  # what the controller makes of it
    assert (await produce(client, "t", records(b"x"))).error_code is ErrorCode.none
    await asyncio.sleep(5)
    assert controller.state().isr == (1, 2)
    assert len(controller.assigned) == count, "it is told once"
    broker.kill()
    await broker.start()
    await cluster.until(lambda: controller.state().directories[2] == broker.directory_ids[0])
    await cluster.until(lambda: set(controller.state().isr) == {1, 2, 3})


def test_of_many_logs_that_are_gone_some_are_told_one_by_one(caplog):
    @clustered()
    async def scenario(cluster):
        cluster.controller.create(partitions=TOLD_ONE_BY_ONE + 3)
        await cluster.applied()
        broker = cluster[3]
        paths = [broker.log("t", number).path for number in range(TOLD_ONE_BY_ONE + 3)]
        broker.kill()
        for path in paths:
            for name in broker.disk.listdir(path):
                broker.disk.remove(f"{path}/{name}")
        await broker.start()

    scenario()
    assert sum("the log of t-" in line and " is gone: " in line for line in caplog.messages) == TOLD_ONE_BY_ONE
    assert "so are the logs of 3 more partitions" in caplog.messages


@clustered()
async def test_one_that_has_nothing_and_could_fetch_nothing_says_so_when_nobody_is_known_to_have_more(cluster):
    """BRK-11: its log was begun anew while a leader was there in name."""
    controller = cluster.controller
    controller.create()
    await cluster.applied()
    controller.change(isr=(), leader=NodeId(-1), elr=(NodeId(1),), directories=directories_of(cluster))
    await asyncio.sleep(3)
    assert controller.state().directories == directories_of(cluster), "somebody is known to have everything"
    controller.change(elr=(), last_known_elr=())
    await cluster.until(lambda: controller.state().directories == (LOST_DIRECTORY,) * 3)
    for hosted in (cluster[node].hosted() for node in (1, 2, 3)):
        assert hosted.log.log_end_offset == 0


@clustered()
async def test_one_with_nothing_on_a_new_disk_says_so_though_another_replica_is_eligible(cluster):
    """ELECT-1.5: an unclean election finds it then; in the directory that the controller knows it would be offline for ever."""
    controller, broker = cluster.controller, cluster[3]
    controller.create()
    await cluster.applied()
    replaced = DirectoryId(uuid.UUID(int=99))
    controller.change(isr=(), leader=NO_NODE, elr=(NodeId(1),), directories=(*directories_of(cluster)[:2], replaced))
    await cluster.until(lambda: controller.state().directories == (*directories_of(cluster)[:2], LOST_DIRECTORY))
    assert broker.hosted().log.log_end_offset == 0


@clustered()
async def test_one_that_has_records_does_not_say_that_it_has_none(cluster):
    await filled(cluster)
    controller = cluster.controller
    controller.change(directories=directories_of(cluster))
    await cluster.applied()
    count = len(controller.assigned)
    controller.change(isr=(), leader=NodeId(-1), elr=(), last_known_elr=())
    await asyncio.sleep(3)
    assert len(controller.assigned) == count


def directories_of(cluster):
    """The first log directory of each node."""
    return tuple(cluster[node].directory_ids[0] for node in (1, 2, 3))


@clustered()
async def test_a_log_that_is_gone_stays_so_for_the_controller_until_somebody_leads(cluster):
    """BRK-11: metadata of before it knew must not make the broker tell of the new log, in which nothing is."""
    await filled(cluster)
    controller, broker = cluster.controller, cluster[3]
    controller.change(directories=tuple(cluster[node].directory_ids[0] for node in (1, 2, 3)))
    await cluster.applied()
    path = broker.log().path
    broker.kill()
    for name in broker.disk.listdir(path):
        broker.disk.remove(f"{path}/{name}")
    controller.change(leader=NO_NODE, isr=(), elr=(NodeId(2),))
    await broker.start()
    await asyncio.sleep(5)
    assert broker.log().log_end_offset == 0
    assert controller.state().directories[2] == LOST_DIRECTORY
    assert len(controller.assigned) == 1
    controller.change(leader=NodeId(2), isr=(NodeId(2),), elr=())
    await cluster.until(lambda: controller.state().directories[2] == broker.directory_ids[0])


@clustered()
async def test_a_log_that_is_gone_stays_so_though_the_metadata_at_hand_still_has_its_broker_eligible(cluster):
    """BRK-11: the log was begun anew in another directory, and the controller would take it for the one that had moved there."""
    await filled(cluster)
    controller, broker = cluster.controller, cluster[3]
    broker.kill()
    await broker.start(log_dirs=("/data", "/more"))
    controller.change(directories=(*directories_of(cluster)[:2], broker.directory_ids[1]))
    await cluster.applied()
    path = broker.log().path
    broker.kill()
    for name in broker.disk.listdir(path):
        broker.disk.remove(f"{path}/{name}")
    controller.change(leader=NO_NODE, isr=(), elr=(NodeId(3),))
    eligible = controller.image.offset
    broker.metadata_delay_s = 5.0
    start = asyncio.create_task(broker.start())
    await cluster.until(lambda: controller.assigned)
    assert controller.state().directories[2] == LOST_DIRECTORY
    await cluster.until(lambda: eligible < broker.replicas.applied_offset < controller.image.offset)
    await asyncio.sleep(2)
    assert broker.replicas.image.topics_by_name["t"].partitions[0].elr == (3,)
    assert len(controller.assigned) == 1, "of the new log, in which nothing is, the controller is not told"
    start.cancel()


@clustered()
async def test_the_controller_is_told_of_replicas_in_a_failed_directory_that_it_did_not_know_there(cluster):
    controller, broker = cluster.controller, cluster[2]
    broker.kill()
    await broker.start(log_dirs=("/data", "/more"))
    controller.create(partitions=2, leader=1)
    await cluster.applied()
    (failing,) = [number for number in range(2) if broker.log("t", number).path.startswith("/more")]
    broker.disk.fail("write", "/more/*.log", times=1000)
    client = await cluster[1].client()
    await produce(client, "t", records(b"x"), partition=failing, acks=1)
    await cluster.until(lambda: broker.hosted("t", failing).is_offline)
    controller.change("t", failing, directories=(UNASSIGNED_DIRECTORY,) * 3)
    await cluster.until(lambda: controller.state("t", failing).directories[1] == broker.directory_ids[1], within_s=30)


@clustered()
async def test_a_replica_whose_directory_failed_is_not_taken_back_though_it_was_in_sync(cluster):
    await filled(cluster)
    controller = cluster.controller
    directories = tuple(cluster[node].directory_ids[0] for node in (1, 2, 3))
    controller.change(directories=directories)
    await cluster.applied()
    failed = replace(controller.image.brokers[NodeId(3)], log_dirs=(DirectoryId(uuid.UUID(int=99)),))
    controller.publish(brokers={**controller.image.brokers, NodeId(3): failed})
    controller.change(isr=(NodeId(1), NodeId(2)))
    await cluster.applied()
    before = len(controller.altered)
    await asyncio.sleep(5)
    assert controller.state().isr == (1, 2)
    assert len(controller.altered) <= before + 1, "nobody asks for it over and over"
    restored = replace(failed, log_dirs=(directories[2],))
    controller.publish(brokers={**controller.image.brokers, NodeId(3): restored})
    await cluster.until(lambda: set(controller.state().isr) == {1, 2, 3})


# rot -----------------------------------------------------------------------------------------------------------------------------------


@clustered(log_segment_bytes=1000)
async def test_a_leader_that_has_rotted_says_so_serves_no_rot_and_is_fetched_anew_when_others_lead(cluster):
    """REC-4: its files are put aside only when nobody counts on them."""
    client = await filled(cluster, 5, size=300)
    leader = cluster[1]
    cluster.controller.change(directories=(UNASSIGNED_DIRECTORY,) * 3)
    await cluster.until(lambda: UNASSIGNED_DIRECTORY not in cluster.controller.state().directories)
    await cluster.until(cluster.are_equal)
    before = leader.log()
    await leader.replicas.flush(leader.hosted())
    leader.disk.content(f"{before.path}/{0:020d}.log").rot(200, 1)
    answer = await fetch(client, "t", 0)
    assert answer.error_code is ErrorCode.corrupt_message
    assert not answer.records
    await cluster.until(lambda: cluster.controller.state().directories[0] == LOST_DIRECTORY)
    await cluster.applied()
    assert leader.log() is before
    cluster.controller.change(isr=(NodeId(2), NodeId(3)), leader=NodeId(2), elr=(NodeId(1),))
    await cluster.applied()
    assert leader.log() is before
    cluster.controller.change(elr=())
    await cluster.applied()
    await cluster.until(lambda: leader.hosted().follower.leader_has_answered)
    await leader.replicas.make_missing()
    await cluster.until(cluster.are_equal)
    assert leader.log() is not before
    assert cluster.controller.state().directories[0] != LOST_DIRECTORY
    await cluster.until(lambda: NodeId(1) in cluster.controller.state().isr)


@clustered(log_segment_bytes=1000)
async def test_a_follower_takes_nothing_over_from_a_leader_that_has_rotted(cluster):
    await filled(cluster, 5, size=300, replicas=(1, 2))
    await cluster[1].replicas.flush(cluster[1].hosted())
    cluster[1].disk.content(f"{cluster[1].log().path}/{0:020d}.log").rot(200, 1)
    cluster.controller.change(replicas=(NodeId(1), NodeId(2), NodeId(3)))
    await cluster.until(lambda: cluster[1].log().rot is not None)
    await asyncio.sleep(1)
    assert cluster[3].log().log_end_offset == 0
