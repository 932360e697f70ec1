"""Replicas that move between the data directories of a broker: what is seen meanwhile, and what is there after every way to end."""

import asyncio
from contextlib import suppress

import pytest

from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import DirectoryId, NodeId, TopicPartition
from esp.simulation.disk_faults import ProcessKilledError
from esp.simulation.loop import ProcessEndedError, SimulatedLoop
from tests.unit.broker.conversation import fetch, produce, produce_later
from tests.unit.broker.replica_cluster import Cluster, clustered
from tests.unit.broker.simulated_node import records, values

MB = 1_000_000
BATCH = 100_000
NAME = TopicPartition("t", 0)
TWO = {"log_dirs": ("/a", "/b"), "metadata_log_dir": "/a"}


def directory_of(broker, topic="t", partition=0):
    return broker.replicas.directories.holding(broker.log(topic, partition)).path


def other(path):
    return {"/a": "/b", "/b": "/a"}[path]


def names(broker, path):
    return [name for name in broker.disk.listdir(path) if name.startswith("t-")]


async def filled(cluster, size, *, replicas=(1,), **configs):
    cluster.controller.create(replicas=replicas, leader=1, **configs)
    await cluster.applied()
    assigned(cluster, replicas)
    await cluster.applied()
    client = await cluster[1].client()
    await put(client, size)
    return client


def assigned(cluster, replicas):
    """Let the metadata know where the replicas are, as it does in a real cluster."""
    directories = tuple(
        cluster[node].replicas.directories.holding(cluster[node].log()).meta.directory_id for node in replicas
    )
    cluster.controller.change(directories=tuple(map(DirectoryId, directories)))


async def put(client, size):
    for number in range(size // BATCH):
        answer = await produce(client, "t", records(b"%d" % (number % 10) * BATCH), acks=-1)
        assert answer.error_code is ErrorCode.none


async def move(broker, path, name=NAME, *, is_known=True):
    await broker.replicas.moves.request(name, path, lambda: is_known)


def is_at(broker, path):
    return lambda: directory_of(broker) == path and not len(broker.replicas.moves)


def throttle(cluster, rate):
    cluster.controller.configure_brokers(replica_alter_log_dirs_io_max_bytes_per_second=rate)


@clustered(count=1, **TWO)
async def test_a_replica_moves_with_all_it_has(cluster):
    client = await filled(cluster, 3 * MB, segment_bytes=1 << 20)
    broker = cluster[1]
    cluster.controller.change(leader=NodeId(1))
    await cluster.applied()
    origin = directory_of(broker)
    before = broker.bytes_of()
    epochs = broker.log().leader_epochs.entries()
    await move(broker, other(origin))
    assert names(broker, other(origin))[0].endswith("-future")
    await cluster.until(is_at(broker, other(origin)))
    assert names(broker, other(origin)) == ["t-0"]
    assert [name.rpartition("-")[2] for name in names(broker, origin)] == ["delete"]
    assert broker.bytes_of() == before
    assert broker.log().leader_epochs.entries() == epochs == [(0, 0), (1, 30)], "one epoch has no record yet"
    assert (await produce(client, "t", records(b"after"), acks=-1)).base_offset == 30
    answer = await fetch(client, "t", 30)
    assert values(answer.records) == [b"after"]


@clustered(count=1, **TWO)
async def test_a_replica_moves_while_it_is_written(cluster):
    client = await filled(cluster, 2 * MB, segment_bytes=1 << 20)
    broker = cluster[1]
    origin = directory_of(broker)
    await move(broker, other(origin))
    offset = 20
    while not is_at(broker, other(origin))():
        answer = await produce(client, "t", records(b"x" * 1000), acks=-1)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.none, offset)
        offset += 1
    assert offset > 25, "it was written meanwhile"
    assert broker.log().log_end_offset == broker.log().high_watermark == offset


@clustered(count=1, **TWO)
async def test_the_controller_is_told_before_the_logs_change_places(cluster):
    await filled(cluster, MB)
    broker = cluster[1]
    origin = directory_of(broker)
    target = next(one for one in broker.directories if one.path == other(origin))
    cluster.controller.delay_s = 1.0
    await move(broker, target.path)
    await cluster.until(lambda: cluster.controller.assigned)
    assert directory_of(broker) == origin
    assert cluster.controller.assigned[-1].directories[0].id_ == target.meta.directory_id
    await cluster.until(is_at(broker, target.path))
    assert cluster.controller.state().directories == (target.meta.directory_id,)
    await asyncio.sleep(5)
    assert len(cluster.controller.assigned) == 1, "nobody says otherwise afterwards"


