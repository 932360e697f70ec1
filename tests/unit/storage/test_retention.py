import struct

import pytest

from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.log import Log
from esp.storage.retention import SegmentSummary, count_deletable
from esp.storage.time_proof import TimeProof
from tests.unit.storage.helpers import REPLICA, append, new_disk, new_log, read_all, reopen

SEGMENTS = [SegmentSummary(10, 100, 1000), SegmentSummary(20, 100, 2000), SegmentSummary(30, 50, 3000)]


def count(settings: TopicSettings, *, now_ms: int = 3000, start: int = 0, high_watermark: int = 30) -> int:
    return count_deletable(SEGMENTS, settings, now_ms=now_ms, log_start_offset=start, high_watermark=high_watermark)


@pytest.mark.parametrize(("now_ms", "expected"), [(3000, 1), (2500, 0), (2501, 1), (3501, 2), (4501, 3)])
def test_segments_go_when_their_newest_record_is_too_old(now_ms: int, expected: int) -> None:
    assert count(TopicSettings(retention_ms=1500), now_ms=now_ms) == expected


@pytest.mark.parametrize(("limit", "expected"), [(250, 0), (151, 0), (150, 1), (50, 2), (1, 2), (0, 3), (-1, 0)])
def test_segments_go_while_the_rest_still_fills_the_size(limit: int, expected: int) -> None:
    assert count(TopicSettings(retention_ms=-1, retention_bytes=limit)) == expected


def test_nothing_at_or_above_the_high_watermark_goes() -> None:
    assert count(TopicSettings(retention_ms=0), now_ms=10**6, high_watermark=20) == 2
    assert count(TopicSettings(retention_ms=0), now_ms=10**6, high_watermark=19) == 1


def test_segments_below_the_log_start_go_whatever_the_limits() -> None:
    assert count(TopicSettings(retention_ms=-1), start=20) == 2
    assert count(TopicSettings(retention_ms=-1), start=19) == 1


def test_a_compacted_topic_keeps_its_past() -> None:
    settings = TopicSettings(cleanup_policy="compact", retention_ms=0, retention_bytes=0)
    assert count(settings, now_ms=10**6) == 0
    assert count(settings, now_ms=10**6, start=10) == 1
    assert count(TopicSettings(cleanup_policy="compact,delete", retention_ms=0), now_ms=10**6) == 3


def test_an_empty_last_segment_stays() -> None:
    segments = [*SEGMENTS, SegmentSummary(30, 0, 3000)]
    counted = count_deletable(
        segments, TopicSettings(retention_ms=0), now_ms=10**6, log_start_offset=0, high_watermark=30
    )
    assert counted == 3


def test_retention_puts_old_segments_aside_and_a_purge_removes_them() -> None:
    disk = new_disk()
    settings = TopicSettings(segment_bytes=100, retention_ms=1000, file_delete_delay_ms=500)
    directory, log = new_log(disk, settings)
    for number in range(4):
        append(log, timestamp=1000 * number)
    log.high_watermark = 4
    assert log.delete_old_segments_blocking(2500) == 2
    assert (log.log_start_offset, log.first_segment_offset) == (2, 2)
    assert f"{0:020d}.log.deleted" in disk.listdir(REPLICA)
    assert f"{0:020d}.log" not in disk.listdir(REPLICA)
    assert directory.purge(2999) == 0
    assert directory.purge(3000) > 0
    assert not any(name.endswith(".deleted") for name in disk.listdir(REPLICA))
    assert [header.base_offset for header in read_all(log)] == [2, 3]


def test_retention_of_everything_leaves_an_empty_log_at_its_end() -> None:
    disk = new_disk()
    directory, log = new_log(disk, TopicSettings(retention_ms=0))
    append(log, records=3)
    log.high_watermark = 3
    assert log.delete_old_segments_blocking(10**9) == 1
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    assert log.delete_old_segments_blocking(10**9) == 0
    directory.close_blocking(1)
    _, log = reopen(disk)
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)


def test_segments_without_timestamps_age_by_their_files() -> None:
    disk = SimulatedDisk(new_disk().rng, now_ms=lambda: 5000)
    _, log = new_log(disk, TopicSettings(segment_bytes=100, retention_ms=1000))
    append(log, timestamp=-1, step=0)
    append(log, timestamp=-1, step=0)
    log.high_watermark = 2
    assert log.delete_old_segments_blocking(6000) == 0
    assert log.delete_old_segments_blocking(6001) == 2


def test_a_segment_that_is_read_outlives_its_removal() -> None:
    disk = new_disk()
    _, log = new_log(disk, TopicSettings(segment_bytes=6000, retention_ms=0))
    data = append(log, size=5000)
    append(log, size=5000)
    log.high_watermark = 2
    held = log.read(0, 10_000, 1, at_least_one=True)
    log.delete_old_segments_blocking(10**9)
    assert held == data


