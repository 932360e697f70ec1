"""Compaction beside everything else that a node does with its logs."""

import asyncio
from contextlib import contextmanager

import pytest

from esp.broker.replication import cleaner
from esp.broker.replication.cleaner import LogCleaner, chunks_of_step, limits_of
from esp.model.errors import ErrorCode
from esp.model.ids import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, NodeId
from esp.records.batch import iterate_records
from esp.records.batch_header import find_end_offset, read_header
from esp.records.builder import NewRecord, build_batch
from esp.settings.broker import BrokerSettings
from esp.storage.compaction.cleaning import LogRound
from esp.storage.compaction.round import CleanerLimits
from tests.unit.broker.apis import test_alter_replica_log_dirs as directories
from tests.unit.broker.config_requests import BROKER, DELETE, SET, TOPIC, alter
from tests.unit.broker.conversation import create_topic, delete_topic, fetch, produce
from tests.unit.broker.replica_cluster import clustered
from tests.unit.broker.simulated_node import simulated

COMPACTED = {"cleanup_policy": "compact", "segment_bytes": 1024 * 1024, "min_cleanable_dirty_ratio": 0.01}
VALUE = bytes(300_000)


def batch(*keys, value=VALUE):
    return build_batch([NewRecord(value, key) for key in keys], timestamp_ms=1_795_000_000_000)


async def fill(client, topic="t", batches=12, keys=2):
    for number in range(batches):
        answer = await produce(client, topic, batch(b"key %d" % (number % keys)))
        assert answer.error_code is ErrorCode.none


async def until(holds):
    """Wait for something to become true, in simulated time."""
    for _ in range(10_000):
        if holds():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it does not become true")


async def change(client, *operations):
    """Change settings of the running node: (name, value)."""
    [(code, message)] = await alter(client, (BROKER, "1", *((name, SET, value) for name, value in operations)))
    assert code is ErrorCode.none, message


async def change_back(client, *names):
    """Delete settings of the running node: it has those of its file again, or the defaults."""
    [(code, message)] = await alter(client, (BROKER, "1", *((name, DELETE, None) for name in names)))
    assert code is ErrorCode.none, message


@contextmanager
def watched_steps():
    """A list that grows with each step of a round that a worker thread begins."""
    found, step_blocking = [], cleaner._step_blocking

    def step(steps):
        found.append(steps)
        return step_blocking(steps)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cleaner, "_step_blocking", step)
        yield found


@contextmanager
def watched_rounds():
    """The logs that are being compacted now."""
    running = []
    clean = LogCleaner._clean

    async def watch(self, hosted, *rest):
        running.append(hosted.log)
        try:
            return await clean(self, hosted, *rest)
        finally:
            running.remove(hosted.log)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogCleaner, "_clean", watch)
        yield running


def keys_of(data):
    left, found = memoryview(bytes(data)), []
    while left:
        header = read_header(left)
        found += [(record.offset, record.key) for record in iterate_records(left[: header.size])]
        left = left[header.size :]
    return found


def test_the_memory_of_the_settings_is_divided_among_the_threads():
    settings = BrokerSettings(
        log_cleaner_dedupe_buffer_size=100_000_000, log_cleaner_io_buffer_size=400_000, log_cleaner_threads=2
    )
    assert limits_of(settings) == CleanerLimits(map_bytes=45_000_000, chunk_bytes=100_000)
    assert limits_of(BrokerSettings(log_cleaner_threads=0)).map_bytes == int(134_217_728 * 0.9)


def test_chunks_are_smaller_where_the_map_leaves_little_room_for_their_headers():
    assert limits_of(BrokerSettings()).chunk_bytes == 262_144
    whole = BrokerSettings(log_cleaner_io_buffer_load_factor=1.0)
    assert limits_of(whole) == CleanerLimits(map_bytes=134_217_728, chunk_bytes=32_768)
    assert limits_of(BrokerSettings(log_cleaner_dedupe_buffer_size=10_000_000)).chunk_bytes == 95_268


@pytest.mark.parametrize(("factor", "counted"), [(-1.0, 0.0), (2.0, 1.0), (1e300, 1.0)])
def test_a_share_of_the_memory_that_is_none_is_taken_for_the_nearest(factor, counted):
    expected = limits_of(BrokerSettings(log_cleaner_io_buffer_load_factor=counted))
    assert limits_of(BrokerSettings(log_cleaner_io_buffer_load_factor=factor)) == expected


