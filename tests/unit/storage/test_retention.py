import pytest

from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.retention import SegmentSummary, count_deletable
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
