"""The object of a round of compaction: the part of a log, whether that is worth a round, and which segments become one (CLEAN-1).

A log is clean up to the end of the last round, and dirty from there on. A round learns the keys of the dirty part, and then copies the
whole log up to the end of that part, without the records that are superseded.
"""

from collections.abc import Sequence
from typing import NamedTuple

from esp.settings.topic import TopicSettings
from esp.storage.segment import RELATIVE_OFFSET_MAX


class SegmentFacts(NamedTuple):
    """The facts of a sealed segment: base offset, offset after it, bytes, largest timestamp in milliseconds since the Unix epoch."""

    base_offset: int
    end_offset: int
    size: int
    largest_timestamp: int


class Cleanable(NamedTuple):
    """The dirty part of a log that a round may clean, ``[start, end)``, where ``end`` is the end of a segment; sizes in bytes."""

    start: int
    end: int
    clean_bytes: int
    dirty_bytes: int

    @property
    def dirty_ratio(self) -> float:
        """The share of the bytes up to ``end`` that are dirty."""
        size = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / size if size else 0.0


def find_cleanable(
    sealed: Sequence[SegmentFacts],
    settings: TopicSettings,
    *,
    now_ms: int,
    cleaned_to: int,
    log_start_offset: int,
    log_end_offset: int,
    bound: int,
) -> Cleanable:
    """Return the part of a log that may be cleaned now, which may be empty.

    Args:
        sealed: all segments but the active one.
        settings: the topic's.
        now_ms: wall time.
        cleaned_to: the end of the last round. An offset that is not within the log does not count.
        log_start_offset: the log's.
        log_end_offset: the log's.
        bound: the least of the offsets that compaction does not pass. A segment that goes beyond it is left alone.
    """
    start = cleaned_to if log_start_offset <= cleaned_to <= log_end_offset else log_start_offset
    end = start
    clean_bytes = dirty_bytes = 0
    for segment in sealed:
        if segment.end_offset <= start:
            clean_bytes += segment.size
            continue
        is_young = (
            settings.min_compaction_lag_ms > 0 and segment.largest_timestamp > now_ms - settings.min_compaction_lag_ms
        )
        if segment.end_offset > bound or is_young:
            break
        dirty_bytes += segment.size
        end = segment.end_offset
    return Cleanable(start, end, clean_bytes, dirty_bytes)


def is_worth_cleaning(cleanable: Cleanable, settings: TopicSettings, *, now_ms: int, oldest_ms: int) -> bool:
    """True if enough of a log is dirty, or its dirty records are too old.

    Args:
        cleanable: the part that may be cleaned.
        settings: the topic's.
        now_ms: wall time.
        oldest_ms: the earliest timestamp with which a segment of that part begins; -1 if none has one.
    """
    if cleanable.end <= cleanable.start:
        return False
    is_overdue = oldest_ms >= 0 and now_ms - oldest_ms > settings.max_compaction_lag_ms
    return is_overdue or cleanable.dirty_ratio > settings.min_cleanable_dirty_ratio


class GroupedSegment(NamedTuple):
    """The facts by which segments are put together: base offset, offset after it, and the bytes of log, offset index and time index."""

    base_offset: int
    end_offset: int
    size: int
    index_size: int
    time_index_size: int


def group_segments(segments: Sequence[GroupedSegment], settings: TopicSettings) -> list[int]:
    """Return how many neighbouring segments become one each time, so that none of the limits of a segment can be passed."""
    counts: list[int] = []
    size = index_size = time_index_size = base_offset = 0
    for segment in segments:
        size += segment.size
        index_size += segment.index_size
        time_index_size += segment.time_index_size
        fits = (
            size <= settings.segment_bytes
            and index_size <= settings.segment_index_bytes
            and time_index_size <= settings.segment_index_bytes
            and segment.end_offset - 1 - base_offset <= RELATIVE_OFFSET_MAX
        )
        if counts and fits:
            counts[-1] += 1
            continue
        counts.append(1)
        base_offset = segment.base_offset
        size, index_size, time_index_size = segment.size, segment.index_size, segment.time_index_size
    return counts