def test_the_memory_that_a_process_takes_to_run_is_taken_from_the_keys():
    limits = limits_of(BrokerSettings(), own_bytes=20_000_000)
    assert limits.chunk_bytes == 262_144
    assert limits.map_bytes + 20_000_000 + 16 * limits.chunk_bytes == 134_217_728 + 524_288
    assert limits_of(BrokerSettings(), own_bytes=5_000_000) == limits_of(BrokerSettings()), "the rest has room for it"
    small = BrokerSettings(log_cleaner_dedupe_buffer_size=10_000_000)
    assert limits_of(small, own_bytes=20_000_000).map_bytes == 4_500_000


def test_a_step_of_a_process_is_as_long_as_the_rate_allows():
    limits = CleanerLimits(map_bytes=1, chunk_bytes=262_144)
    assert chunks_of_step(limits, float("inf")) == 32, "8 MiB"
    assert chunks_of_step(limits, 10_485_760.0) == 4, "a tenth of a second's"
    assert chunks_of_step(limits, 1.0) == 1


@simulated(log_cleaner_backoff_ms=100)
async def test_a_topic_is_compacted_and_read_on(node):
    client = await node.client()
    await create_topic(client, **COMPACTED)
    await fill(client)
    log = node.log("t")
    await until(lambda: log.cleaned_to == log.sealed_end_offset > 0)
    offset, found = 0, []
    while offset < 12:
        data = bytes((await fetch(client, "t", offset)).records)
        found += keys_of(data)
        offset = find_end_offset(data)
    assert {key: at for at, key in found} == {b"key 0": 10, b"key 1": 11}
    assert len(found) < 8
    assert log.size < 8 * len(VALUE)
    await node.stop()
    await node.start()
    assert node.log("t").cleaned_to == log.cleaned_to
    assert node.log("t").log_end_offset == 12


@simulated(log_cleaner_backoff_ms=100)
async def test_a_topic_that_is_deleted_is_compacted_no_more(node):
    client = await node.client()
    for _ in range(3):
        await create_topic(client, **COMPACTED)
        await fill(client)
        await delete_topic(client, "t")
    await create_topic(client, **COMPACTED)
    await fill(client)
    await until(lambda: node.log("t").cleaned_to > 0)


@simulated(log_cleaner_backoff_ms=100)
async def test_a_topic_whose_policy_is_changed_is_compacted_from_then_on_and_no_longer(node):
    client = await node.client()
    await create_topic(client, **{**COMPACTED, "cleanup_policy": "delete"})
    await fill(client)
    log = node.log("t")
    await asyncio.sleep(5)
    assert log.cleaned_to == 0
    await alter(client, (TOPIC, "t", ("cleanup.policy", SET, "compact")))
    await until(lambda: log.cleaned_to > 0)
    await alter(client, (TOPIC, "t", ("cleanup.policy", SET, "delete")))
    cleaned_to = log.cleaned_to
    await fill(client)
    await asyncio.sleep(5)
    assert log.cleaned_to == cleaned_to


@simulated(log_cleaner_backoff_ms=100, log_cleaner_enable=False)
async def test_nothing_is_compacted_where_that_is_switched_off(node):
    client = await node.client()
    await create_topic(client, **COMPACTED)
    await fill(client)
    await asyncio.sleep(10)
    assert node.log("t").cleaned_to == 0


@simulated(log_cleaner_backoff_ms=1000)
async def test_a_round_begins_when_the_names_of_the_log_are_on_the_device(node):
    """The process before may have died before the sync of names that it gave (CLEAN-7)."""
    client = await node.client()
    await create_topic(client, **COMPACTED)
    await fill(client)
    await until(lambda: node.log("t").recovery_point == node.log("t").log_end_offset)
    await node.restart()
    log = node.log("t")
    assert not log.names_are_durable
    begun, begin = [], cleaner._begin

    def watch(cleaning, *rest):
        begun.append((cleaning.log, cleaning.log.names_are_durable))
        return begin(cleaning, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cleaner, "_begin", watch)
        await until(lambda: begun)
    assert begun[0] == (log, True)


@simulated(log_cleaner_backoff_ms=1000)
async def test_a_round_that_cannot_sync_the_names_takes_the_directory_offline(node):
    client = await node.client()
    await create_topic(client, **COMPACTED)
    await fill(client)
    await until(lambda: node.log("t").recovery_point == node.log("t").log_end_offset)
    await node.restart()
    log = node.log("t")
    node.disk.fail("sync", log.path)
    await until(lambda: log.is_offline)
    assert log.cleaned_to == 0


# --- rot ---------------------------------------------------------------------------------------------------------------------------