YOUNG = TopicSettings(segment_bytes=100, retention_ms=1000)


def closed_with_times(timestamps: list[int], rotten: dict[int, int], settings: TopicSettings = YOUNG) -> SimulatedDisk:
    """A disk with a log of one batch in each segment; the time indexes of segments in ``rotten`` say another timestamp."""
    disk = new_disk()
    directory, log = new_log(disk, settings)
    for timestamp in timestamps:
        append(log, timestamp=timestamp)
    log.high_watermark = log.log_end_offset
    directory.close_blocking(1)
    for offset, timestamp in rotten.items():
        disk.write_file(time_index(offset), struct.pack(">qi", timestamp, 0))
    return disk


def time_index(offset: int) -> str:
    return f"{REPLICA}/{offset:020d}.timeindex"


def reopened(disk: SimulatedDisk, settings: TopicSettings = YOUNG) -> Log:
    log = reopen(disk, settings)[1]
    log.high_watermark = log.log_end_offset
    return log


def test_a_rotten_time_index_makes_no_young_segment_old(caplog: pytest.LogCaptureFixture) -> None:
    disk = closed_with_times([1000, 5000, 5000, 5000], {1: 1000})
    log = reopened(disk)
    assert log.delete_old_segments_blocking(5500) == 1, "the first one is old"
    assert log.log_start_offset == 1
    assert f"{time_index(1)}: the largest timestamp is 1000 where the batches say 5000" in caplog.text
    assert disk.read_file(time_index(1)) == struct.pack(">qi", 5000, 0), "it is right from now on"
    caplog.clear()
    assert log.delete_old_segments_blocking(6001) == 3
    assert "largest timestamp" not in caplog.text


def test_a_time_index_that_names_another_batch_of_the_segment_is_found_out() -> None:
    settings = TopicSettings(segment_bytes=250, retention_ms=1000)
    disk = closed_with_times([1000, 5000, 1000, 5000], {0: 1000}, settings)
    log = reopened(disk, settings)
    assert [segment.base_offset for segment in log.files.segments][:2] == [0, 3], (
        "three batches, the second is the latest"
    )
    assert log.delete_old_segments_blocking(5500) == 0


def test_the_active_segment_is_no_older_than_its_batches() -> None:
    settings = TopicSettings(retention_ms=1000, index_interval_bytes=0)
    disk = closed_with_times([5000, 1000, 1000], {0: 900}, settings)
    log = reopened(disk, settings)
    assert log.files.segments.active.has_unproven_time
    assert log.delete_old_segments_blocking(5500) == 0
    append(log, timestamp=1000)
    log.high_watermark = log.log_end_offset
    segment = log.files.segments.active
    log.roll(0)
    assert (segment.max_timestamp, segment.max_timestamp_offset) == (5000, 0)
    assert disk.read_file(time_index(0)) == struct.pack(">qi", 5000, 0)
    assert log.delete_old_segments_blocking(6001) == 1


@pytest.mark.parametrize("rotten", [10**12, 5400])
def test_a_timestamp_that_has_rotted_upwards_keeps_no_segment_for_ever(rotten: int) -> None:
    """It lies in the future, or the next segment is old already."""
    log = reopened(closed_with_times([1000, 2000, 5000], {0: rotten}))
    assert log.delete_old_segments_blocking(5500) == 2


def test_batches_are_read_once_and_only_where_age_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    step = TimeProof._step_blocking
    monkeypatch.setattr(
        TimeProof, "_step_blocking", lambda proof: (read.append(proof.segment.base_offset), step(proof))[1]
    )
    log = reopened(closed_with_times([1000, 5000, 5000, 5000], {1: 1000}))
    log.delete_old_segments_blocking(1500)
    assert read == [], "a start reads no batches, and nothing is old"
    log.delete_old_segments_blocking(5500)
    log.delete_old_segments_blocking(5600)
    assert read == [0, 1]
    log.settings = TopicSettings(segment_bytes=100, retention_bytes=0)
    assert log.delete_old_segments_blocking(5600) == 3
    assert read == [0, 1], "size takes them whatever their age"


def test_a_rotten_batch_is_reported_and_the_segment_goes_by_what_its_file_says() -> None:
    disk = closed_with_times([1000, 5000, 5000], {})
    disk.corrupt(f"{REPLICA}/{0:020d}.log", 70, 1)
    log = reopened(disk)
    assert log.delete_old_segments_blocking(1500) == 0
    assert log.rot is None
    assert log.delete_old_segments_blocking(2500) == 1
    assert log.rot is not None


def test_a_segment_without_sound_frames_goes_by_what_its_file_says() -> None:
    disk = closed_with_times([1000, 5000, 5000], {})
    disk.corrupt(f"{REPLICA}/{0:020d}.log", 16, 255)
    log = reopened(disk)
    assert log.delete_old_segments_blocking(2500) == 1
    assert log.rot is not None
    assert "is broken behind 0" in str(log.rot)
