"""One log: LOG-*, TRUNC-6, SYNC-1 and the edges that random histories seldom meet."""

import errno
from random import Random

import pytest

from esp.model.errors import ApiError, ErrorCode
from esp.ports.disk import File
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.records.compression import Codec
from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.steps import sync_blocking
from tests.unit.storage.helpers import (
    CPU,
    REPLICA,
    DirectCpu,
    append,
    headers,
    make_batch,
    new_disk,
    new_log,
    read_all,
    reopen,
    run,
)

FIRST = f"{REPLICA}/{0:020d}"


def refused(error: pytest.ExceptionInfo[ApiError]) -> ErrorCode:
    return error.value.code


# --- files -------------------------------------------------------------------------------------------------------------------------


def test_an_empty_log_has_kafka_s_files_after_an_orderly_stop() -> None:
    disk = new_disk()
    directory, _ = new_log(disk)
    directory.close_blocking(1)
    assert disk.listdir(REPLICA) == [
        f"{0:020d}.index",
        f"{0:020d}.log",
        f"{0:020d}.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert disk.read_file(f"{REPLICA}/partition.metadata") == b"version: 0\ntopic_id: EjRWeJq83vASNFZ4mrze8A"
    assert disk.read_file(f"{FIRST}.log") == disk.read_file(f"{FIRST}.index") == b""


class WatchedDisk(SimulatedDisk):
    """A disk that knows the segments' files that were opened."""

    opened: list[File]

    def open(self, path: str, *, create: bool = False) -> File:
        file = super().open(path, create=create)
        if path.endswith(".log"):
            self.opened.append(file)
        return file


def test_a_log_that_is_closed_holds_no_file_open() -> None:
    disk = WatchedDisk(Random(0))
    disk.opened = []
    directory, log = new_log(disk, TopicSettings(segment_bytes=100))
    for _ in range(5):
        append(log)
    assert len(log.files.segments) > 1
    directory.close_blocking(1)
    for file in disk.opened:
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.size()


def test_a_read_up_to_an_offset_ends_in_its_own_segment() -> None:
    _, log = new_log(new_disk(), TopicSettings(segment_bytes=1))
    batches = [append(log) for _ in range(3)]
    assert bytes(log.read(1, 1_000, 3, at_least_one=True) or b"") == batches[1], (
        "from here on the place of the offset 1 is known"
    )
    assert bytes(log.read(0, 1_000, 1, at_least_one=True) or b"") == batches[0]


def test_a_log_that_begins_anew_has_no_snapshot_of_the_one_before() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    append(log)
    directory.close_blocking(1)
    assert [name for name in disk.listdir(REPLICA) if name.endswith(".snapshot")] == [f"{1:020d}.snapshot"]
    _, log = reopen(disk)
    log.truncate_fully_and_start_at(100)
    assert not [name for name in disk.listdir(REPLICA) if name.endswith(".snapshot")]


def test_a_rolled_segment_of_one_batch_has_an_empty_index_and_one_time_entry() -> None:
    disk = new_disk()
    _, log = new_log(disk)
    append(log, records=3)
    log.roll(0)
    assert disk.read_file(f"{FIRST}.index") == b""
    assert disk.read_file(f"{FIRST}.timeindex") == (1002).to_bytes(8, "big") + (2).to_bytes(4, "big")
    assert len(disk.read_file(f"{REPLICA}/{3:020d}.snapshot")) == 10


def test_index_entries_name_the_last_offset_and_are_due_by_the_bytes_before() -> None:
    disk = new_disk()
    directory, log = new_log(disk, TopicSettings(index_interval_bytes=150))
    sizes = [len(append(log, records=2)) for _ in range(6)]
    directory.close_blocking(1)
    data = disk.read_file(f"{FIRST}.index")
    entries = [(int.from_bytes(data[p : p + 4], "big"), int.from_bytes(data[p + 4 : p + 8], "big")) for p in (0, 8)]
    assert len(data) == 16
    assert entries == [(5, 2 * sizes[0]), (9, 4 * sizes[0])]


def test_the_bytes_of_a_log_are_the_bytes_that_were_appended() -> None:
    disk = new_disk()
    _, log = new_log(disk)
    data = b"".join(append(log, records=number, codec=number % 5) for number in range(1, 9))
    assert disk.read_file(f"{FIRST}.log") == data


# --- rolls -------------------------------------------------------------------------------------------------------------------------


def test_a_batch_that_does_not_fit_begins_a_new_segment() -> None:
    _, log = new_log(new_disk(), TopicSettings(segment_bytes=200))
    for _ in range(5):
        append(log)
    assert [segment.base_offset for segment in log.files.segments] == [0, 2, 4]
    assert log.has_unflushed_segment


def test_offsets_too_far_for_the_index_begin_a_new_segment() -> None:
    _, log = new_log(new_disk())
    append(log)
    far = make_batch(2**31 + 5)
    log.append(far, read_header(far), 0)
    assert [segment.base_offset for segment in log.files.segments] == [0, 2**31 + 5]
    assert log.log_end_offset == 2**31 + 6
    assert [header.base_offset for header in read_all(log)] == [0, 2**31 + 5]


def test_a_segment_is_rolled_by_the_time_of_its_records() -> None:
    _, log = new_log(new_disk(), TopicSettings(segment_ms=1000))
    append(log, timestamp=5000)
    append(log, timestamp=6000)
    append(log, timestamp=100)
    assert len(log.files.segments) == 1
    append(log, timestamp=6001)
    assert len(log.files.segments) == 2


def test_a_segment_is_rolled_when_its_index_is_full() -> None:
    _, log = new_log(new_disk(), TopicSettings(index_interval_bytes=0, segment_index_bytes=36))
    for number in range(6):
        append(log, timestamp=1000 + number)
    assert [segment.base_offset for segment in log.files.segments] == [0, 3]


def test_a_roll_of_an_empty_segment_does_nothing() -> None:
    _, log = new_log(new_disk())
    log.roll(0)
    assert len(log.files.segments) == 1


# --- errors of the device ----------------------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_the_batch_and_leaves_no_byte_of_it() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    first = append(log)
    disk.fill_up(40)
    with pytest.raises(ApiError) as error:
        append(log)
    assert refused(error) is ErrorCode.kafka_storage_error
    assert (log.log_end_offset, log.is_offline) == (1, False)
    assert disk.read_file(f"{FIRST}.log") == first
    disk.heal()
    second = append(log)
    assert disk.read_file(f"{FIRST}.log") == first + second
    directory.close_blocking(1)


def test_a_failed_append_leaves_the_producer_as_it_was() -> None:
    disk = new_disk()
    _, log = new_log(disk)
    disk.fail("write", "*.log", error=errno.EIO)
    with pytest.raises(ApiError):
        append(log, producer=(5, 0, 0))
    assert log.producers.get(5) is None
    append(log, producer=(5, 0, 0))


def test_a_log_whose_failed_write_cannot_be_undone_takes_no_more() -> None:
    disk = new_disk(3)
    directory, log = new_log(disk)
    append(log)
    disk.fail("write", "*.log", times=2)
    with pytest.raises(ApiError):
        append(log)
    assert log.is_offline
    with pytest.raises(ApiError) as error:
        append(log)
    assert refused(error) is ErrorCode.kafka_storage_error
    assert [header.base_offset for header in read_all(log)] == [0]
    directory.close_blocking(1)
    directory, log = reopen(disk)
    assert not directory.was_clean
    assert log.log_end_offset == 1


@pytest.mark.parametrize("suffix", [".snapshot", ".log", ".index", ".timeindex"])
def test_a_roll_that_fails_leaves_the_log_as_it_was(suffix: str) -> None:
    disk = new_disk()
    _, log = new_log(disk, TopicSettings(segment_bytes=150))
    append(log)
    disk.fail("create", f"*1{suffix}", error=errno.ENOSPC)
    with pytest.raises(ApiError) as error:
        append(log)
    assert refused(error) is ErrorCode.kafka_storage_error
    assert (len(log.files.segments), log.log_end_offset) == (1, 1)
    append(log)
    assert [header.base_offset for header in read_all(log)] == [0, 1]


def test_indexes_that_cannot_be_written_hold_the_recovery_point_back() -> None:
    disk = new_disk()
    _, log = new_log(disk)
    append(log)
    disk.fail("write", f"{FIRST}.timeindex", error=errno.ENOSPC, times=2)
    log.roll(0)
    append(log)
    log.flush_blocking()
    assert (log.recovery_point, log.is_offline) == (0, False)
    log.flush_blocking()
    assert log.recovery_point == 2


def test_a_failed_sync_is_final() -> None:
    disk = new_disk()
    _, log = new_log(disk)
    append(log)
    disk.fail("sync", "*.log")
    with pytest.raises(OSError, match="Input/output"):
        run(log.flush())
    assert log.is_offline
    run(log.flush())
    assert log.recovery_point == 0
    with pytest.raises(ApiError):
        append(log)


# --- flush -------------------------------------------------------------------------------------------------------------------------


def test_the_recovery_point_moves_over_what_was_synced() -> None:
    disk = new_disk()
    _, log = new_log(disk, TopicSettings(segment_bytes=200))
    for _ in range(5):
        append(log)
    assert (log.unflushed_batches, log.recovery_point) == (5, 0)
    assert log.unflushed_bytes == log.size
    run(log.flush())
    assert (log.unflushed_batches, log.unflushed_bytes, log.recovery_point) == (0, 0, 5)
    assert not log.has_unflushed_segment
    assert not any(disk.unsynced_bytes(f"{REPLICA}/{name}") for name in disk.listdir(REPLICA) if ".log" in name)
    disk.power_loss()
    _, log = reopen(disk)
    assert log.log_end_offset == 5


@pytest.mark.parametrize("seed", range(5))
def test_a_segment_that_grew_again_and_was_sealed_during_a_flush_is_synced_by_the_next(seed: int) -> None:
    disk = new_disk(seed)
    settings = TopicSettings(segment_bytes=400)
    directory, log = new_log(disk, settings)
    for _ in range(8):
        append(log)
    disk.crash()
    directory, log = reopen(disk, settings)
    log.truncate_to(2)  # the first segment, which recovery had sealed, is the active one again
    append(log)
    flushing = log._flushing()
    grown = log.files.segments.active.file
    for _ in range(2):  # once as a sealed segment, once as the active one
        while (target := next(flushing)) is not grown:
            target.sync_blocking()
        grown.sync_blocking()
    while len(log.files.segments) < 2:
        append(log)
    sync_blocking(flushing, disk)
    log.flush_blocking()
    directory.write_checkpoints_blocking()
    end_offset = log.log_end_offset
    disk.power_loss()
    assert reopen(disk, settings)[1].log_end_offset == end_offset


def test_epochs_that_a_follower_learned_are_flushed_before_the_recovery_point_moves() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    append(log, epoch=0)
    append(log, epoch=4)
    run(log.flush())
    directory.write_checkpoints_blocking()
    disk.power_loss()
    _, log = reopen(disk)
    assert log.leader_epochs.entries() == [(0, 0), (4, 1)]


def test_flushes_that_overlap_leave_nothing_to_do() -> None:
    disk = new_disk()
    settings = TopicSettings(segment_bytes=400)
    _, log = new_log(disk, settings)
    for _ in range(8):
        append(log)
    flushes = [log._flushing(), log._flushing()]
    for flushing in flushes:
        next(flushing).sync_blocking()
    for flushing in flushes:
        sync_blocking(flushing, disk)
    assert not log.has_unflushed_segment
    assert log.recovery_point == 8


# --- read --------------------------------------------------------------------------------------------------------------------------


def test_a_read_in_the_middle_of_a_batch_begins_with_that_batch() -> None:
    _, log = new_log(new_disk())
    append(log, records=4)
    data = append(log, records=4)
    assert log.read(6, 1000, 8, at_least_one=True) == data


def test_the_first_batch_comes_whole_only_if_asked_for() -> None:
    _, log = new_log(new_disk())
    data = append(log, size=500)
    append(log, size=500)
    assert log.read(0, 100, 2, at_least_one=True) == data
    assert log.read(0, 100, 2, at_least_one=False) == b""


def test_nothing_at_or_above_the_end_is_returned() -> None:
    _, log = new_log(new_disk())
    data = append(log)
    append(log)
    assert log.read(0, 1000, 1, at_least_one=True) == data
    assert log.read(1, 1000, 1, at_least_one=True) == b""
    assert log.read(2, 1000, 2, at_least_one=True) == b""


@pytest.mark.parametrize("offset", [-1, 3, 100])
def test_offsets_outside_the_log_are_out_of_range(offset: int) -> None:
    _, log = new_log(new_disk())
    append(log, records=2)
    with pytest.raises(ApiError) as error:
        log.read(offset, 1000, 2, at_least_one=True)
    assert refused(error) is ErrorCode.offset_out_of_range
    with pytest.raises(ApiError):
        run(log.read_cold(offset, 1000, 2, at_least_one=True))


def test_reads_go_on_over_segments_and_rolls() -> None:
    _, log = new_log(new_disk(), TopicSettings(segment_bytes=400))
    offset = 0
    for _ in range(20):
        append(log, records=2)
        data = log.read(offset, 1000, log.log_end_offset, at_least_one=True)
        assert data is not None
        assert headers(data)[0].base_offset == offset
        offset = headers(data)[-1].next_offset
    assert offset == log.log_end_offset


def test_a_cold_read_is_told_apart_and_then_served() -> None:
    disk = new_disk()
    directory, log = new_log(disk, TopicSettings(segment_bytes=400, index_interval_bytes=0))
    for _ in range(20):
        append(log)
    directory.close_blocking(1)
    directory, log = reopen(disk)
    for name in disk.listdir(REPLICA):
        disk.make_cold(f"{REPLICA}/{name}")
    assert log.read(1, 1000, 20, at_least_one=True) is None
    data = run(log.read_cold(1, 1000, 20, at_least_one=True))
    assert headers(data)[0].base_offset == 1
    assert log.read(1, 1000, 20, at_least_one=True) == data


def test_a_read_that_was_overtaken_by_a_truncation_sees_the_log_as_it_is_now() -> None:
    class Waiting:
        waits = False

        async def __call__(self, _operation: str, _size: int) -> None:
            if self.waits:
                await Pause()

    class Pause:
        def __await__(self):  # type: ignore[no-untyped-def]
            yield

    waiting = Waiting()
    disk = SimulatedDisk(new_disk().rng, wait=waiting)
    _, log = new_log(disk)
    append(log, size=9000)
    kept = append(log, size=10)
    append(log, size=9000)
    log.flush_blocking()
    disk.make_cold(f"{FIRST}.log")
    waiting.waits = True
    reading = log.read_cold(1, 100_000, 3, at_least_one=True)
    reading.send(None)
    log.truncate_to(2)
    waiting.waits = False
    assert run(reading) == kept


# --- timestamps --------------------------------------------------------------------------------------------------------------------


def test_a_large_batch_is_opened_in_memory_of_its_worker() -> None:
    class CountingCpu(DirectCpu):
        asked = 0

        def allocate(self, size: int) -> memoryview:
            self.asked += size
            return super().allocate(size)

    cpu = CountingCpu()
    _, log = new_log(new_disk())
    data = bytearray(build_batch([NewRecord(bytes(1_000_000))], timestamp_ms=1000, leader_epoch=0, codec=Codec.GZIP))
    log.append(data, read_header(data), 0)
    log.high_watermark = log.log_end_offset
    assert run(log.find_offset_by_timestamp(1000, cpu)) == (1000, 0, 0)
    assert cpu.asked >= 1_000_000


def test_the_first_record_that_is_not_older_is_found_within_its_batch() -> None:
    _, log = new_log(new_disk(), TopicSettings(index_interval_bytes=0))
    for number in range(10):
        append(log, records=5, timestamp=1000 + 100 * number, step=10, epoch=2)
    log.high_watermark = log.log_end_offset
    assert run(log.find_offset_by_timestamp(1311, CPU)) == (1320, 17, 2)
    assert run(log.find_offset_by_timestamp(0, CPU)) == (1000, 0, 2)
    assert run(log.find_offset_by_timestamp(1941, CPU)) is None
    log.high_watermark = 17
    assert run(log.find_offset_by_timestamp(1311, CPU)) is None


def test_a_search_within_a_batch_that_is_too_large_to_open_ends_at_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, log = new_log(new_disk())
    for number in range(3):
        append(log, records=5, timestamp=1000 + 100 * number, step=10)
    log.high_watermark = log.log_end_offset
    monkeypatch.setattr("esp.storage.timestamp_search.OPENED_BYTES_MAX", 10)
    assert run(log.find_offset_by_timestamp(1111, CPU)) == (1100, 5, 0)
    assert run(log.find_max_timestamp(CPU)) == (1200, 10, 0)
    log.log_start_offset = 12
    assert run(log.find_max_timestamp(CPU)) == (1200, 12, 0)


def test_the_largest_timestamp_is_found_wherever_it_stands() -> None:
    _, log = new_log(new_disk(), TopicSettings(segment_bytes=200))
    assert run(log.find_max_timestamp(CPU)) is None
    for timestamp in (1000, 9000, 3000, 4000, 9000):
        append(log, timestamp=timestamp)
    assert run(log.find_max_timestamp(CPU)) == (9000, 1, 0)


def test_append_time_counts_for_all_records_of_a_batch() -> None:
    _, log = new_log(new_disk())
    append(log, records=4, timestamp=5000, log_append_time=True)
    log.high_watermark = 4
    assert run(log.find_offset_by_timestamp(5000, CPU)) == (5000, 0, 0)
