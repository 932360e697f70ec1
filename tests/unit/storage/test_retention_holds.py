"""What is held of a log against retention by time and size (HOLD-1, HOLD-3)."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.retention_hold import CAP_BYTES, CAP_MS, WHOLE_LOG, BrokenHold, RetentionHold
from esp.settings.topic import TopicSettings
from esp.storage.retention import SegmentSummary, find_old_segments
from tests.unit.storage.helpers import append, new_disk, new_log

SEGMENTS = [SegmentSummary(10, 100, 1000), SegmentSummary(20, 100, 2000), SegmentSummary(30, 50, 3000)]
ALL_OLD = TopicSettings(retention_ms=0)
ALL_EXCESS = TopicSettings(retention_ms=-1, retention_bytes=0)


def find(hold, settings=ALL_OLD, *, now_ms=10_000, start=0, high_watermark=30, segments=SEGMENTS):
    return find_old_segments(
        segments, settings, now_ms=now_ms, log_start_offset=start, high_watermark=high_watermark, hold=hold
    )


@pytest.mark.parametrize("settings", [ALL_OLD, ALL_EXCESS])
@pytest.mark.parametrize(
    ("from_offset", "count", "held"), [(0, 0, 250), (9, 0, 250), (10, 1, 150), (19, 1, 150), (20, 2, 50), (30, 3, 0)]
)
def test_a_segment_with_an_offset_that_is_held_stays(settings, from_offset, count, held):
    assert find(RetentionHold(from_offset), settings) == (count, (), held)


def test_without_a_hold_nothing_is_held():
    assert find(None) == (3, (), 0)


def test_a_segment_that_is_within_the_limits_is_not_held():
    assert find(RetentionHold(0), TopicSettings(retention_ms=8_500)) == (0, (), 100)


@pytest.mark.parametrize(("max_ms", "count"), [(9_000, 0), (8_999, 1), (8_000, 1), (7_999, 2), (0, 3)])
def test_what_is_older_than_the_cap_goes(max_ms, count):
    old = find(RetentionHold(0, max_ms=max_ms))
    assert old.deletable == count
    assert old.broken == ((BrokenHold(CAP_MS, 0, 10 * count),) if count else ())


@pytest.mark.parametrize(("max_bytes", "count"), [(250, 0), (151, 0), (150, 1), (50, 2), (0, 3)])
def test_what_is_in_excess_of_the_cap_goes(max_bytes, count):
    old = find(RetentionHold(0, max_bytes=max_bytes))
    assert old.deletable == count
    assert old.broken == ((BrokenHold(CAP_BYTES, 0, 10 * count),) if count else ())


@pytest.mark.parametrize("hold", [RetentionHold(0, max_ms=0), RetentionHold(0, max_bytes=0)])
def test_a_cap_alone_deletes_nothing(hold):
    assert find(hold, TopicSettings(retention_ms=-1)).deletable == 0
    assert find(hold, TopicSettings(retention_ms=8_500)).deletable == 1


def test_both_caps_are_told_apart():
    old = find(RetentionHold(0, max_ms=8_999, max_bytes=60))
    assert old == (1, (BrokenHold(CAP_MS, 0, 10),), 150)
    segments = [SEGMENTS[0], SegmentSummary(20, 60, 9_000), *SEGMENTS[2:]]
    old = find(RetentionHold(0, max_ms=8_000, max_bytes=50), segments=segments)
    assert old.broken == (BrokenHold(CAP_MS, 0, 10), BrokenHold(CAP_BYTES, 10, 20))


def test_only_what_was_held_is_broken():
    assert find(RetentionHold(15, max_ms=0)).broken == (BrokenHold(CAP_MS, 15, 30),)
    assert find(RetentionHold(0, max_ms=0), start=5).broken == (BrokenHold(CAP_MS, 5, 30),)
    assert find(RetentionHold(30, max_ms=0)).broken == ()


def test_an_age_that_is_in_doubt_breaks_no_hold():
    doubtful = [SEGMENTS[0]._replace(is_proven=False)]
    assert find(RetentionHold(0, max_ms=0), ALL_EXCESS, segments=doubtful).deletable == 0


def test_what_is_below_the_log_start_goes_whatever_is_held():
    assert find(WHOLE_LOG, start=20) == (2, (), 50)
    assert find(WHOLE_LOG, TopicSettings(cleanup_policy="compact", retention_ms=0), start=20).deletable == 2


def test_compaction_alone_knows_no_holds():
    assert find(WHOLE_LOG, TopicSettings(cleanup_policy="compact", retention_ms=0)) == (0, (), 0)


def is_past(segment, total, hold, settings, now_ms):
    old = 0 <= settings.retention_ms < now_ms - segment.largest_timestamp
    excess = settings.retention_bytes >= 0 and total - segment.size >= settings.retention_bytes
    aged = hold.max_ms >= 0 and now_ms - segment.largest_timestamp > hold.max_ms
    over = hold.max_bytes >= 0 and total - segment.size >= hold.max_bytes
    return old or excess, aged or over


LIMITS = st.integers(-1, 60)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 30), st.integers(0, 50)), max_size=6),
    st.builds(RetentionHold, st.integers(0, 30), LIMITS, LIMITS),
    LIMITS,
    LIMITS,
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_what_goes_is_what_a_naive_reading_of_the_rules_lets_go(parts, hold, ms, size_max, start, high_watermark):
    segments, end = [], 0
    for offsets, size, timestamp in parts:
        end += offsets
        segments.append(SegmentSummary(end, size, timestamp))
    settings = TopicSettings(retention_ms=ms, retention_bytes=size_max)
    now_ms = 50
    gone, lost = 0, set()
    for number, segment in enumerate(segments):
        by_limit, by_cap = is_past(segment, sum(each.size for each in segments[number:]), hold, settings, now_ms)
        base = segments[number - 1].end_offset if number else 0
        held = {offset for offset in range(base, segment.end_offset) if offset >= max(hold.from_offset, start)}
        goes = segment.end_offset <= start or (by_limit and (segment.end_offset <= hold.from_offset or by_cap))
        if segment.end_offset > high_watermark or not goes:
            break
        gone += 1
        lost |= held
    old = find(hold, settings, now_ms=now_ms, start=start, high_watermark=high_watermark, segments=segments)
    assert old.deletable == gone
    told = [offset for each in old.broken for offset in range(each.from_offset, each.end_offset)]
    assert sorted(told) == sorted(lost)
    unheld = find(None, settings, now_ms=now_ms, start=start, high_watermark=high_watermark, segments=segments)
    assert old.held_bytes == sum(segment.size for segment in segments[gone : unheld.deletable])


def test_a_log_hides_what_is_not_held_and_says_what_it_broke():
    _directory, log = new_log(new_disk(), TopicSettings(segment_bytes=100, retention_ms=1000))
    for number in range(6):
        append(log, timestamp=1000 * number)
    log.high_watermark = 6
    assert asyncio.run(log.hide_old_segments(10_000, WHOLE_LOG)) is None
    assert log.find_old_segments(10_000, WHOLE_LOG).held_bytes == sum(one.size for one in log.files.segments)
    front = asyncio.run(log.hide_old_segments(10_000, RetentionHold(2)))
    assert front == (2, ())
    assert log.log_start_offset == 2
    front = asyncio.run(log.hide_old_segments(10_000, RetentionHold(2, max_ms=5_500)))
    assert front == (5, (BrokenHold(CAP_MS, 2, 5),))
