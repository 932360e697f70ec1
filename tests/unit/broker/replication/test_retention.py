"""Retention of many logs: no device is waited for on the loop, and flushes and segments do not meet."""

import asyncio
import errno
import struct
from random import Random
from types import SimpleNamespace

import pytest

from esp.broker.replication.retention import delete_old_segments
from esp.broker.replication.retention_holds import RetentionHolds
from esp.model.ids import TopicPartition
from esp.settings.topic import TopicSettings
from esp.simulation.machine.clock import SimulatedClock
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.loop import SimulatedLoop
from esp.storage.log_directory import LogDirectory
from esp.storage.time_proof import TimeProof
from tests.unit.storage.helpers import TOPIC_ID, append

SYNC_S = 0.01


class GuardedDisk(SimulatedDisk):
    """Devices take their time; whoever waits for them on the loop is found out."""

    def __init__(self):
        super().__init__(Random(0), wait=self._work)
        self.is_in_worker = True
        self.syncs = 0

    async def _work(self, _operation, _size):
        self.syncs += 1
        await asyncio.sleep(SYNC_S)

    def sync_directory_blocking(self, path):
        assert self.is_in_worker, "the loop waits for a device"
        super().sync_directory_blocking(path)


class Worker:
    """See :class:`esp.ports.cpu.Cpu`."""

    def __init__(self, disk):
        self._disk = disk
        self.jobs = 0

    async def run(self, function, *args):
        self.jobs += 1
        await asyncio.sleep(SYNC_S)
        self._disk.is_in_worker = True
        try:
            return function(*args)
        finally:
            self._disk.is_in_worker = False


class Hosted(SimpleNamespace):
    """What retention needs of a replica."""

    __hash__ = object.__hash__


class Replicas:
    """What retention needs of the host of the replicas."""

    def __init__(self, disk, count, settings):
        self.directories_lock = asyncio.Lock()
        self.directory = LogDirectory.open_blocking(disk, "data")
        self.directories = SimpleNamespace(holding=lambda log: self.directory)
        self._hosted = []
        for number in range(count):
            name = TopicPartition("t", number)
            log = self.directory.create_log_blocking(name, TOPIC_ID, settings)
            log.begin_epoch(0)
            self._hosted.append(Hosted(name=name, log=log, busy=asyncio.Lock(), leader=None))

    def __iter__(self):
        return iter(self._hosted)

    def __getitem__(self, number):
        return self._hosted[number]

    def find(self, _topic, number):
        return self._hosted[number]


class Scene:
    def __init__(self, count, **settings):
        self.disk = GuardedDisk()
        self.cpu = Worker(self.disk)
        self.env = SimpleNamespace(clock=SimulatedClock(asyncio.get_running_loop()), cpu=self.cpu)
        self.holds = RetentionHolds(lambda: self.questions)
        self.questions = None
        self.replicas = Replicas(self.disk, count, TopicSettings(**{"segment_bytes": 200} | settings))

    def fill(self, count=7):
        self.disk.is_in_worker = True
        for hosted in self.replicas:
            for _ in range(count):
                append(hosted.log)
            hosted.log.high_watermark = hosted.log.log_end_offset
        self.disk.is_in_worker = False

    async def run(self):
        await delete_old_segments(self.env, self.replicas, self.holds)


def played(scenario):
    def test(*args, **kwargs):
        SimulatedLoop().run(scenario(*args, **kwargs), limit_s=3600)

    test.__name__ = scenario.__name__
    return test


