"""Replication throttles between brokers (THROTTLE-1 to THROTTLE-3): how long a copy takes, and who does not notice."""

import asyncio

import pytest

from esp.model.errors import ErrorCode
from esp.model.ids import NodeId
from tests.unit.broker.conversation import produce
from tests.unit.broker.replica_cluster import clustered
from tests.unit.broker.simulated_node import records

MB = 1_000_000
BATCH = 250_000
ALL = "*"


async def behind(cluster, size, *, topic="t", partitions=1, batch=BATCH):
    """A topic of which broker 3 lacks ``size`` bytes of each partition; broker 3 is down."""
    controller = cluster.controller
    controller.create(topic, partitions, replicas=(1, 2, 3), leader=1)
    await cluster.applied()
    client = await cluster[1].client()
    for partition in range(partitions):
        answer = await produce(client, topic, records(b"x"), partition=partition, acks=-1)
        assert answer.error_code is ErrorCode.none
    cluster[3].kill()
    controller.fail_over(3)
    await cluster[1].applied()
    for partition in range(partitions):
        for _ in range(size // batch):
            answer = await produce(client, topic, records(b"x" * batch), partition=partition)
            assert answer.error_code is ErrorCode.none


def throttle(cluster, role, rate):
    """Throttle all of topic t: at its leader, or at followers."""
    cluster.controller.configure("t", **{f"{role}_replication_throttled_replicas": ALL})
    cluster.controller.configure_brokers(**{f"{role}_replication_throttled_rate": rate})


def is_in_sync(cluster, topic="t", partition=0, node=3):
    return NodeId(node) in cluster.controller.state(topic, partition).isr


async def produce_latencies(cluster, topic, stop):
    client = await cluster[1].client()
    found = []
    while not stop.is_set():
        began = cluster.loop.time()
        answer = await produce(client, topic, records(b"x" * 100), acks=-1)
        assert answer.error_code is ErrorCode.none
        found.append(cluster.loop.time() - began)
        await asyncio.sleep(0.02)
    return sorted(found)


@pytest.mark.parametrize("role", ["leader", "follower"])
@clustered()
async def test_a_follower_that_catches_up_is_held_to_the_rate(cluster, role):
    await behind(cluster, 20 * MB)
    throttle(cluster, role, 2 * MB)
    await cluster[3].start()
    took_s = await cluster.until(lambda: is_in_sync(cluster), within_s=60)
    assert 9 < took_s < 11.5, "20 MB at 2 MB/s"
    await cluster.until(cluster.are_equal)


@clustered()
async def test_a_fetch_from_a_cold_log_is_no_larger_than_its_share(cluster):
    await behind(cluster, 2 * MB, batch=10_000)
    await cluster[1].log().flush()
    cluster[1].disk.make_cold("/data/t-0/00000000000000000000.log")
    throttle(cluster, "leader", 100_000)
    await cluster[3].start()
    await cluster.until(lambda: cluster[3].log().log_end_offset > 1)
    assert cluster[3].log().log_end_offset <= 1 + 10, "a second's records at most"


@clustered()
async def test_the_slower_of_both_ends_decides(cluster):
    await behind(cluster, 8 * MB)
    throttle(cluster, "leader", 4 * MB)
    throttle(cluster, "follower", 1 * MB)
    await cluster[3].start()
    took_s = await cluster.until(lambda: is_in_sync(cluster), within_s=60)
    assert 7 < took_s < 9.5


@pytest.mark.parametrize("role", ["leader", "follower"])
@clustered()
async def test_in_sync_partitions_of_the_same_session_are_as_fast_as_without_a_throttle(cluster, role):
    await behind(cluster, 4 * MB)
    cluster.controller.create("u", 1, replicas=(1, 3), leader=1, **{f"{role}_replication_throttled_replicas": ALL})
    await cluster[3].start()
    await cluster.until(lambda: is_in_sync(cluster))
    await cluster.until(cluster.are_equal)
    stop = asyncio.Event()
    measuring = asyncio.create_task(produce_latencies(cluster, "u", stop))
    await asyncio.sleep(3)
    stop.set()
    before = await measuring

    cluster[3].kill()
    cluster.controller.fail_over(3)
    await cluster[1].applied()
    client = await cluster[1].client()
    for _ in range(40):
        await produce(client, "t", records(b"x" * BATCH))
    throttle(cluster, role, 1 * MB)
    await cluster[3].start()
    await cluster.until(lambda: is_in_sync(cluster, "u"))
    stop.clear()
    measuring = asyncio.create_task(produce_latencies(cluster, "u", stop))
    took_s = await cluster.until(lambda: is_in_sync(cluster), within_s=60)
    stop.set()
    during = await measuring
    assert took_s > 8
    assert len(during) > 100
    assert during[len(during) // 2] < before[len(before) // 2] * 1.5
    assert during[-len(during) // 100] < before[-len(before) // 100] + 0.01
    assert is_in_sync(cluster, "u")


@pytest.mark.parametrize("role", ["leader", "follower"])
@pytest.mark.parametrize("how", ["the rate", "the list"])
@clustered()
async def test_a_throttle_that_is_taken_away_ends_at_once(cluster, role, how):
    await behind(cluster, 10 * MB)
    throttle(cluster, role, 1000)
    await cluster[3].start()
    await asyncio.sleep(5)
    assert not is_in_sync(cluster)
    assert cluster[3].log().log_end_offset <= 6
    if how == "the rate":
        cluster.controller.configure_brokers(**{f"{role}_replication_throttled_rate": None})
    else:
        cluster.controller.configure("t", **{f"{role}_replication_throttled_replicas": ""})
    assert await cluster.until(lambda: is_in_sync(cluster)) < 1


@pytest.mark.parametrize("role", ["leader", "follower"])
@clustered()
async def test_a_throttled_copy_catches_up_under_load_and_commits_never_wait_for_it(cluster, role):
    await behind(cluster, 4 * MB)
    throttle(cluster, role, 1 * MB)
    stop = asyncio.Event()
    measuring = asyncio.create_task(produce_latencies(cluster, "t", stop))
    await asyncio.sleep(1)
    await cluster[3].start()
    await cluster.until(lambda: is_in_sync(cluster), within_s=60)
    await asyncio.sleep(3)
    assert is_in_sync(cluster)
    stop.set()
    latencies = await measuring
    assert latencies[-1] < 0.1


@pytest.mark.parametrize("role", ["leader", "follower"])
@clustered(replica_lag_time_max_ms=3_000)
async def test_a_member_of_the_in_sync_set_is_never_throttled(cluster, role):
    controller = cluster.controller
    controller.create("t", 1, replicas=(1, 2, 3), leader=1)
    throttle(cluster, role, 1)
    await cluster.applied()
    client = await cluster[1].client()
    for _ in range(20):
        began = cluster.loop.time()
        answer = await produce(client, "t", records(b"x" * BATCH), acks=-1)
        assert answer.error_code is ErrorCode.none
        assert cluster.loop.time() - began < 0.5
    assert set(controller.state().isr) == {1, 2, 3}
    assert not controller.altered, "nobody left the set (KAFKA-4313)"


@pytest.mark.parametrize("role", ["leader", "follower"])
@clustered()
async def test_a_batch_beyond_the_quota_moves_once_per_window(cluster, role):
    await behind(cluster, 5 * BATCH)
    throttle(cluster, role, 1000)  # a batch takes 250 s at this rate, and a window has 11
    await cluster[3].start()
    await cluster.until(lambda: is_in_sync(cluster), within_s=60)
    assert await cluster.until(cluster.are_equal) < 1


@pytest.mark.parametrize("role", ["leader", "follower"])
@clustered()
async def test_all_throttled_partitions_advance_together(cluster, role):
    await behind(cluster, 2 * MB, partitions=5, batch=50_000)
    throttle(cluster, role, 1 * MB)
    await cluster[3].start()
    for _ in range(4):
        await asyncio.sleep(1.5)
        ends = [cluster[3].log("t", partition).log_end_offset for partition in range(5)]
        assert max(ends) - min(ends) <= 5, ends
        assert min(ends) > 1
    took_s = await cluster.until(lambda: all(is_in_sync(cluster, "t", number) for number in range(5)), within_s=60)
    assert 3 < took_s < 7


@pytest.mark.parametrize("role", ["leader", "follower"])
@clustered()
async def test_a_rate_of_zero_pauses_and_other_replicas_go_on(cluster, role):
    await behind(cluster, 1 * MB, partitions=2)
    cluster.controller.configure("t", **{f"{role}_replication_throttled_replicas": "0:1,0:3"})
    cluster.controller.configure_brokers(**{f"{role}_replication_throttled_rate": 0})
    await cluster[3].start()
    await cluster.until(lambda: is_in_sync(cluster, "t", 1))
    await asyncio.sleep(30)
    assert cluster[3].log("t", 0).log_end_offset == 1
    cluster.controller.configure_brokers(**{f"{role}_replication_throttled_rate": 10 * MB})
    await cluster.until(lambda: is_in_sync(cluster, "t", 0))


@clustered()
async def test_a_broker_goes_by_the_pairs_that_name_it(cluster):
    await behind(cluster, 2 * MB)
    cluster.controller.configure(
        "t", leader_replication_throttled_replicas="0:2,0:3", follower_replication_throttled_replicas="0:1,0:2"
    )
    cluster.controller.configure_brokers(leader_replication_throttled_rate=1, follower_replication_throttled_rate=1)
    await cluster[3].start()
    assert await cluster.until(lambda: is_in_sync(cluster)) < 2, "the leader is 1, the follower 3: neither is named"


# The budget of self-repair (REPAIR-4).


async def repaired(cluster, size, *, mark="0:3"):
    """A topic on brokers 1 and 2, of ``size`` bytes, that broker 3 is added to by self-repair; broker 1 leads."""
    controller = cluster.controller
    controller.create("t", 1, replicas=(1, 2), leader=1)
    await cluster.applied()
    client = await cluster[1].client()
    for _ in range(size // BATCH):
        answer = await produce(client, "t", records(b"x" * BATCH))
        assert answer.error_code is ErrorCode.none
    if mark:
        controller.configure("t", rebalance_throttled_replicas=mark)
    controller.change("t", replicas=(1, 2, 3), adding_replicas=(3,))


def budget(cluster, rate, node=""):
    cluster.controller.configure_brokers(node, rebalance_bytes_per_second_max=rate)


async def copied_in_s(cluster):
    return await cluster.until(lambda: is_in_sync(cluster), within_s=60)


@pytest.mark.parametrize("limited", ["1", "3"], ids=["sender", "receiver"])
@clustered()
async def test_a_copy_that_self_repair_makes_is_held_to_the_budget_of_both_ends(cluster, limited):
    budget(cluster, 1000 * MB)
    budget(cluster, 2 * MB, node=limited)
    await repaired(cluster, 20 * MB)
    assert 9 < await copied_in_s(cluster) < 11.5, "20 MB at 2 MB/s"
    await cluster.until(cluster.are_equal)


@clustered()
async def test_the_budget_is_there_though_nobody_set_it(cluster):
    await repaired(cluster, 60 * MB)
    assert 2.5 < await copied_in_s(cluster) < 3.5, "60 MB at 20 MiB/s"


@pytest.mark.parametrize("mark", ["", "0:2", "1:3", "nonsense,0:"])
@clustered()
async def test_copies_that_others_make_have_no_budget(cluster, mark):
    budget(cluster, 1 * MB)
    await repaired(cluster, 8 * MB, mark=mark)
    assert await copied_in_s(cluster) < 2


@clustered()
async def test_a_mark_that_is_left_slows_nothing_once_the_replica_is_no_longer_being_added(cluster):
    controller = cluster.controller
    budget(cluster, 1 * MB)
    await repaired(cluster, 1 * MB)
    await copied_in_s(cluster)
    controller.change("t", replicas=(1, 2, 3), adding_replicas=())
    cluster[3].kill()
    controller.fail_over(3)
    await cluster[1].applied()
    client = await cluster[1].client()
    for _ in range(40):
        await produce(client, "t", records(b"x" * BATCH))
    await cluster[3].start()
    assert await copied_in_s(cluster) < 3, "10 MB"


@clustered()
async def test_without_anything_to_copy_there_is_nothing_to_ask(cluster):
    controller = cluster.controller
    budget(cluster, 1 * MB)
    await cluster.applied()
    throttles = cluster[1].replicas.throttles
    assert not throttles.leader.is_active
    assert not throttles.follower.is_active
    await repaired(cluster, 1 * MB)
    await cluster.applied()
    assert throttles.leader.is_active
    await copied_in_s(cluster)
    controller.delete("t")
    controller.create("u", 1, replicas=(1, 2), leader=1, retention_ms=1000)
    controller.configure("u", retention_ms=2000)
    await cluster.applied()
    assert not throttles.leader.is_active


@pytest.mark.parametrize("rate", [8 * MB, 1 * MB])
@clustered()
async def test_what_an_operator_says_of_a_replica_counts_instead_of_the_budget(cluster, rate):
    """At both ends, be it more or less; another topic's copies keep to the budget meanwhile."""
    budget(cluster, 3 * MB)
    for role in ("leader", "follower"):
        cluster.controller.configure_brokers(**{f"{role}_replication_throttled_rate": rate})
    await repaired(cluster, 8 * MB)
    cluster.controller.configure(
        "t", leader_replication_throttled_replicas="0:1", follower_replication_throttled_replicas="0:3"
    )
    assert await copied_in_s(cluster) == pytest.approx(8 * MB / rate, rel=0.2)


@clustered()
async def test_a_throttle_that_goes_away_leaves_a_copy_to_the_budget(cluster):
    budget(cluster, 4 * MB)
    await repaired(cluster, 12 * MB)
    throttle(cluster, "follower", 0)
    await asyncio.sleep(3)
    assert not is_in_sync(cluster)
    throttle(cluster, "follower", None)
    assert 2 < await copied_in_s(cluster) < 4, "12 MB at 4 MB/s"


@clustered()
async def test_a_budget_of_nothing_stops_copies_until_there_is_one(cluster):
    budget(cluster, 0)
    await repaired(cluster, 2 * MB)
    await asyncio.sleep(20)
    assert cluster[3].log("t").log_end_offset == 0
    budget(cluster, 1 * MB)
    assert await copied_in_s(cluster) < 4


@clustered()
async def test_many_copies_share_one_budget(cluster):
    controller = cluster.controller
    budget(cluster, 2 * MB)
    controller.create("t", 4, replicas=(1, 2), leader=1)
    await cluster.applied()
    client = await cluster[1].client()
    for number in range(4):
        for _ in range(8):
            await produce(client, "t", records(b"x" * BATCH), partition=number)
    controller.configure("t", rebalance_throttled_replicas="0:3,1:3,2:3,3:3")
    for number in range(4):
        controller.change("t", number, replicas=(1, 2, 3), adding_replicas=(3,))
    took_s = await cluster.until(lambda: all(is_in_sync(cluster, partition=n) for n in range(4)), within_s=60)
    assert 3.5 < took_s < 5, "8 MB at 2 MB/s"