class ProcessHere:
    """A worker process (:class:`esp.ports.worker_process.WorkerProcess`) whose work the waiting thread does itself, with its own disk."""

    def __init__(self, disk):
        self.is_started = False
        self._disk = disk

    def iterate_blocking(self, function, *args):
        self.is_started = True
        yield from function(self._disk, *args)


@pytest.mark.parametrize("is_large", [False, True], ids=["in threads", "in a process"])
@clustered()
async def test_a_replica_in_which_a_round_meets_rot_is_repaired_and_compacted_then(cluster, monkeypatch, is_large):
    """CLEAN-6: the round hands the replica over (REC-4), and leaves it alone until it has begun anew from its leader."""
    monkeypatch.setattr(cleaner, "_PROCESS_FROM_BYTES", 0 if is_large else 1 << 40)
    controller, follower = cluster.controller, cluster[2]
    controller.create(leader=1, **COMPACTED)
    await cluster.applied()
    controller.change(directories=(UNASSIGNED_DIRECTORY,) * 3)
    await cluster.until(lambda: UNASSIGNED_DIRECTORY not in controller.state().directories)
    await fill(await cluster[1].client())
    await cluster.until(cluster.are_equal)
    rotten, own = follower.log(), LogCleaner(follower.env, follower.replicas, follower.tasks)
    await follower.replicas.flush(follower.hosted())
    follower.disk.content(f"{rotten.path}/{0:020d}.log").rot(1000, 1)
    process = ProcessHere(follower.disk)

    async def clean():
        return await follower.process.run(own.clean_one(process))

    assert rotten.rot is None
    for _ in range(2):
        assert not await clean()
        assert rotten.rot is not None
    assert process.is_started is is_large
    assert [*own.uncleanable()] == [follower.hosted()]
    assert own.failures == own.rounds == rotten.cleaned_to == 0
    assert not [name for name in follower.disk.listdir(rotten.path) if name.endswith(".cleaned")]
    await cluster.until(lambda: controller.state().directories[1] == LOST_DIRECTORY)
    controller.change(isr=(NodeId(1), NodeId(3)), leader=NodeId(1))
    await cluster.applied()
    await cluster.until(lambda: follower.hosted().follower.leader_has_answered)
    await follower.replicas.make_missing()
    await cluster.until(cluster.are_equal)
    await follower.replicas.flush(follower.hosted())
    assert await clean()
    repaired = follower.log()
    assert repaired is not rotten
    assert repaired.cleaned_to == repaired.sealed_end_offset > 0
    assert repaired.size < cluster[1].log().size
    assert [*own.uncleanable()] == []


# --- beside retention --------------------------------------------------------------------------------------------------------------

BOTH = {**COMPACTED, "cleanup_policy": "compact,delete"}


@pytest.mark.parametrize(("policy", "is_deleted"), [("compact", False), ("compact,delete", True)])
@simulated(log_cleaner_backoff_ms=100, log_retention_check_interval_ms=1000, log_initial_task_delay_ms=500)
async def test_a_compacted_log_loses_old_segments_where_its_policy_says_so(node, policy, is_deleted):
    client = await node.client()
    await create_topic(client, **{**COMPACTED, "cleanup_policy": policy})
    await fill(client)
    log = node.log("t")
    await until(lambda: log.cleaned_to == log.sealed_end_offset > 0)
    assert (log.log_start_offset, log.first_segment_offset) == (0, 0)
    assert log.size < 8 * len(VALUE), "what is superseded is gone"
    await alter(client, (TOPIC, "t", ("retention.bytes", SET, "1")))
    await asyncio.sleep(5)
    assert (log.log_start_offset == log.sealed_end_offset) is is_deleted
    assert (log.log_start_offset == 0) is not is_deleted
    await fill(client)
    await until(lambda: log.cleaned_to == log.sealed_end_offset > 12 or log.log_start_offset > 12)
    await node.stop()
    await node.start()
    found = node.log("t")
    assert (found.log_start_offset, found.log_end_offset) == (log.log_start_offset, 24)


