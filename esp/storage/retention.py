"""Which segments a log may drop, and how it does that (LOG-12; Kafka's ``UnifiedLog.deleteOldSegments``).

In three steps, of which the owner does the second for many logs at once: the log start is raised, it is made durable, the segments below
it are put aside. So no crash brings back a part of them.
"""

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from esp.model.topic_settings import TopicSettings
from esp.storage.log_state import LogState
from esp.storage.steps import Syncing, sync_blocking

_logger = logging.getLogger(__name__)

DROPPED_AT_ONCE_MAX: Final = 32
"""Segments that are put aside in one turn of the loop: some hundred renames, a millisecond."""


class SegmentSummary(NamedTuple):
    """What retention looks at: the offset after the segment, its bytes, the age reference in milliseconds since the Unix epoch."""

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
    """How many of the oldest segments are past the limits of time or size, or wholly below the log start.

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


def count_old_segments(log: LogState, now_ms: int) -> int:
    """How many of the oldest segments of a log may go now."""
    summaries = [
        SegmentSummary(min(segment.next_base_offset, log.log_end_offset), segment.size, segment.age_reference_ms())
        for segment in log.files.segments
    ]
    return count_deletable(
        summaries,
        log.settings,
        now_ms=now_ms,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
    )


def hiding_old_segments(log: LogState, now_ms: int) -> Syncing[int | None]:
    """See :meth:`esp.storage.log.Log.hide_old_segments`."""
    segments = log.files.segments
    while count := count_old_segments(log, now_ms):
        if count == len(segments):
            if count == 1 and not log.names_are_durable:  # the first segment's name comes before a second one's (REC-3)
                yield from log.files.unsynced.syncing_names()
                continue  # something may have been appended meanwhile
            log.begin_segment(log.log_end_offset, now_ms)
        start_offset = segments[count].base_offset
        log.raise_log_start(start_offset)
        return start_offset
    return None


def dropping_segments(log: LogState, below: int, now_ms: int) -> Syncing[int]:
    """See :meth:`esp.storage.log.Log.drop_segments`."""
    yield from log.files.unsynced.syncing_names()
    count = 0
    for segment in log.files.segments:
        if segment.next_base_offset > below or count == DROPPED_AT_ONCE_MAX:
            break
        count += 1
    if count:
        log.files.remove_front(count, now_ms + log.settings.file_delete_delay_ms)
        log.check_offsets()
        _logger.info("%s: retention dropped %d segments below offset %d", log.path, count, log.first_segment_offset)
    return count


def delete_old_segments_blocking(log: LogState, now_ms: int) -> int:
    """See :meth:`esp.storage.log.Log.delete_old_segments_blocking`."""
    disk = log.files.disk
    start_offset = sync_blocking(hiding_old_segments(log, now_ms), disk)
    if start_offset is None:
        return 0
    log.checkpoint_offsets()
    dropped = 0
    while count := sync_blocking(dropping_segments(log, start_offset, now_ms), disk):
        dropped += count
    return dropped
