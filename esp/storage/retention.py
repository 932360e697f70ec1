"""Which segments a log may drop (LOG-12; Kafka's ``UnifiedLog.deleteOldSegments``), and what is held of them (HOLD-1, HOLD-3)."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from esp.model.retention_hold import CAP_BYTES, CAP_MS, NO_CAP, BrokenHold, RetentionHold
from esp.settings.topic import TopicSettings


class SegmentSummary(NamedTuple):
    """The facts that retention needs: the offset after the segment, its bytes, the age reference in milliseconds since the Unix epoch, and
    whether that was read from batches. A segment is not old by a time that was not (REC-4).
    """

    end_offset: int
    size: int
    largest_timestamp: int
    is_proven: bool = True


class OldSegments(NamedTuple):
    """The oldest segments of a log, as retention judges them."""

    deletable: int
    """The number of those that may go."""
    broken: tuple[BrokenHold, ...] = ()
    """The held offsets in them; those side by side that one cap lets go are one."""
    held_bytes: int = 0
    """The size of those behind them that stay only because they are held."""


def count_deletable(
    segments: Sequence[SegmentSummary],
    settings: TopicSettings,
    *,
    now_ms: int,
    log_start_offset: int,
    high_watermark: int,
    hold: RetentionHold | None = None,
) -> int:
    """Return the number of the oldest segments that are past the limits of time or size, or wholly below the log start.

    A segment with an offset at or above the high watermark stays, and so does an empty last one. Compacted topics know the log
    start only, unless their policy names ``delete`` too. What is past the limits stays if it is held and past no cap of the hold.
    """
    return sum(1 for _cap in _deletable(segments, settings, now_ms, log_start_offset, high_watermark, hold))


def find_old_segments(
    segments: Sequence[SegmentSummary],
    settings: TopicSettings,
    *,
    now_ms: int,
    log_start_offset: int,
    high_watermark: int,
    hold: RetentionHold | None = None,
) -> OldSegments:
    """Return the segments that :func:`count_deletable` counts, and the effects of the hold on them and on others."""
    limits = settings, now_ms, log_start_offset, high_watermark
    caps = tuple(_deletable(segments, *limits, hold))
    if hold is None:
        return OldSegments(len(caps))
    unheld = sum(1 for _cap in _deletable(segments, *limits, None))
    broken: list[BrokenHold] = []
    from_offset = max(log_start_offset, hold.from_offset)
    for segment, cap in zip(segments, caps, strict=False):
        if cap is None:
            continue
        if broken and broken[-1].cap == cap:
            broken[-1] = broken[-1]._replace(end_offset=segment.end_offset)
        else:
            broken.append(BrokenHold(cap, from_offset, segment.end_offset))
        from_offset = segment.end_offset
    return OldSegments(len(caps), tuple(broken), sum(segment.size for segment in segments[len(caps) : unheld]))


def _deletable(
    segments: Sequence[SegmentSummary],
    settings: TopicSettings,
    now_ms: int,
    log_start_offset: int,
    high_watermark: int,
    hold: RetentionHold | None,
) -> Iterator[str | None]:
    """Yield, for each segment that may go, from the oldest on, the cap that breaks its hold; None if no hold is broken."""
    by_limits = "delete" in settings.cleanup_policy
    size = sum(segment.size for segment in segments)
    for number, segment in enumerate(segments):
        if segment.end_offset > high_watermark or (number == len(segments) - 1 and not segment.size):
            return
        cap = None
        if segment.end_offset > log_start_offset:  # else it goes whatever the limits are
            is_old = segment.is_proven and _is_past(segment, settings, now_ms)
            is_excess = by_limits and 0 <= settings.retention_bytes <= size - segment.size
            if not (is_old or is_excess):
                return
            if hold is not None and segment.end_offset > hold.from_offset:
                cap = _find_cap(segment, size, hold, now_ms)
                if cap is None:
                    return
        size -= segment.size
        yield cap


def _find_cap(segment: SegmentSummary, size: int, hold: RetentionHold, now_ms: int) -> str | None:
    """The cap that a held segment is past; None: it stays.

    Args:
        segment: the oldest one left.
        size: the size of the segments that are left.
        hold: the hold that keeps it.
        now_ms: wall time.
    """
    if hold.max_ms != NO_CAP and segment.is_proven and now_ms - segment.largest_timestamp > hold.max_ms:
        return CAP_MS
    if hold.max_bytes != NO_CAP and size - segment.size >= hold.max_bytes:
        return CAP_BYTES
    return None


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
