"""What a leader answers to another broker, which the test plays, byte for byte."""

import asyncio

import pytest

from esp.model.errors import ErrorCode
from esp.model.ids import NodeId
from tests.unit.broker.conversation import fetch_later, produce
from tests.unit.broker.replica_cluster import clustered
from tests.unit.broker.simulated_node import model, records, values

VERSION = 17
LONG_MS = 60_000


class Follower:
    """Broker 2, whose process is gone: the test fetches in its name."""

    def __init__(self, cluster, client, topic_id):
        self.cluster = cluster
        self.client = client
        self.topic_id = topic_id
        self.session = (0, 0)
        self.broker_epoch = cluster[2].epoch

    def send(self, *parts, max_wait_ms=LONG_MS, leader_epoch=0, forgotten=(), session=None, **options):
        """``parts``: (partition, offset), or with the epoch of the last record one more."""
        state = model(1, VERSION).ReplicaState(replica_id=2, replica_epoch=self.broker_epoch)
        session = self.session if session is None else session
        answer = fetch_later(
            self.client,
            [
                (self.topic_id, partition, offset, 1 << 20, leader_epoch, *last_epoch)
                for partition, offset, *last_epoch in parts
            ],
            version=VERSION,
            max_wait_ms=max_wait_ms,
            session=session,
            forgotten=[(self.topic_id, partition) for partition in forgotten],
            replica_state=state,
            **options,
        )
        self.session = (session[0], session[1] + 1)
        return answer

    async def begin(self, *parts):
        """Begin a session, and return what its first answer says."""
        answer = await self.send(*parts, session=(0, 0))
        self.session = (answer.session_id, 1)
        return of(answer)


def of(answer):
    """(partition, error, number of values) of each partition of an answer."""
    return [
        (part.partition_index, int(part.error_code), len(values(part.records)))
        for topic in answer.responses
        for part in topic.partitions
    ]


def followed(partitions=2, **settings):
    """Make a test of a scenario with a leader, a producer's connection, and a follower that the test plays."""

    def decorate(scenario):
        @clustered(count=2, **settings)
        async def test(cluster, *args):
            cluster[2].kill()
            topic_id = cluster.controller.create(partitions=partitions, replicas=(1, 2), leader=1)
            await cluster[1].applied()
            follower = Follower(cluster, await cluster[1].client(), topic_id)
            await scenario(cluster, await cluster[1].client(), follower, *args)

        test.__name__ = scenario.__name__
        return test

    return decorate


async def put(client, partition=0, count=1):
    for _ in range(count):
        assert (await produce(client, "t", records(b"x"), partition=partition, acks=1)).error_code == 0


async def is_parked(answer):
    await asyncio.sleep(0.1)
    return not answer.done()


@followed()
async def test_the_first_request_is_answered_at_once_with_all_partitions(cluster, producer, follower):
    await put(producer, 1)
    assert await follower.begin((0, 0), (1, 0)) == [(0, 0, 0), (1, 0, 1)]
    assert follower.session[0] != 0


@followed()
async def test_later_requests_wait_for_news_and_tell_of_nothing_else(cluster, producer, follower):
    await follower.begin((0, 0), (1, 0))
    waiting = follower.send()
    assert await is_parked(waiting)
    await put(producer, 1)
    assert of(await waiting) == [(1, 0, 1)]


@followed()
async def test_what_was_answered_is_not_sent_again_before_it_is_named(cluster, producer, follower):
    await put(producer, 0)
    assert await follower.begin((0, 0)) == [(0, 0, 1)]
    waiting = follower.send()
    await put(producer, 0)
    assert await is_parked(waiting)
    named = follower.send((0, 1))
    assert of(await waiting) == []
    assert of(await named) == [(0, 0, 1)]


@followed()
async def test_a_follower_that_has_diverged_is_sent_nothing_before_it_names_its_new_end(cluster, producer, follower):
    await put(producer, 0)
    await follower.begin((0, 1))
    [topic] = (await follower.send((0, 5, 0))).responses
    assert topic.partitions[0].diverging_epoch.end_offset == 1
    waiting = follower.send()
    await put(producer, 0)
    assert await is_parked(waiting)
    named = follower.send((0, 1, 0))
    assert of(await waiting) == []
    assert of(await named) == [(0, 0, 1)]


@followed()
async def test_the_next_request_ends_the_wait_of_the_one_before(cluster, producer, follower):
    await follower.begin((0, 0))
    first = follower.send()
    assert await is_parked(first)
    second = follower.send((1, 0))
    assert of(await first) == []
    assert of(await second) == [(1, 0, 0)], "a partition that is new is news"
    assert await is_parked(follower.send())


@followed()
async def test_a_request_is_answered_empty_when_its_time_is_up(cluster, producer, follower):
    await follower.begin((0, 0))
    began = cluster.loop.time()
    assert of(await follower.send(max_wait_ms=300)) == []
    assert 0.29 < cluster.loop.time() - began < 0.35


