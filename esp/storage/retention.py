"""Which segments a log may drop (LOG-12; Kafka's ``UnifiedLog.deleteOldSegments``)."""

from collections.abc import Sequence
from typing import NamedTuple

from esp.settings.topic import TopicSettings


class SegmentSummary(NamedTuple):
    """The facts that retention needs: the offset after the segment, its bytes, the age reference in milliseconds since the Unix epoch, and
    whether that was read from batches. A segment is not old by a time that was not (REC-4).
    """

    end_offset: int
    size: int
    largest_timestamp: int
    is_proven: bool = True


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
    count = 0
    for number, segment in enumerate(segments):
        if segment.end_offset > high_watermark or (number == len(segments) - 1 and not segment.size):
            break
        is_old = segment.is_proven and _is_past(segment, settings, now_ms)
        is_excess = excess >= segment.size
        is_below_start = segment.end_offset <= log_start_offset
        if not (is_old or is_excess or is_below_start):
            break
        excess -= segment.size
        count += 1
    return count


def find_doubtful(
    segments: Sequence[SegmentSummary],
    settings: TopicSettings,
    *,
    now_ms: int,
    log_start_offset: int,
    high_watermark: int,
) -> int | None:
    """Return the number of the segment that stays for no other reason than that its age is not proven; None if there is none.

    That is one that seems old, and also one that holds up the rest for ever if its time is wrong: a time in the future, or one that is not
    old although the next segment is.
    """
    number = count_deletable(
        segments, settings, now_ms=now_ms, log_start_offset=log_start_offset, high_watermark=high_watermark
    )
    if number == len(segments):
        return None
    segment = segments[number]
    if segment.is_proven or not segment.size or segment.end_offset > high_watermark:
        return None
    if settings.retention_ms < 0 or "delete" not in settings.cleanup_policy:
        return None
    following = [each for each in segments[number + 1 : number + 2] if each.size]
    is_doubtful = segment.largest_timestamp > now_ms or any(
        _is_past(each, settings, now_ms) for each in (segment, *following)
    )
    return number if is_doubtful else None


def _is_past(segment: SegmentSummary, settings: TopicSettings, now_ms: int) -> bool:
    """True if the segment is older than its topic's records may become."""
    return "delete" in settings.cleanup_policy and 0 <= settings.retention_ms < now_ms - segment.largest_timestamp