@pytest.mark.parametrize(
    "settings", [{"retention_bytes": 200}, {"retention_ms": 0}, {"retention_ms": 0, "segment_bytes": 10**6}]
)
def test_a_pass_waits_for_no_device_on_the_loop_and_writes_one_checkpoint_for_many_logs(settings):
    async def scenario():
        scene = Scene(100, **settings)
        scene.fill()
        await scene.run()
        assert all(hosted.log.log_start_offset > 0 for hosted in scene.replicas)
        assert all(hosted.log.first_segment_offset == hosted.log.log_start_offset for hosted in scene.replicas)
        assert scene.cpu.jobs <= 8
        jobs, syncs = scene.cpu.jobs, scene.disk.syncs
        await scene.run()
        assert (scene.cpu.jobs, scene.disk.syncs) == (jobs, syncs), "nothing is left to do"

    SimulatedLoop().run(scenario(), limit_s=3600)


@played
async def test_the_log_start_is_durable_before_segments_go():
    scene = Scene(3, retention_bytes=200)
    scene.fill()
    await scene.run()
    starts = [hosted.log.log_start_offset for hosted in scene.replicas]
    scene.disk.is_in_worker = True
    for hosted in scene.replicas:
        assert hosted.log.flush_blocking()
    scene.replicas.directory.write_recovery_points_blocking()
    scene.disk.power_loss()
    directory = LogDirectory.open_blocking(scene.disk, "data")
    for hosted, start_offset in zip(scene.replicas, starts, strict=True):
        found = directory.load_log_blocking(hosted.name, hosted.log.settings, 0)
        assert (found.log_start_offset, found.log_end_offset) == (start_offset, 7)


@played
async def test_segments_go_only_while_nobody_flushes_the_log():
    scene = Scene(2, retention_bytes=200)
    scene.fill()
    flushed, other = scene.replicas
    await flushed.busy.acquire()
    running = asyncio.ensure_future(scene.run())
    await asyncio.sleep(1)
    assert flushed.log.first_segment_offset == 0
    flushed.busy.release()
    await running
    assert flushed.log.first_segment_offset == other.log.first_segment_offset > 0


@played
async def test_other_work_on_the_directories_gets_its_turn_between_two_slices():
    scene = Scene(60, retention_bytes=200)
    scene.fill()
    running = asyncio.ensure_future(scene.run())
    await asyncio.sleep(0)
    async with scene.replicas.directories_lock:
        assert not running.done()
        dropped = [hosted.log.first_segment_offset > 0 for hosted in scene.replicas]
        assert 0 < sum(dropped) < 60
    await running


@played
async def test_what_is_appended_meanwhile_stays():
    scene = Scene(1, retention_ms=0, segment_bytes=10**6)
    scene.fill()
    log = scene.replicas[0].log
    running = asyncio.ensure_future(scene.run())
    await asyncio.sleep(SYNC_S / 2)
    append(log)
    await running
    assert (log.log_end_offset, log.first_segment_offset) == (8, 0), "the segment holds a record that is not committed"
    log.high_watermark = 8
    await scene.run()
    assert (log.log_start_offset, log.first_segment_offset) == (8, 8)


@played
async def test_an_error_of_one_log_or_of_a_checkpoint_leaves_the_rest_to_the_next_pass():
    scene = Scene(3, retention_bytes=200)
    scene.fill()
    scene.disk.fail("rename", "data/t-1/*", error=errno.EIO)
    await scene.run()
    assert [hosted.log.log_start_offset > 0 for hosted in scene.replicas] == [True] * 3
    scene.fill()
    scene.disk.fail("write", "data/log-start-offset-checkpoint*", error=errno.ENOSPC)
    firsts = [hosted.log.first_segment_offset for hosted in scene.replicas]
    await scene.run()
    assert [hosted.log.first_segment_offset for hosted in scene.replicas] == firsts
    scene.disk.heal()
    await scene.run()
    assert all(hosted.log.first_segment_offset == hosted.log.log_start_offset > 7 for hosted in scene.replicas)


@pytest.fixture
def read_in_worker(monkeypatch):
    """For each step in which batches were read for their times, whether a worker did so; filled while the test runs."""
    found = []
    step = TimeProof._step_blocking

    def noted(proof):
        found.append(proof.segment._disk.is_in_worker)
        step(proof)

    monkeypatch.setattr(TimeProof, "_step_blocking", noted)
    return found