@clustered(count=1, **TWO)
async def test_moves_keep_to_their_rate(cluster):
    await filled(cluster, 4 * MB)
    broker = cluster[1]
    origin = directory_of(broker)
    throttle(cluster, MB)
    await cluster.applied()
    await move(broker, other(origin))
    assert 3.5 < await cluster.until(is_at(broker, other(origin))) < 5


@clustered(count=1, **TWO)
async def test_moving_back_ends_a_move(cluster):
    await filled(cluster, 2 * MB)
    broker = cluster[1]
    origin = directory_of(broker)
    throttle(cluster, 1000)
    await cluster.applied()
    await move(broker, other(origin))
    await asyncio.sleep(1)
    await move(broker, other(origin))
    assert len(broker.replicas.moves) == 1, "the same wish again changes nothing"
    await move(broker, origin)
    assert not len(broker.replicas.moves)
    assert [name.rpartition("-")[2] for name in names(broker, other(origin))] == ["delete"]
    throttle(cluster, MB * 100)
    await asyncio.sleep(30)
    assert directory_of(broker) == origin
    await move(broker, other(origin))
    await cluster.until(is_at(broker, other(origin)))
    await move(broker, origin)
    await cluster.until(is_at(broker, origin))


@clustered(count=1, **TWO)
async def test_what_cannot_be_is_refused(cluster):
    await filled(cluster, BATCH)
    broker = cluster[1]
    for path, name, is_known, code in (
        ("/c", NAME, True, ErrorCode.log_dir_not_found),
        ("/b", TopicPartition("u", 0), True, ErrorCode.replica_not_available),
        ("/b", TopicPartition("u", 0), False, ErrorCode.unknown_topic_or_partition),
    ):
        with pytest.raises(ApiError) as caught:
            await move(broker, path, name, is_known=is_known)
        assert caught.value.code is code
    broker.replicas.fail(next(one for one in broker.directories if one.path == other(directory_of(broker))), "test")
    with pytest.raises(ApiError) as caught:
        await move(broker, other(directory_of(broker)))
    assert caught.value.code is ErrorCode.kafka_storage_error


@pytest.mark.parametrize("path", ["/a", "/b"])
@clustered(count=1, **TWO)
async def test_a_replica_that_comes_later_is_made_where_somebody_wished(cluster, path):
    broker = cluster[1]
    with pytest.raises(ApiError):
        await move(broker, path, is_known=False)
    cluster.controller.create(replicas=(1,))
    await cluster.applied()
    assert directory_of(broker) == path


@clustered(count=1, **TWO)
async def test_deletion_of_the_topic_ends_its_move(cluster):
    await filled(cluster, MB)
    broker = cluster[1]
    throttle(cluster, 1000)
    await cluster.applied()
    await move(broker, other(directory_of(broker)))
    cluster.controller.delete()
    await cluster.applied()
    assert not len(broker.replicas.moves)
    assert all(name.endswith("-delete") for path in ("/a", "/b") for name in names(broker, path))


@clustered(count=1, **TWO)
async def test_records_that_are_deleted_during_a_move_stay_deleted(cluster):
    await filled(cluster, 3 * MB, segment_bytes=1 << 20)
    broker = cluster[1]
    origin = directory_of(broker)
    throttle(cluster, MB)
    await cluster.applied()
    await move(broker, other(origin))
    await asyncio.sleep(2.5)
    broker.log().raise_log_start(17)
    broker.log().delete_old_segments(broker.env.clock.wall_ms())
    await cluster.until(is_at(broker, other(origin)))
    assert (broker.log().log_start_offset, broker.log().log_end_offset) == (17, 30)
    broker.kill()
    await broker.start()
    assert (broker.log().log_start_offset, broker.log().log_end_offset) == (17, 30)


@clustered(count=2, **TWO)
async def test_a_follower_moves_and_what_its_leader_never_had_goes_from_the_copy_too(cluster):
    await filled(cluster, MB, replicas=(1, 2))
    follower = cluster[2]
    origin = directory_of(follower)
    await cluster.until(lambda: cluster.are_equal(among=(1, 2)))
    # Records that broker 1 writes alone, and that nobody else gets: a diverging tail.
    cluster[2].kill()
    cluster.controller.fail_over(2)
    await cluster[1].applied()
    client = await cluster[1].client()
    for _ in range(5):
        await produce(client, "t", records(b"y" * BATCH), acks=1)
    leader = cluster[1]
    origin = directory_of(leader)
    leader.replicas.throttles.moves.update(2 * MB)
    await move(leader, other(origin))
    await asyncio.sleep(0.7)
    await follower.start()
    cluster.controller.change(leader=NodeId(2), isr=(NodeId(2),), recovering=True)
    await cluster.applied()
    client = await cluster[2].client()
    assert (await produce(client, "t", records(b"z"), acks=1)).base_offset == 10
    await cluster.until(is_at(leader, other(origin)))
    await cluster.until(lambda: cluster.are_equal(among=(1, 2)))
    assert leader.log().log_end_offset == 11