@simulated(
    log_cleaner_backoff_ms=100_000, log_cleaner_io_max_bytes_per_second=300_000.0, log_retention_check_interval_ms=1000
)
async def test_segments_that_retention_takes_from_under_a_round_do_not_come_back(node):
    client = await node.client()
    await create_topic(client, **{**BOTH, "cleanup_policy": "delete"})
    await fill(client)
    log = node.log("t")
    await until(lambda: log.recovery_point >= 9)
    own = node.node.broker.running.cleaner
    with watched_steps() as steps:
        await alter(client, (TOPIC, "t", ("cleanup.policy", SET, "compact,delete")))
        await until(lambda: len(steps) == 13)
        assert own.rounds == 0, "the round copies"
        kept = log.size - 4 * len(VALUE)
        await alter(client, (TOPIC, "t", ("retention.bytes", SET, str(kept))))
        await until(lambda: log.log_start_offset > 0)
        start = log.log_start_offset
        assert 0 < start < log.sealed_end_offset
        await until(lambda: own.rounds or log.log_start_offset != start)
    assert log.first_segment_offset == log.log_start_offset == start
    data = bytes((await fetch(client, "t", start)).records)
    assert read_header(data).base_offset >= start
    await node.stop()
    await node.start()
    assert node.log("t").first_segment_offset == start
    assert node.log("t").log_end_offset == 12


# --- settings of a running node ----------------------------------------------------------------------------------------------------


@simulated(log_cleaner_backoff_ms=100)
async def test_the_memory_of_a_round_is_that_of_the_settings_when_it_begins(node):
    client = await node.client()
    limits = []
    begin = LogRound.__init__

    def watch(cleaning, log, cleanable, its_limits, *rest):
        limits.append(its_limits)
        begin(cleaning, log, cleanable, its_limits, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogRound, "__init__", watch)
        await create_topic(client, **COMPACTED)
        await fill(client)
        await until(lambda: limits)
        await change(
            client,
            ("log.cleaner.dedupe.buffer.size", "20000000"),
            ("log.cleaner.io.buffer.size", "100000"),
            ("log.cleaner.io.buffer.load.factor", "0.5"),
        )
        count = len(limits)
        await fill(client)
        await until(lambda: len(limits) > count)
    assert limits[0] == CleanerLimits(map_bytes=int(134_217_728 * 0.9), chunk_bytes=262_144)
    assert limits[-1] == CleanerLimits(map_bytes=10_000_000, chunk_bytes=50_000)


@simulated(log_cleaner_backoff_ms=3_000_000)
async def test_a_shorter_backoff_counts_while_the_cleaner_sleeps(node):
    client = await node.client()
    await create_topic(client, **COMPACTED)
    await fill(client)
    await asyncio.sleep(60)
    assert node.log("t").cleaned_to == 0
    await change(client, ("log.cleaner.backoff.ms", "100"))
    await asyncio.sleep(5)
    assert node.log("t").cleaned_to > 0


async def most_at_a_time(running, seconds):
    """The most logs that are compacted at a time in the next seconds of simulated time."""
    most = 0
    for _ in range(seconds * 20):
        await asyncio.sleep(0.05)
        most = max(most, len(running))
    return most


async def fill_several(client):
    for topic in ("t", "u", "v"):
        await fill(client, topic)


async def create_several(client):
    for topic in ("t", "u", "v"):
        await create_topic(client, topic, **COMPACTED)
    await fill_several(client)


@simulated(log_cleaner_backoff_ms=100, log_cleaner_io_max_bytes_per_second=300_000.0)
async def test_as_many_logs_are_compacted_at_a_time_as_there_are_threads(node):
    client = await node.client()
    with watched_rounds() as running:
        await create_several(client)
        assert await most_at_a_time(running, 4) == 1
        await change(client, ("log.cleaner.threads", "2"))
        assert await most_at_a_time(running, 4) == 2
        assert running[0] is not running[1]
        await change(client, ("log.cleaner.threads", "1"))
        await until(lambda: len(running) < 2)
        await fill_several(client)
        assert await most_at_a_time(running, 30) == 1


@simulated(log_cleaner_backoff_ms=100, log_cleaner_io_max_bytes_per_second=300_000.0)
async def test_the_default_number_of_threads_comes_back_when_a_higher_one_is_deleted(node):
    client = await node.client()
    with watched_rounds() as running:
        await create_several(client)
        for number in ("2", "3"):
            await change(client, ("log.cleaner.threads", number))
        assert await most_at_a_time(running, 4) == 3
        await change_back(client, "log.cleaner.threads")
        await until(lambda: not running)
        await fill_several(client)
        assert await most_at_a_time(running, 30) == 1


