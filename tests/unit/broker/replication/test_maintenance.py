import asyncio

import pytest

from esp.broker.replication import maintenance
from esp.model.errors import ErrorCode
from esp.storage.log_directory import LogDirectory
from tests.unit.broker.conversation import create_topic, fetch, init_producer_id, list_offset, produce
from tests.unit.broker.simulated_node import records, simulated, values

KIB = 1024


async def fill(client, count, *, topic="t", size=600 * KIB):
    for number in range(count):
        assert (await produce(client, topic, records(b"%d" % number * size))).error_code is ErrorCode.none


def segments(node, topic="t"):
    return [name for name in node.names(f"/data/{topic}-0") if name.endswith(".log")]


@simulated(log_initial_task_delay_ms=1000, log_retention_check_interval_ms=1000)
async def test_old_segments_go_by_size_and_their_files_after_the_delay(node):
    client = await node.client()
    await create_topic(client, segment_bytes=1024 * KIB, retention_bytes=1000 * KIB, file_delete_delay_ms=20_000)
    await fill(client, 4)
    assert len(segments(node)) == 4
    await asyncio.sleep(3)
    assert (await list_offset(client, "t", -2)).offset == 2
    assert (await fetch(client, "t", 1)).error_code is ErrorCode.offset_out_of_range
    assert len(values((await fetch(client, "t", 2)).records)) == 1
    deleted = [name for name in node.names("/data/t-0") if name.endswith(".deleted")]
    assert deleted
    await asyncio.sleep(30)
    assert not [name for name in node.names("/data/t-0") if name.endswith(".deleted")]
    await node.restart()
    assert (await list_offset(await node.client(), "t", -2)).offset == 2


@pytest.mark.parametrize("write", ["write_high_watermarks", "write_recovery_points", "write_log_starts"])
@simulated()
async def test_checkpoints_wait_for_other_work_on_the_directories(node, write, monkeypatch):
    """REC-6: two writers of one checkpoint would take each other's file."""
    client = await node.client()
    await create_topic(client)
    written = []
    monkeypatch.setattr(LogDirectory, f"{write}_blocking", lambda _directory: written.append(write))
    directories = [node.replicas.directories.holding(node.log("t"))]
    subject = maintenance.Maintenance(node.env, node.settings, node.replicas, directories, None, None)
    async with node.replicas.directories_lock:
        running = asyncio.ensure_future(getattr(subject, write)())
        await asyncio.sleep(1)
        assert not written
    await running
    assert written


@simulated(log_initial_task_delay_ms=1000, log_retention_check_interval_ms=1000)
async def test_old_segments_go_by_age_the_active_one_too(node):
    client = await node.client()
    await create_topic(client, retention_ms=10_000)
    await fill(client, 2, size=10)
    await asyncio.sleep(5)
    assert (await list_offset(client, "t", -2)).offset == 0
    await asyncio.sleep(10)
    assert (await list_offset(client, "t", -2)).offset == 2
    assert (await produce(client, "t", records(b"x"))).base_offset == 2


@simulated(log_initial_task_delay_ms=1000, log_retention_check_interval_ms=1000)
async def test_one_log_whose_segments_cannot_be_dropped_does_not_hold_up_the_others(node):
    client = await node.client()
    for topic in "tu":
        await create_topic(client, topic, retention_ms=1000)
        await fill(client, 2, topic=topic, size=10)
    node.disk.fail("rename", "/data/t-0/*", times=3)
    await asyncio.sleep(3)
    assert (await list_offset(client, "u", -2)).offset == 2
    await asyncio.sleep(10)
    assert (await list_offset(client, "t", -2)).offset == 2


@simulated(
    log_initial_task_delay_ms=1000,
    replica_high_watermark_checkpoint_interval_ms=2000,
    log_flush_offset_checkpoint_interval_ms=2000,
)
async def test_checkpoints_are_written_again_and_again_and_a_full_disk_does_not_stop_the_node(node):
    client = await node.client()
    await create_topic(client)
    await fill(client, 3, size=10)
    await node.replicas.flush(node.hosted("t"))
    node.disk.fail("write", "/data/*-offset-checkpoint*", error=28, times=10_000)
    await asyncio.sleep(30)
    assert node.process.alive
    assert "recovery-point-offset-checkpoint" not in node.names()
    node.disk.heal()
    await asyncio.sleep(3)
    assert b"t 0 3" in node.disk.read_file("/data/recovery-point-offset-checkpoint")
    assert b"t 0 3" in node.disk.read_file("/data/replication-offset-checkpoint")