@followed()
async def test_a_commit_is_told_after_a_moment_if_no_records_come_first(cluster, producer, follower):
    await put(producer, 0)
    await follower.begin((0, 0))
    waiting = follower.send((0, 1))
    began = cluster.loop.time()
    answer = await waiting
    assert 0.01 <= cluster.loop.time() - began < 0.05
    assert answer.responses[0].partitions[0].high_watermark == 1
    assert of(answer) == [(0, 0, 0)]
    assert await is_parked(follower.send())


@followed()
async def test_a_commit_is_told_again_if_the_answer_crosses_with_a_newer_position(cluster, producer, follower):
    await put(producer, 0)
    await follower.begin((0, 0))
    assert of(await follower.send((0, 1))) == [(0, 0, 0)], (
        "the high watermark; the follower drops it, for meanwhile it has sent"
    )
    answer = await follower.send((0, 1))
    assert answer.responses[0].partitions[0].high_watermark == 1
    assert await is_parked(follower.send())


@followed(partitions=1)
async def test_a_burst_of_appends_makes_one_answer(cluster, producer, follower):
    await follower.begin((0, 0))
    waiting = follower.send()
    assert await is_parked(waiting)
    hosted = cluster[1].hosted()
    for _ in range(10):
        hosted.leader.append(memoryview(bytearray(records(b"x"))), 1, 1_795_000_000_000)
        hosted.appended()
    assert of(await waiting) == [(0, 0, 10)]


@followed()
async def test_a_follower_with_newer_metadata_waits_until_the_leader_has_it_too(cluster, producer, follower):
    await follower.begin((1, 0))
    waiting = follower.send((0, 0), leader_epoch=1)
    await put(producer, 0)
    assert await is_parked(waiting)
    cluster.controller.change(leader=NodeId(1))
    assert of(await waiting) == [(0, 0, 1)]


@followed()
async def test_a_follower_with_older_metadata_is_told_so_at_once(cluster, producer, follower):
    cluster.controller.change(leader=NodeId(1))
    await cluster[1].applied()
    await follower.begin((1, 0))
    assert of(await follower.send((0, 0))) == [(0, ErrorCode.fenced_leader_epoch, 0)]
    assert await is_parked(follower.send())


@followed()
async def test_a_waiting_follower_learns_that_the_leader_leads_no_more(cluster, producer, follower):
    await follower.begin((0, 0), (1, 0))
    waiting = follower.send()
    assert await is_parked(waiting)
    cluster.controller.change(leader=NodeId(2))
    assert of(await waiting) == [(0, ErrorCode.fenced_leader_epoch, 0)]


@followed()
async def test_a_waiting_follower_learns_that_the_topic_is_gone(cluster, producer, follower):
    await follower.begin((0, 0))
    waiting = follower.send()
    assert await is_parked(waiting)
    cluster.controller.delete()
    ((_, code, _),) = of(await waiting)
    assert code in (ErrorCode.unknown_topic_id, ErrorCode.not_leader_or_follower)


@followed()
async def test_a_replica_that_is_none_any_more_is_given_nothing(cluster, producer, follower):
    await follower.begin((0, 0))
    waiting = follower.send()
    assert await is_parked(waiting)
    cluster.controller.change(replicas=(NodeId(1),), isr=(NodeId(1),))
    await cluster[1].applied()
    await put(producer, 0)
    assert await is_parked(waiting)


@followed()
async def test_what_is_forgotten_is_answered_no_more(cluster, producer, follower):
    await follower.begin((0, 0), (1, 0))
    hosted = cluster[1].hosted("t", 0)
    assert hosted._watchers
    waiting = follower.send(forgotten=[0])
    assert not hosted._watchers or await is_parked(waiting)
    await put(producer, 0)
    assert await is_parked(waiting)
    assert not hosted._watchers


@followed()
async def test_a_session_ends_with_its_connection(cluster, producer, follower):
    await follower.begin((0, 0), (1, 0))
    follower.send().cancel()
    await asyncio.sleep(0.1)
    follower.client.close()
    await asyncio.sleep(0.1)
    assert not cluster[1].hosted("t", 0)._watchers
    follower.client = await cluster[1].client()
    assert (await follower.send()).error_code is ErrorCode.fetch_session_id_not_found


@pytest.mark.parametrize(
    ("session", "code"),
    [((1, 1), ErrorCode.fetch_session_id_not_found), ((None, 7), ErrorCode.invalid_fetch_session_epoch)],
)
def test_a_session_that_does_not_follow_is_refused(session, code):
    @followed()
    async def scenario(cluster, producer, follower):
        await follower.begin((0, 0))
        number = follower.session[0] if session[0] is None else session[0]
        assert (await follower.send(session=(number, session[1]))).error_code is code

    scenario()


@followed()
async def test_a_new_session_of_a_broker_ends_its_old_one(cluster, producer, follower):
    await follower.begin((0, 0), (1, 0))
    old = follower.session
    waiting = follower.send()
    assert await is_parked(waiting)
    assert await follower.begin((1, 0)) == [(1, 0, 0)]
    assert of(await waiting) == []
    assert not cluster[1].hosted("t", 0)._watchers
    assert (await follower.send(session=old)).error_code is ErrorCode.fetch_session_id_not_found


