"""Replicas that move between the data directories of a broker: what is seen meanwhile, and what is there after every way to end."""

import asyncio
from contextlib import suppress

import pytest

from esp.model.errors import ApiError, CorruptionError, ErrorCode
from esp.model.ids import LOST_DIRECTORY, NO_NODE, DirectoryId, NodeId, TopicPartition
from esp.replication.partition_follower import CommittedDataLossError
from esp.simulation.machine.disk_faults import ProcessKilledError
from esp.simulation.machine.loop import ProcessEndedError, SimulatedLoop
from tests.unit.broker.conversation import fetch, produce, produce_later
from tests.unit.broker.data_path.test_read_committed import end, write
from tests.unit.broker.replica_cluster import Cluster, clustered
from tests.unit.broker.simulated_node import records, values

MB = 1_000_000
BATCH = 100_000
NAME = TopicPartition("t", 0)
TWO = {"log_dirs": ("/a", "/b"), "metadata_log_dir": "/a"}


def directory_of(broker):
    return broker.replicas.directories.holding(broker.log()).path


def other(path):
    return {"/a": "/b", "/b": "/a"}[path]


def names(broker, path):
    return [name for name in broker.disk.listdir(path) if name.startswith("t-")]


def kinds(broker, path):
    """What the names of the replica's directories say of them."""
    return [name.rpartition("-")[2] for name in names(broker, path)]


class Moving:
    """The replica of t-0 on one broker: it stands in the directory ``origin``, and is to move to ``target``."""

    def __init__(self, cluster, broker, client):
        self.cluster = cluster
        self.broker = broker
        self.client = client
        self.origin = directory_of(broker)
        self.target = other(self.origin)

    async def begin(self):
        await move(self.broker, self.target)

    async def slow_down(self, rate):
        """So many bytes per second from now on."""
        self.cluster.controller.configure_brokers(replica_alter_log_dirs_io_max_bytes_per_second=rate)
        await self.cluster.applied()

    @property
    def is_over(self):
        return not len(self.broker.replicas.moves)

    def has_moved(self):
        return directory_of(self.broker) == self.target and self.is_over

    async def until_moved(self):
        return await self.cluster.until(self.has_moved)

    async def append(self, value=b"after"):
        """The offset of a record that was acknowledged."""
        answer = await produce(self.client, "t", records(value), acks=-1)
        assert answer.error_code is ErrorCode.none
        return answer.base_offset