CHECKPOINTS = {
    "replication-offset-checkpoint": "replica_high_watermark_checkpoint_interval_ms",
    "recovery-point-offset-checkpoint": "log_flush_offset_checkpoint_interval_ms",
    "log-start-offset-checkpoint": "log_flush_start_offset_checkpoint_interval_ms",
}


async def written_at(node, name, *, until_s):
    """The seconds after now at which a file is there again each time it was removed."""
    began, times = node.loop.time(), []
    while node.loop.time() - began < until_s:
        if name in node.names():
            times.append(round(node.loop.time() - began))
            node.disk.remove(f"/data/{name}")
        await asyncio.sleep(0.1)
    return times


@pytest.mark.parametrize("name", CHECKPOINTS)
@simulated(start=False)
async def test_each_checkpoint_has_an_interval_of_its_own(node, name):
    never = dict.fromkeys(CHECKPOINTS.values(), 3_600_000)
    await node.start(log_initial_task_delay_ms=3000, **(never | {CHECKPOINTS[name]: 3000}))
    others = [asyncio.ensure_future(written_at(node, other, until_s=14)) for other in CHECKPOINTS if other != name]
    assert await written_at(node, name, until_s=14) == [3, 6, 9, 12]
    for other in others:
        assert len(await other) <= 1  # after log.initial.task.delay.ms


@simulated(start=False)
async def test_a_checkpoint_without_an_interval_is_written_once(node):
    await node.start(log_initial_task_delay_ms=1000, **dict.fromkeys(CHECKPOINTS.values(), 0))
    for times in await asyncio.gather(*(written_at(node, name, until_s=10) for name in CHECKPOINTS)):
        assert len(times) == 1


@simulated()
async def test_a_sealed_segment_is_flushed_soon(node):
    client = await node.client()
    await create_topic(client, segment_bytes=1024 * KIB)
    await fill(client, 2)
    log = node.log("t")
    assert log.has_unflushed_segment
    await asyncio.sleep(2)
    assert not log.has_unflushed_segment
    assert log.recovery_point >= 1


@simulated()
async def test_many_small_batches_are_flushed_so_that_recovery_stays_short(node):
    client = await node.client()
    await create_topic(client)
    await fill(client, 5, size=10)
    await asyncio.sleep(10)
    assert node.log("t").unflushed_batches == 5
    assert "recovery-point-offset-checkpoint" not in node.names()
    limit, maintenance.UNFLUSHED_BATCHES_MAX = maintenance.UNFLUSHED_BATCHES_MAX, 4
    try:
        await asyncio.sleep(2)
    finally:
        maintenance.UNFLUSHED_BATCHES_MAX = limit
    assert node.log("t").unflushed_batches == 0
    assert b"t 0 5" in node.disk.read_file("/data/recovery-point-offset-checkpoint")


@simulated(producer_id_expiration_ms=10_000, producer_id_expiration_check_interval_ms=1000)
async def test_producers_that_are_idle_for_too_long_are_forgotten(node):
    client = await node.client()
    await create_topic(client)
    producer_id = (await init_producer_id(client)).producer_id
    batch = records(
        b"x", producer_id=producer_id, producer_epoch=0, base_sequence=0, timestamp_ms=node.env.clock.wall_ms()
    )
    await produce(client, "t", batch)
    await asyncio.sleep(5)
    assert len(node.log("t").producers) == 1
    await asyncio.sleep(10)
    assert len(node.log("t").producers) == 0


@simulated()
async def test_a_job_that_fails_for_want_of_the_device_is_done_again(node):
    turns = []

    async def job():
        turns.append(node.loop.time())
        raise OSError(28, "full")

    upkeep = maintenance.Maintenance(node.env, node.settings, node.replicas, (), None, None)
    task = asyncio.ensure_future(upkeep._repeat("purge", 1000, 2000, job))
    await asyncio.sleep(6)
    assert len(turns) == 3
    task.cancel()


