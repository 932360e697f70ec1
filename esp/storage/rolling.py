"""When a log begins a new segment (Kafka's ``LogSegment.shouldRoll``)."""

from crc32c import crc32c

from esp.model.ids import TopicPartition
from esp.settings.topic import TopicSettings
from esp.storage.segment import Segment


def roll_jitter_ms(settings: TopicSettings, partition: TopicPartition, base_offset: int) -> int:
    """The time by which a segment is rolled earlier than ``segment.ms``, so that logs do not roll all at once (``segment.jitter.ms``).

    A number of the segment's own takes the place of Kafka's random one: the same history gives the same segments.
    """
    limit = min(settings.segment_jitter_ms, settings.roll_ms)
    return crc32c(f"{partition}:{base_offset}".encode()) % limit if limit > 0 else 0


def is_roll_due(
    segment: Segment, settings: TopicSettings, jitter_ms: int, *, size: int, max_timestamp: int, now_ms: int
) -> bool:
    """True if a batch belongs into a new segment for size, time or a full index; an empty segment takes any batch.

    Time is that of the records; where the first batch has none, wall time.

    Args:
        segment: the active one.
        settings: the topic's.
        jitter_ms: see :func:`roll_jitter_ms`.
        size: bytes of the batch.
        max_timestamp: the batch's.
        now_ms: wall time.
    """
    if not segment.size:
        return False
    waited_ms = max_timestamp - segment.first_timestamp if segment.first_timestamp >= 0 else now_ms - segment.created_ms
    return (
        segment.size + size > settings.segment_bytes
        or waited_ms > settings.roll_ms - jitter_ms
        or segment.index_is_full
    )