async def filled(cluster, size, *, replicas=(1,), **configs):
    cluster.controller.create(replicas=replicas, leader=1, **configs)
    await cluster.applied()
    directories = tuple(
        cluster[node].replicas.directories.holding(cluster[node].log()).meta.directory_id for node in replicas
    )
    # The metadata knows where the replicas are, as in a real cluster.
    cluster.controller.change(directories=tuple(map(DirectoryId, directories)))
    await cluster.applied()
    moving = Moving(cluster, cluster[1], await cluster[1].client())
    for number in range(size // BATCH):
        await moving.append(b"%d" % (number % 10) * BATCH)
    return moving


async def move(broker, path, name=NAME, *, is_known=True):
    await broker.replicas.moves.request(name, path, lambda: is_known)


@clustered(count=1, **TWO)
async def test_a_replica_moves_with_all_it_has(cluster):
    moving = await filled(cluster, 3 * MB, segment_bytes=1 << 20)
    broker = moving.broker
    cluster.controller.change(leader=NodeId(1))
    await cluster.applied()
    before = broker.bytes_of()
    epochs = broker.log().leader_epochs.entries()
    await moving.begin()
    assert kinds(broker, moving.target) == ["future"]
    await moving.until_moved()
    assert names(broker, moving.target) == ["t-0"]
    assert kinds(broker, moving.origin) == ["delete"]
    assert broker.bytes_of() == before
    assert broker.log().leader_epochs.entries() == epochs == [(0, 0), (1, 30)], "one epoch has no record yet"
    assert await moving.append(b"after") == 30
    answer = await fetch(moving.client, "t", 30)
    assert values(answer.records) == [b"after"]


@clustered(count=1, **TWO)
async def test_a_replica_moves_with_its_transactions(cluster):
    moving = await filled(cluster, MB, segment_bytes=1 << 20)
    broker = moving.broker
    first = write(broker, 1)
    marker = end(broker, 1, is_commit=False)
    opened = write(broker, 2)
    await moving.append(b"x" * MB)  # the marker's segment is sealed
    before = broker.log()
    await moving.begin()
    await moving.until_moved()
    log = broker.log()
    assert log is not before
    assert len(log.files.segments) > 1
    assert log.last_stable_offset == opened
    assert log.producers.encode() == before.producers.encode()
    (entry,) = log.aborted.find_blocking(0, opened)
    assert (entry.producer_id, entry.first_offset, entry.last_offset) == (1, first, marker)
    assert [name for name in broker.disk.listdir(f"{moving.target}/t-0") if name.endswith(".txnindex")]


@clustered(count=1, **TWO)
async def test_a_replica_moves_while_it_is_written(cluster):
    moving = await filled(cluster, 2 * MB, segment_bytes=1 << 20)
    await moving.begin()
    offset = 20
    while not moving.has_moved():
        assert await moving.append(b"x" * 1000) == offset
        offset += 1
    assert offset > 25, "it was written meanwhile"
    log = moving.broker.log()
    assert log.log_end_offset == log.high_watermark == offset


@clustered(count=1, **TWO)
async def test_rot_of_the_log_that_is_left_concerns_the_replica_no_more(cluster):
    moving = await filled(cluster, MB)
    cluster.controller.delay_s = 1.0  # so that all is copied while the replica stands where it stood
    await moving.begin()
    await cluster.until(lambda: cluster.controller.assigned)
    moving.broker.log().note_rot(CorruptionError("a batch that does not match its checksum"))
    await moving.until_moved()
    hosted = moving.broker.replicas.find("t", 0)
    assert hosted.log.rot is None
    assert hosted not in moving.broker.replicas._rotten._replicas


@clustered(count=1, **TWO)
async def test_the_controller_is_told_before_the_logs_change_places(cluster):
    moving = await filled(cluster, MB)
    target = next(one for one in moving.broker.directories if one.path == moving.target)
    cluster.controller.delay_s = 1.0
    await moving.begin()
    await cluster.until(lambda: cluster.controller.assigned)
    assert directory_of(moving.broker) == moving.origin
    assert cluster.controller.assigned[-1].directories[0].id_ == target.meta.directory_id
    await moving.until_moved()
    assert cluster.controller.state().directories == (target.meta.directory_id,)
    await asyncio.sleep(5)
    assert len(cluster.controller.assigned) == 1, "nobody says otherwise afterwards"


async def empty_without_leader(cluster, **change):
    """A replica on broker 1 whose log is empty, and which no partition set names as a candidate for leader."""
    moving = await filled(cluster, 0, replicas=(1, 2))
    cluster.controller.change(leader=NO_NODE, isr=(), **change)
    await cluster.applied()
    return moving


def elect(cluster):
    """Let broker 2 lead; broker 1 hears of the election at once, and applies it when it can."""
    cluster.controller.change(leader=NodeId(2), isr=(NodeId(2),), elr=(), recovering=True)


@pytest.mark.parametrize("is_lost", [False, True], ids=["another is eligible", "its log was lost"])
@clustered(count=2, **TWO)
async def test_a_move_of_an_empty_replica_does_not_wait_for_a_leader(cluster, is_lost):
    """The controller is not to know where such a replica is (BRK-11), and an operator may have to decide who leads."""
    known = cluster[2].directory_ids[0]
    if is_lost:
        moving = await empty_without_leader(cluster, directories=(LOST_DIRECTORY, known))
    else:
        moving = await empty_without_leader(cluster, elr=(NodeId(2),))
    target = next(one for one in moving.broker.directories if one.path == moving.target).meta.directory_id
    await moving.begin()
    await moving.until_moved()
    assert not [report for report in cluster.controller.assigned if report.broker_id == 1]
    elect(cluster)
    await cluster.until(lambda: cluster.controller.state().directories[0] == target)
    client = await cluster[2].client()
    assert (await produce(client, "t", records(b"x"), acks=1)).error_code is ErrorCode.none
    await cluster.until(lambda: cluster.are_equal(among=(1, 2)))
    assert directory_of(moving.broker) == moving.target


@clustered(count=2, **TWO)
async def test_a_leader_that_is_elected_before_the_logs_change_places_makes_the_move_wait_for_the_metadata(cluster):
    """From its election on a failure of the directory would go unnoticed if the controller did not know it (KIP-858)."""
    moving = await empty_without_leader(cluster, elr=(NodeId(2),))
    cluster.controller.delay_s = 1.0
    await moving.begin()
    async with moving.broker.replicas.directories_lock:
        elect(cluster)
        await asyncio.sleep(0.5)  # the election waits for the lock, and behind it the move
    await cluster.until(lambda: moving.broker.hosted().state.leader == 2)
    await asyncio.sleep(0.5)
    assert directory_of(moving.broker) == moving.origin
    await moving.until_moved()
    target = next(one for one in moving.broker.directories if one.path == moving.target)
    assert cluster.controller.state().directories[0] == target.meta.directory_id


@clustered(count=1, **TWO)
async def test_moves_keep_to_their_rate(cluster):
    moving = await filled(cluster, 4 * MB)
    await moving.slow_down(MB)
    await moving.begin()
    assert 3.5 < await moving.until_moved() < 5


@clustered(count=1, **TWO)
async def test_moving_back_ends_a_move(cluster):
    moving = await filled(cluster, 2 * MB)
    broker = moving.broker
    await moving.slow_down(1000)
    await moving.begin()
    await asyncio.sleep(1)
    await moving.begin()
    assert len(broker.replicas.moves) == 1, "the same wish again changes nothing"
    await move(broker, moving.origin)
    assert moving.is_over
    assert kinds(broker, moving.target) == ["delete"]
    await moving.slow_down(MB * 100)
    await asyncio.sleep(30)
    assert directory_of(broker) == moving.origin
    await moving.begin()
    await moving.until_moved()
    await move(broker, moving.origin)
    await cluster.until(lambda: directory_of(broker) == moving.origin and moving.is_over)


@clustered(count=1, **TWO)
async def test_what_cannot_be_is_refused(cluster):
    moving = await filled(cluster, BATCH)
    broker = moving.broker
    for path, name, is_known, code in (
        ("/c", NAME, True, ErrorCode.log_dir_not_found),
        ("/b", TopicPartition("u", 0), True, ErrorCode.replica_not_available),
        ("/b", TopicPartition("u", 0), False, ErrorCode.unknown_topic_or_partition),
    ):
        with pytest.raises(ApiError) as caught:
            await move(broker, path, name, is_known=is_known)
        assert caught.value.code is code
    broker.replicas.fail(next(one for one in broker.directories if one.path == moving.target), "test")
    with pytest.raises(ApiError) as caught:
        await moving.begin()
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
    moving = await filled(cluster, MB)
    await moving.slow_down(1000)
    await moving.begin()
    cluster.controller.delete()
    await cluster.applied()
    assert moving.is_over
    assert kinds(moving.broker, "/a") == kinds(moving.broker, "/b") == ["delete"]


@clustered(count=1, **TWO)
async def test_records_that_are_deleted_during_a_move_stay_deleted(cluster):
    moving = await filled(cluster, 3 * MB, segment_bytes=1 << 20)
    broker = moving.broker
    await moving.slow_down(MB)
    await moving.begin()
    await asyncio.sleep(2.5)
    broker.log().raise_log_start(17)
    broker.log().delete_old_segments_blocking(broker.env.clock.wall_ms())
    await moving.until_moved()
    assert (broker.log().log_start_offset, broker.log().log_end_offset) == (17, 30)
    broker.kill()
    await broker.start()
    assert (broker.log().log_start_offset, broker.log().log_end_offset) == (17, 30)


@clustered(count=2, **TWO)
async def test_a_follower_moves_and_what_its_leader_never_had_goes_from_the_copy_too(cluster):
    moving = await filled(cluster, MB, replicas=(1, 2))
    diverging, successor = cluster[1], cluster[2]
    await cluster.until(lambda: cluster.are_equal(among=(1, 2)))
    successor.kill()
    cluster.controller.fail_over(2)
    await diverging.applied()
    for _ in range(5):  # records that broker 1 writes alone, and that nobody else gets
        await produce(moving.client, "t", records(b"y" * BATCH), acks=1)
    diverging.replicas.throttles.moves.update(2 * MB)
    await moving.begin()
    await asyncio.sleep(0.7)
    await successor.start()
    cluster.controller.change(leader=NodeId(2), isr=(NodeId(2),), recovering=True)
    await cluster.applied()
    client = await successor.client()
    assert (await produce(client, "t", records(b"z"), acks=1)).base_offset == 10
    await moving.until_moved()
    await cluster.until(lambda: cluster.are_equal(among=(1, 2)))
    assert diverging.log().log_end_offset == 11


@clustered(count=1, **TWO)
async def test_a_target_that_fails_ends_the_move_and_harms_nothing(cluster):
    moving = await filled(cluster, MB)
    broker = moving.broker
    await moving.slow_down(MB // 10)
    await moving.begin()
    await asyncio.sleep(1)
    broker.replicas.fail(next(one for one in broker.directories if one.path == moving.target), "test")
    assert moving.is_over
    assert await moving.append() == 10
    assert directory_of(broker) == moving.origin


@clustered(count=1, **TWO)
async def test_a_directory_in_which_a_copy_cannot_be_put_aside_is_offline(cluster):
    moving = await filled(cluster, MB)
    broker = moving.broker
    await moving.slow_down(MB // 10)
    await moving.begin()
    await asyncio.sleep(1)
    broker.disk.fail("rename", f"{moving.target}/t-0.*-future")
    await move(broker, moving.origin)
    assert moving.is_over
    assert [directory.path for directory in broker.replicas.directories.online] == [moving.origin]


@clustered(count=1, **TWO)
async def test_a_directory_in_which_a_copy_cannot_take_its_place_is_offline_and_the_replica_stays(cluster):
    moving = await filled(cluster, MB)
    broker = moving.broker
    await moving.slow_down(MB // 10)
    await moving.begin()
    await asyncio.sleep(1)
    broker.disk.fail("rename", f"{moving.target}/t-0.*-future")
    await moving.slow_down(MB * 100)
    await cluster.until(lambda: moving.is_over)
    assert [directory.path for directory in broker.replicas.directories.online] == [moving.origin]
    assert directory_of(broker) == moving.origin
    assert await moving.append() == 10


@clustered(count=1, **TWO)
async def test_of_two_directories_of_a_replica_the_one_that_was_written_last_counts(cluster):
    moving = await filled(cluster, MB)
    broker = moving.broker
    broker.disk.fail("rename", f"{moving.origin}/t-0")  # the old one cannot be put aside
    await moving.begin()
    await moving.until_moved()
    assert [directory.path for directory in broker.replicas.directories.online] == [moving.target]
    assert await moving.append() == 10
    broker.kill()
    await broker.start()
    assert directory_of(broker) == moving.target
    assert broker.log().log_end_offset == 11
    assert kinds(broker, moving.origin) == ["delete"]


@clustered(count=1, **TWO)
async def test_a_move_goes_on_after_an_orderly_stop_where_it_was(cluster):
    moving = await filled(cluster, 2 * MB)
    broker = moving.broker
    await moving.slow_down(MB)
    await moving.begin()
    await asyncio.sleep(1)
    for directory in broker.directories:
        directory.close_blocking(broker.epoch)
    broker.kill(power=True)
    await broker.start()
    copy = next(directory for directory in broker.directories if directory.path == moving.target).futures[NAME]
    assert 5 < copy.log_end_offset < 15
    assert copy.recovery_point >= 5
    await moving.until_moved()


@clustered(count=1, **TWO)
async def test_a_copy_that_cannot_be_written_is_dropped(cluster):
    moving = await filled(cluster, MB)
    broker = moving.broker
    broker.disk.fail("write", f"{moving.target}/t-0*-future/*.log", times=1)
    await moving.begin()
    await cluster.until(lambda: moving.is_over)
    assert directory_of(broker) == moving.origin
    assert await moving.append() == 10
    assert len(broker.replicas.directories.online) == 2


@clustered(count=1, **TWO)
async def test_the_copy_of_a_replica_whose_directory_failed_goes_with_the_replica(cluster):
    """It is left for the next start; another replica of that name, which may be made here before, has nothing to do with it."""
    moving = await filled(cluster, MB)
    broker = moving.broker
    await moving.slow_down(MB // 10)
    await moving.begin()
    origin, target = (
        next(each for each in broker.directories if each.path == path) for path in (moving.origin, moving.target)
    )
    broker.replicas.fail(origin, "a test")
    assert moving.is_over
    assert kinds(broker, moving.target) == ["future"]
    cluster.controller.delete()
    await cluster.applied()
    assert not target.futures
    assert kinds(broker, moving.target) == ["delete"]
    assert broker.replicas.directories.online == [target]


@pytest.mark.parametrize("is_copied", [False, True], ids=["being copied", "copied"])
@clustered(count=1, **TWO)
async def test_a_replica_that_is_stopped_rather_than_cut_moves_no_more(cluster, caplog, is_copied):
    """TRUNC-8: it takes part in nothing any more, so that no metadata will ever confirm its new directory."""
    moving = await filled(cluster, MB)
    broker = moving.broker
    cluster.controller.delay_s = 1.0
    if not is_copied:
        await moving.slow_down(MB // 10)
    await moving.begin()
    if is_copied:
        await cluster.until(lambda: cluster.controller.assigned)
    assert directory_of(broker) == moving.origin
    before = broker.bytes_of()
    broker.replicas.take_offline(broker.hosted(), CommittedDataLossError("its leader has another log"))
    await cluster.until(lambda: moving.is_over)
    assert directory_of(broker) == moving.origin
    assert broker.bytes_of() == before
    await cluster.until(lambda: kinds(broker, moving.target) == ["delete"])
    await cluster.until(lambda: cluster.controller.state().directories == (LOST_DIRECTORY,))
    assert given_up(caplog) == ["the replica is offline"]
    broker.kill()
    await broker.start()
    await cluster.until(lambda: cluster.controller.state().directories == (broker.directory_ids[0],))
    assert moving.is_over
    assert directory_of(broker) == moving.origin
    await moving.begin()
    await moving.until_moved()


def given_up(caplog):
    """The reasons for which moves were given up, as logged."""
    texts = [record.getMessage() for record in caplog.records]
    return [text.partition("stays where it is: ")[2].partition(". When")[0] for text in texts if "is given up" in text]


@clustered(count=1, **TWO)
async def test_the_move_of_a_rotten_replica_that_is_alone_in_sync_is_given_up(cluster, caplog):
    moving = await filled(cluster, MB)
    broker = moving.broker
    segment = f"{moving.origin}/t-0/{0:020d}.log"
    await broker.log().flush()
    broker.disk.corrupt(segment, 5 * BATCH)
    broker.disk.make_cold(segment)
    for _ in range(2):
        await moving.begin()
        await cluster.until(lambda: moving.is_over)
        assert directory_of(broker) == moving.origin
        await cluster.until(lambda: set(kinds(broker, moving.target)) == {"delete"})
    assert len(given_up(caplog)) == 2
    assert all(f"{segment} is corrupt at" in reason for reason in given_up(caplog))
    assert "is the only in-sync replica, and it is corrupt" in caplog.text
    assert await moving.append() == 10, "it goes on where it is"
    broker.disk.corrupt(segment, 5 * BATCH)  # an operator has restored the file
    await moving.begin()
    await moving.until_moved()


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
        moving = await filled(cluster, 3 * BATCH, flush_messages=1)
        broker = moving.broker
        before = broker.bytes_of()
        broker.disk.kill_after(changes)
        acknowledged = 3
        with suppress(ProcessKilledError, ProcessEndedError):
            await moving.begin()
            while broker.process.alive and not moving.has_moved():
                answer = produce_later(moving.client, "t", records(b"x"), acks=-1)
                await asyncio.sleep(0.005)
                acknowledged += answer.done() and not answer.exception()
        was_killed = not broker.process.alive
        broker.kill(power=power)
        await broker.start()
        assert broker.bytes_of().startswith(before)
        end_offset = broker.log().log_end_offset
        assert end_offset >= acknowledged
        await cluster.until(lambda: moving.is_over)
        after = broker.bytes_of()
        moving.client = await broker.client()
        assert await moving.append() == end_offset
        assert broker.bytes_of().startswith(after)
        here = directory_of(broker)
        assert names(broker, here) == ["t-0"]
        assert set(kinds(broker, other(here))) <= {"delete"}
        return was_killed

    return loop.run(main(), limit_s=600)