def test_a_rotten_time_index_takes_no_young_records_and_blocks_no_loop(read_in_worker):
    SimulatedLoop().run(_play_a_rotten_time_index(), limit_s=3600)
    assert read_in_worker
    assert all(read_in_worker)


async def _play_a_rotten_time_index():
    scene = Scene(3, retention_ms=1000, segment_bytes=100)
    scene.disk.is_in_worker = True
    directory = scene.replicas.directory
    now_ms = scene.env.clock.wall_ms()
    for hosted in scene.replicas:
        for timestamp in (now_ms - 5000, now_ms, now_ms, now_ms):
            append(hosted.log, timestamp=timestamp)
        hosted.log.high_watermark = hosted.log.log_end_offset
    directory.close_blocking(1)
    rotten = f"data/t-1/{1:020d}.timeindex"
    scene.disk.write_file(rotten, struct.pack(">qi", now_ms - 4000, 0))
    scene.replicas.directory = directory = LogDirectory.open_blocking(scene.disk, "data")
    for hosted in scene.replicas:
        hosted.log = directory.load_log_blocking(hosted.name, hosted.log.settings, 0)
        hosted.log.high_watermark = hosted.log.log_end_offset
    scene.disk.is_in_worker = False
    await scene.run()
    assert [hosted.log.log_start_offset for hosted in scene.replicas] == [1, 1, 1]
    assert scene.disk.read_file(rotten) == struct.pack(">qi", now_ms, 0)
    jobs = scene.cpu.jobs
    await scene.run()
    assert scene.cpu.jobs == jobs, "what was proven is not read again"


@played
async def test_a_log_that_is_cut_while_its_times_are_read_is_left_to_the_next_pass():
    scene = Scene(1, retention_ms=1000, segment_bytes=100)
    scene.disk.is_in_worker = True
    now_ms = scene.env.clock.wall_ms()
    (hosted,) = scene.replicas
    for _ in range(3):
        append(hosted.log, timestamp=now_ms - 5000)
    hosted.log.high_watermark = 3
    scene.replicas.directory.close_blocking(1)
    scene.replicas.directory = directory = LogDirectory.open_blocking(scene.disk, "data")
    hosted.log = directory.load_log_blocking(hosted.name, hosted.log.settings, 0)
    hosted.log.high_watermark = 3
    running = asyncio.ensure_future(scene.run())
    await asyncio.sleep(SYNC_S / 2)
    hosted.log.truncate_to(2)
    await running
    assert (hosted.log.log_start_offset, hosted.log.log_end_offset) == (0, 2)
    scene.disk.is_in_worker = False
    await scene.run()
    assert hosted.log.log_start_offset == 2


def test_a_segment_whose_times_cannot_be_read_is_told_of_and_left_to_the_next_pass(caplog):
    SimulatedLoop().run(_play_times_that_cannot_be_read(caplog), limit_s=3600)


async def _play_times_that_cannot_be_read(caplog):
    scene = Scene(1, retention_ms=1000, segment_bytes=100)
    now_ms = scene.env.clock.wall_ms()
    (hosted,) = scene.replicas
    for _ in range(3):
        append(hosted.log, timestamp=now_ms - 5000)
    hosted.log.high_watermark = 3
    scene.replicas.directory.close_blocking(1)
    scene.replicas.directory = directory = LogDirectory.open_blocking(scene.disk, "data")
    hosted.log = directory.load_log_blocking(hosted.name, hosted.log.settings, 0)
    hosted.log.high_watermark = 3
    scene.disk.fail("read", "data/t-0/*.log")
    await scene.run()
    assert "no segment can be dropped now" in caplog.text
    assert hosted.log.log_start_offset == 0
    scene.disk.heal()
    await scene.run()
    assert hosted.log.log_start_offset > 0