@simulated()
async def test_a_job_with_a_bug_is_not_hidden(node):
    async def job():
        raise ValueError("a bug")

    upkeep = maintenance.Maintenance(node.env, node.settings, node.replicas, (), None, None)
    with pytest.raises(ValueError, match="a bug"):
        await upkeep._repeat("purge", 0, 0, job)


@simulated(log_scrub_interval_ms=5000)
async def test_rot_of_a_sealed_segment_is_found_though_nobody_reads_it_and_what_is_sound_is_served(node, caplog):
    """REC-4: the only replica stays."""
    client = await node.client()
    await create_topic(client, segment_bytes=1024 * KIB)
    await fill(client, 4)
    await node.replicas.flush(node.hosted("t"))
    content = node.disk.content("/data/t-0/00000000000000000000.log")
    content.rot(300 * KIB, 1)
    assert node.hosted("t").log.rot is None
    await asyncio.sleep(7)
    assert "is corrupt at 0" in str(node.hosted("t").log.rot)
    assert "only in-sync replica" in caplog.text
    assert (await fetch(client, "t", 0)).error_code is ErrorCode.corrupt_message
    assert len(values((await fetch(client, "t", 2)).records)) == 1
    assert (await produce(client, "t", records(b"x"))).error_code is ErrorCode.none


@simulated(log_scrub_interval_ms=5000)
async def test_a_scrub_of_sound_logs_finds_nothing_and_takes_its_time(node):
    client = await node.client()
    await create_topic(client, segment_bytes=1024 * KIB)
    await fill(client, 10)
    begin_s = node.loop.time()
    await maintenance.Maintenance(node.env, node.settings, node.replicas, [], None, None).scrub()
    sealed = 600 * KIB * 9
    assert node.loop.time() - begin_s > 0.9 * sealed / maintenance.SCRUB_BYTES_PER_S
    assert node.hosted("t").log.rot is None


@simulated(log_scrub_interval_ms=5000)
async def test_a_scrub_tells_of_a_device_that_cannot_be_read_and_goes_on(node, monkeypatch, caplog):
    client = await node.client()
    await create_topic(client, "t", partitions=2, segment_bytes=1_048_576)
    asked = []

    async def fail(self, *_args, **_options):
        asked.append(self.path)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("esp.storage.log.Log.sealed_end_offset", 10)
    monkeypatch.setattr("esp.storage.log.Log.read_cold", fail)
    await maintenance.Maintenance(node.env, node.settings, node.replicas, [], None, None).scrub()
    assert len(asked) == 2
    assert caplog.text.count("cannot be read at offset 0: [Errno 5]") == 2


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_log_directory_that_is_not_there_any_more_goes_offline(is_replaced, caplog):
    """Its open files take what is written, and a client would be told that records are kept which no start finds."""

    @simulated(log_dirs=("/a", "/b"), metadata_log_dir="/meta")
    async def scenario(node):
        client = await node.client()
        await create_topic(client, partitions=2)
        for number in range(2):
            assert (await produce(client, "t", records(b"0"), partition=number)).error_code is ErrorCode.none
        node.disk.remove_tree("/b")
        if is_replaced:
            node.disk.make_directory("/b")
            node.disk.write_file("/b/.lock", b"")
        await asyncio.sleep(6)
        answers = {}
        for number in range(2):
            place = node.hosted("t", number).log.path.split("/")[1]
            answers[place] = (await produce(client, "t", records(b"1"), partition=number)).error_code
        assert answers == {"a": ErrorCode.none, "b": ErrorCode.kafka_storage_error}

    scenario()
    assert "the log directory /b is offline: /b was removed, unmounted or replaced while this node runs" in caplog.text


def test_a_log_directory_that_lacks_the_file_of_its_lock_only_is_in_place():
    """As where a tool tidies up: ``/tmp``, the place of Kafka's default directory, is swept."""

    @simulated()
    async def scenario(node):
        client = await node.client()
        await create_topic(client)
        node.disk.remove(f"{node.settings.log_dirs[0]}/.lock")
        await asyncio.sleep(6)
        assert (await produce(client, "t", records(b"0"))).error_code is ErrorCode.none

    scenario()