@clustered(count=1, **TWO)
async def test_a_target_that_fails_ends_the_move_and_harms_nothing(cluster):
    client = await filled(cluster, MB)
    broker = cluster[1]
    origin = directory_of(broker)
    throttle(cluster, MB // 10)
    await cluster.applied()
    await move(broker, other(origin))
    await asyncio.sleep(1)
    broker.replicas.fail(next(one for one in broker.directories if one.path == other(origin)), "test")
    assert not len(broker.replicas.moves)
    assert (await produce(client, "t", records(b"after"), acks=-1)).base_offset == 10
    assert directory_of(broker) == origin


@clustered(count=1, **TWO)
async def test_of_two_directories_of_a_replica_the_one_that_was_written_last_counts(cluster):
    client = await filled(cluster, MB)
    broker = cluster[1]
    origin = directory_of(broker)
    broker.disk.fail("rename", f"{origin}/t-0")  # the old one cannot be put aside
    await move(broker, other(origin))
    await cluster.until(is_at(broker, other(origin)))
    assert [directory.path for directory in broker.replicas.directories.online] == [other(origin)]
    assert (await produce(client, "t", records(b"after"), acks=-1)).base_offset == 10
    broker.kill()
    await broker.start()
    assert directory_of(broker) == other(origin)
    assert broker.log().log_end_offset == 11
    assert [name.rpartition("-")[2] for name in names(broker, origin)] == ["delete"]


@clustered(count=1, **TWO)
async def test_a_move_goes_on_after_an_orderly_stop_where_it_was(cluster):
    await filled(cluster, 2 * MB)
    broker = cluster[1]
    origin = directory_of(broker)
    throttle(cluster, MB)
    await cluster.applied()
    await move(broker, other(origin))
    await asyncio.sleep(1)
    for directory in broker.directories:
        directory.close_blocking(broker.epoch)
    broker.kill(power=True)
    await broker.start()
    copy = next(directory for directory in broker.directories if directory.path == other(origin)).futures[NAME]
    assert 5 < copy.log_end_offset < 15
    assert copy.recovery_point >= 5
    await cluster.until(is_at(broker, other(origin)))


@clustered(count=1, **TWO)
async def test_a_copy_that_cannot_be_written_is_dropped(cluster):
    client = await filled(cluster, MB)
    broker = cluster[1]
    origin = directory_of(broker)
    broker.disk.fail("write", f"{other(origin)}/t-0*-future/*.log", times=1)
    await move(broker, other(origin))
    await cluster.until(lambda: not len(broker.replicas.moves))
    assert directory_of(broker) == origin
    assert (await produce(client, "t", records(b"after"), acks=-1)).base_offset == 10
    assert len(broker.replicas.directories.online) == 2


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_a_broker_killed_at_any_operation_of_its_disk_during_a_move_loses_nothing_and_ends_the_move(power):
    changes = 0
    while move_and_kill(changes, power=power):
        changes += 1
    assert changes > 40, "there are so many operations in a move"


def move_and_kill(changes, *, power):
    """Kill the broker at one operation of its disk; False if the move was over by then."""
    loop = SimulatedLoop()

    async def main():
        cluster = Cluster(loop, 0, 1, **TWO)
        await cluster.start()
        broker = cluster[1]
        client = await filled(cluster, 3 * BATCH, flush_messages=1)
        origin = directory_of(broker)
        before = broker.bytes_of()
        broker.disk.kill_after(changes)
        acknowledged = 3
        with suppress(ProcessKilledError, ProcessEndedError):
            await move(broker, other(origin))
            while broker.process.alive and not is_at(broker, other(origin))():
                answer = produce_later(client, "t", records(b"x"), acks=-1)
                await asyncio.sleep(0.005)
                acknowledged += answer.done() and not answer.exception()
        was_killed = not broker.process.alive
        broker.kill(power=power)
        await broker.start()
        assert broker.bytes_of().startswith(before)
        end_offset = broker.log().log_end_offset
        assert end_offset >= acknowledged
        await cluster.until(lambda: not len(broker.replicas.moves))
        after = broker.bytes_of()
        client = await broker.client()
        assert (await produce(client, "t", records(b"y"), acks=-1)).base_offset == end_offset
        assert broker.bytes_of().startswith(after)
        here = directory_of(broker)
        assert names(broker, here) == ["t-0"]
        assert all(name.endswith("-delete") for name in names(broker, other(here)))
        return was_killed

    return loop.run(main(), limit_s=600)
