import pytest

from esp.model.ids import TopicPartition
from esp.settings.topic import TopicSettings
from esp.storage.rolling import is_roll_due, roll_jitter_ms
from esp.storage.segment import Segment
from tests.unit.storage.helpers import new_disk

SETTINGS = TopicSettings(segment_bytes=1000, segment_ms=500)


def segment(size: int, first_timestamp: int) -> Segment:
    made = Segment(new_disk(), "data", 0, SETTINGS, created_ms=10_000)
    made.size = size
    made.first_timestamp = first_timestamp
    return made


@pytest.mark.parametrize(
    ("held", "first", "size", "timestamp", "now_ms", "due"),
    [
        (900, 50, 100, 50, 0, False),
        (901, 50, 100, 50, 0, True),
        (0, -1, 5000, 50, 10**6, False),
        (10, 50, 10, 550, 0, False),
        (10, 50, 10, 551, 0, True),
        (10, 50, 10, -1, 10**6, False),
        (10, -1, 10, -1, 10_500, False),
        (10, -1, 10, 10**6, 10_500, False),
        (10, -1, 10, -1, 10_501, True),
    ],
)
def test_size_and_record_time_decide(held: int, first: int, size: int, timestamp: int, now_ms: int, due: bool) -> None:
    assert is_roll_due(segment(held, first), SETTINGS, 0, size=size, max_timestamp=timestamp, now_ms=now_ms) is due


def test_jitter_shortens_the_time() -> None:
    assert is_roll_due(segment(10, 50), SETTINGS, 100, size=1, max_timestamp=451, now_ms=0)


def test_a_full_index_is_due() -> None:
    full = segment(10, 50)
    full.index_is_full = True
    assert is_roll_due(full, SETTINGS, 0, size=1, max_timestamp=50, now_ms=0)


def test_jitter_spreads_segments_within_its_limit() -> None:
    settings = TopicSettings(segment_jitter_ms=100, segment_ms=50)
    found = {roll_jitter_ms(settings, TopicPartition("t", 0), offset) for offset in range(100)}
    assert len(found) > 10
    assert max(found) < 50
    assert roll_jitter_ms(TopicSettings(), TopicPartition("t", 0), 5) == 0