@followed()
async def test_a_request_without_session_leaves_nothing_behind(cluster, producer, follower):
    await put(producer, 0)
    answer = await follower.send((0, 0), (1, 0), session=(0, -1))
    assert (answer.session_id, of(answer)) == (0, [(0, 0, 1), (1, 0, 0)])
    assert not cluster[1].hosted("t", 0)._watchers
    assert of(await follower.send((0, 0), leader_epoch=9, session=(0, -1))) == [(0, ErrorCode.unknown_leader_epoch, 0)]


@followed()
async def test_a_node_that_nobody_knows_gets_no_session(cluster, producer, follower):
    state = model(1, VERSION).ReplicaState(replica_id=99, replica_epoch=1)
    answer = await fetch_later(
        follower.client,
        [(follower.topic_id, 0, 0, 1 << 20, 0)],
        version=VERSION,
        session=(0, 0),
        replica_state=state,
    )
    assert (answer.session_id, of(answer)) == (0, [(0, ErrorCode.unknown_leader_epoch, 0)])


@followed()
async def test_an_older_incarnation_is_refused_and_does_not_count(cluster, producer, follower):
    await put(producer, 0)
    follower.broker_epoch += 1
    await follower.begin((0, 0))
    follower.broker_epoch -= 1
    assert await follower.begin((0, 1)) == [(0, ErrorCode.not_leader_or_follower, 0)]
    assert cluster[1].log().high_watermark == 0


@followed()
async def test_who_is_registered_anew_counts_in_its_new_epoch_also_where_nothing_happens(cluster, producer, follower):
    await put(producer, 0)
    await follower.begin((0, 1), (1, 0))
    await follower.send(max_wait_ms=0)
    leaders = [cluster[1].hosted(partition=number).leader for number in range(2)]
    assert [leader.follower(2).broker_epoch for leader in leaders] == [follower.broker_epoch] * 2
    follower.broker_epoch += 5
    await follower.send(max_wait_ms=0)
    assert [leader.follower(2).broker_epoch for leader in leaders] == [follower.broker_epoch] * 2
    assert [leader.follower(2).log_end_offset for leader in leaders] == [1, 0]


@followed()
async def test_requests_that_come_during_a_cold_read_wait_for_it_and_keep_their_order(cluster, producer, follower):
    for _ in range(3):
        await produce(producer, "t", records(b"x" * 5000), acks=1)
    await cluster[1].log().flush()
    cluster[1].disk.make_cold("/data/t-0/00000000000000000000.log")
    await follower.begin((1, 0))
    cold = follower.send((0, 0))
    behind = follower.send((0, 3))
    assert of(await cold) == [(0, 0, 3)]
    answer = await behind
    assert answer.responses[0].partitions[0].high_watermark == 3


@followed()
async def test_a_request_that_waits_for_a_cold_read_of_a_session_that_ends_meanwhile_is_refused(
    cluster, producer, follower
):
    for _ in range(3):
        await produce(producer, "t", records(b"x" * 5000), acks=1)
    await cluster[1].log().flush()
    cluster[1].disk.make_cold("/data/t-0/00000000000000000000.log")
    await follower.begin((1, 0))
    cold = follower.send((0, 0))
    behind = follower.send((0, 3))
    again = Follower(cluster, await cluster[1].client(), follower.topic_id)
    await again.begin((1, 0))
    await cold
    assert (await behind).error_code is ErrorCode.fetch_session_id_not_found


@followed()
async def test_records_that_come_during_a_cold_read_of_another_partition_are_sent_after_it(cluster, producer, follower):
    for _ in range(3):
        await produce(producer, "t", records(b"x" * 5000), acks=1)
    await cluster[1].log().flush()
    disk = cluster[1].disk
    disk.make_cold("/data/t-0/00000000000000000000.log")
    begun, done, wait = asyncio.Event(), asyncio.Event(), disk.wait

    async def wait_long(operation, size):
        if operation == "read":
            begun.set()
            await done.wait()
        await wait(operation, size)

    disk.wait = wait_long
    cold = follower.send((0, 0), (1, 0), session=(0, 0))
    await begun.wait()
    await put(producer, 1)
    done.set()
    answer = await cold
    assert of(answer) == [(0, 0, 3), (1, 0, 0)]
    follower.session = (answer.session_id, 1)
    assert of(await asyncio.wait_for(follower.send(), 5)) == [(1, 0, 1)]


@followed(partitions=20)
async def test_idle_partitions_cost_nothing(cluster, producer, follower):
    await follower.begin(*((number, 0) for number in range(20)))
    waiting = follower.send()
    assert await is_parked(waiting)
    looked = []
    session = next(iter(cluster[1].hosted("t", 3)._watchers))
    look_at = session._look_at
    session._look_at = lambda item, total: looked.append(item.wanted.partition) or look_at(item, total)
    await put(producer, 3)
    assert of(await waiting) == [(3, 0, 1)]
    assert of(await follower.send((3, 1), max_wait_ms=500)) == [(3, 0, 0)]
    for _ in range(10):
        assert of(await follower.send(max_wait_ms=500)) == []
    assert set(looked) == {3}
    assert len(looked) <= 4
