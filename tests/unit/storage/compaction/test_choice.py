import pytest

from esp.settings.topic import TopicSettings
from esp.storage.compaction.choice import (
    Cleanable,
    GroupedSegment,
    SegmentFacts,
    find_cleanable,
    group_segments,
    is_worth_cleaning,
)

SEALED = [SegmentFacts(10, 20, 100, 1000), SegmentFacts(20, 30, 200, 2000), SegmentFacts(30, 40, 400, 3000)]


def cleanable(cleaned_to: int = 0, start: int = 10, end: int = 50, bound: int = 50, **settings: int) -> Cleanable:
    return find_cleanable(
        SEALED,
        TopicSettings(cleanup_policy="compact", **settings),  # type: ignore[arg-type]
        now_ms=3500,
        cleaned_to=cleaned_to,
        log_start_offset=start,
        log_end_offset=end,
        bound=bound,
    )


def test_all_sealed_segments_are_dirty_before_the_first_round() -> None:
    assert cleanable() == (10, 40, 0, 700)
    assert cleanable().dirty_ratio == 1.0


def test_a_round_goes_on_where_the_last_one_ended() -> None:
    assert cleanable(cleaned_to=20) == (20, 40, 100, 600)
    assert cleanable(cleaned_to=25) == (25, 40, 100, 600), "within a segment, as the map was full"
    assert cleanable(cleaned_to=40) == (40, 40, 700, 0)


@pytest.mark.parametrize("cleaned_to", [5, 51])
def test_an_offset_that_is_not_within_the_log_does_not_count(cleaned_to: int) -> None:
    assert cleanable(cleaned_to=cleaned_to).start == 10


def test_no_segment_is_cleaned_that_goes_beyond_the_bound() -> None:
    assert cleanable(bound=40).end == 40
    assert cleanable(bound=39).end == 30
    assert cleanable(bound=10).end == 10


def test_a_log_that_starts_behind_its_sealed_segments_has_nothing_to_be_cleaned() -> None:
    assert cleanable(start=45) == (45, 45, 700, 0)


def test_young_segments_wait_and_so_do_all_behind_them() -> None:
    assert cleanable(min_compaction_lag_ms=500).end == 40
    assert cleanable(min_compaction_lag_ms=501).end == 30
    assert cleanable(min_compaction_lag_ms=2501).end == 10


def test_a_log_is_cleaned_when_more_than_a_share_of_it_is_dirty() -> None:
    settings = TopicSettings(min_cleanable_dirty_ratio=0.5)
    assert is_worth_cleaning(Cleanable(5, 9, 100, 101), settings, now_ms=0, oldest_ms=-1)
    assert not is_worth_cleaning(Cleanable(5, 9, 100, 100), settings, now_ms=0, oldest_ms=-1)
    assert not is_worth_cleaning(
        Cleanable(9, 9, 0, 0), TopicSettings(min_cleanable_dirty_ratio=0.0), now_ms=0, oldest_ms=-1
    )


def test_a_log_is_cleaned_when_its_dirty_records_are_too_old() -> None:
    settings = TopicSettings(cleanup_policy="compact", max_compaction_lag_ms=100)
    assert is_worth_cleaning(Cleanable(5, 9, 100, 1), settings, now_ms=201, oldest_ms=100)
    assert not is_worth_cleaning(Cleanable(5, 9, 100, 1), settings, now_ms=200, oldest_ms=100)
    assert not is_worth_cleaning(Cleanable(5, 9, 100, 1), settings, now_ms=10**12, oldest_ms=-1)
    assert not is_worth_cleaning(Cleanable(9, 9, 100, 0), settings, now_ms=201, oldest_ms=100)


def segment(number: int, size: int = 10, index: int = 8, times: int = 12, span: int = 10) -> GroupedSegment:
    return GroupedSegment(number * span, (number + 1) * span, size, index, times)


def test_neighbours_become_one_segment_up_to_each_limit() -> None:
    settings = TopicSettings(segment_bytes=30, segment_index_bytes=1000)
    assert group_segments([], settings) == []
    assert group_segments([segment(number) for number in range(7)], settings) == [3, 3, 1]
    assert group_segments([segment(0, 40), segment(1, 10), segment(2, 21)], settings) == [1, 1, 1]
    small_index = TopicSettings(segment_bytes=1000, segment_index_bytes=24)
    assert group_segments([segment(number, times=0) for number in range(4)], small_index) == [3, 1]
    assert group_segments([segment(number, index=0) for number in range(4)], small_index) == [2, 2]


def test_offsets_of_one_segment_stay_within_its_index() -> None:
    settings = TopicSettings(segment_bytes=1000, segment_index_bytes=1000)
    assert group_segments([segment(number, span=2**30) for number in range(4)], settings) == [2, 2]
