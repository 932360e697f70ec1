"""Which segments a log may drop (LOG-12; Kafka's ``UnifiedLog.deleteOldSegments``)."""

from collections.abc import Sequence
from typing import NamedTuple

from esp.settings.topic import TopicSettings


class SegmentSummary(NamedTuple):
    """The facts that retention needs: the offset after the segment, its bytes, the age reference in milliseconds since the Unix epoch."""

    end_offset: int
    size: int
    largest_timestamp: int


def count_deletable(
    segments: Sequence[SegmentSummary],
    settings: TopicSettings,
    *,
    now_ms: int,
    log_start_offset: int,
    high_watermark: int,
) -> int:
    """Return the number of the oldest segments that are past the limits of time or size, or wholly below the log start.

    A segment with an offset at or above the high watermark stays, and so does an empty last one. Compacted topics know the log
    start only, unless their policy names ``delete`` too.
    """
    by_age = "delete" in settings.cleanup_policy
    excess = -1
    if by_age and settings.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments) - settings.retention_bytes
    retention_ms = settings.retention_ms if by_age else -1
    count = 0
    for number, segment in enumerate(segments):
        if segment.end_offset > high_watermark or (number == len(segments) - 1 and not segment.size):
            break
        is_old = 0 <= retention_ms < now_ms - segment.largest_timestamp
        is_excess = excess >= segment.size
        is_below_start = segment.end_offset <= log_start_offset
        if not (is_old or is_excess or is_below_start):
            break
        excess -= segment.size
        count += 1
    return count
