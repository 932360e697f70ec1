import pytest

from esp.model.topic_settings import TopicSettings
from esp.storage.retention import SegmentSummary, count_deletable

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