@simulated(log_cleaner_backoff_ms=100, log_cleaner_io_max_bytes_per_second=300_000.0, log_cleaner_threads=3)
async def test_the_number_of_threads_in_the_file_comes_back_when_a_lower_one_is_deleted(node):
    client = await node.client()
    await change(client, ("log.cleaner.threads", "1"))
    await asyncio.sleep(2)  # workers that are not wanted any more have ended
    with watched_rounds() as running:
        await create_several(client)
        assert await most_at_a_time(running, 4) == 1
        await change_back(client, "log.cleaner.threads")
        assert await most_at_a_time(running, 4) == 3


@simulated(log_cleaner_backoff_ms=100, log_cleaner_io_max_bytes_per_second=300_000.0, log_cleaner_threads=2)
async def test_workers_that_are_wanted_again_before_they_have_ended_are_not_doubled(node):
    client = await node.client()
    with watched_rounds() as running:
        for topic in ("t", "u", "v"):
            await create_topic(client, topic, **COMPACTED)
            await fill(client, topic)
        await until(lambda: len(running) == 2)
        await change(client, ("log.cleaner.threads", "1"))
        await asyncio.sleep(3)
        assert len(running) == 2, "rounds that have begun go on"
        await change(client, ("log.cleaner.threads", "2"))
        for _ in range(200):
            await asyncio.sleep(0.05)
            assert len(running) <= 2


@pytest.mark.parametrize("topics", [["t"], ["t", "u"]])
@simulated(log_cleaner_backoff_ms=100, log_cleaner_threads=2)
async def test_no_more_bytes_are_moved_in_a_second_than_may_be(node, topics):
    """Those that are read and those that are written, of all rounds together."""
    client = await node.client()
    own = node.node.broker.running.cleaner
    for topic in topics:
        await create_topic(client, topic, **{**COMPACTED, "cleanup_policy": "delete"})
        await fill(client, topic)
    await change(client, ("log.cleaner.io.max.bytes.per.second", "300000"))
    with watched_steps() as steps:
        await alter(client, *((TOPIC, topic, ("cleanup.policy", SET, "compact")) for topic in topics))
        await until(lambda: steps)
        begun_s = asyncio.get_running_loop().time()
        await until(lambda: own.rounds == len(topics))
    took_s = asyncio.get_running_loop().time() - begun_s
    least_s = (own.read_bytes + own.written_bytes) / 300_000
    assert own.written_bytes > 0
    assert least_s - 2 < took_s < least_s + 4


@simulated(log_cleaner_backoff_ms=100, log_cleaner_io_max_bytes_per_second=1000.0)
async def test_a_higher_rate_counts_while_a_round_waits(node):
    client = await node.client()
    await create_topic(client, **COMPACTED)
    with watched_steps() as steps:
        await fill(client)
        await until(lambda: steps)
        await asyncio.sleep(60)
        assert len(steps) == 1, "a chunk of 300 KB takes five minutes"
    await change(client, ("log.cleaner.io.max.bytes.per.second", "1000000000"))
    await asyncio.sleep(5)
    assert node.log("t").cleaned_to > 0


# --- the end of a round ------------------------------------------------------------------------------------------------------------


async def change_policy(node, client):
    await alter(client, (TOPIC, "t", ("cleanup.policy", SET, "delete")))
    await until(lambda: not node.log("t").settings.is_compacted)


async def delete(_node, client):
    await delete_topic(client, "t")


async def move(node, client):
    log = node.log("t")
    there = "/b" if log.path.startswith("/a/") else "/a"
    await directories.alter(client, there, ("t", (0,)))
    await until(lambda: node.log("t") is not log)


async def stop(node, _client):
    await node.stop()


async def wait_for_a_while(_node, _client):
    pass


@pytest.mark.parametrize("done_before", [2, 13])
@pytest.mark.parametrize(
    ("event", "most"), [(change_policy, 1), (delete, 1), (move, 1), (stop, 0), (wait_for_a_while, None)]
)
@simulated(log_cleaner_backoff_ms=100_000, log_cleaner_io_max_bytes_per_second=300_000.0, **directories.TWO)
async def test_a_round_ends_within_one_chunk(node, event, most, done_before):
    """In the first pass and in the second one; a step takes a second here, and is counted when it begins."""
    client = await node.client()
    await create_topic(client, **{**COMPACTED, "cleanup_policy": "delete"})
    await fill(client)
    await until(lambda: node.log("t").recovery_point >= 9)
    with watched_steps() as steps:
        await alter(client, (TOPIC, "t", ("cleanup.policy", SET, "compact")))
        await until(lambda: len(steps) == done_before)
        await event(node, client)
        count = len(steps)
        await asyncio.sleep(5)
        if most is None:
            assert len(steps) > count + 2, "it would go on"
        else:
            assert len(steps) <= count + most
