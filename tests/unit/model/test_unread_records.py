import pytest

from esp.model.unread_records import HeldRecords, Retention, Unread, judge_unread

NOW_MS = 1_000_000


def test_lag_age_and_the_time_that_is_left() -> None:
    held = HeldRecords(0, 130, Retention(60_000))
    assert judge_unread(100, held, NOW_MS - 5_000, NOW_MS) == Unread(30, 5_000, 55_000, "")
    assert judge_unread(130, held, None, NOW_MS) == Unread(0, None, None, "")


def test_records_that_are_kept_for_ever_are_not_lost() -> None:
    assert judge_unread(100, HeldRecords(0, 130), 0, NOW_MS) == Unread(30, NOW_MS, None, "")


def test_a_bound_of_bytes_is_reached_at_the_rate_at_which_records_come() -> None:
    # 300 of 1000 bytes follow the record, in 30 s: the 500 that are kept are full 20 s later
    held = HeldRecords(0, 100, Retention(size_bytes=500), 1_000)
    assert judge_unread(70, held, NOW_MS - 30_000, NOW_MS).loss_ms == 20_000
    assert judge_unread(70, held._replace(retention=Retention(35_000, 500)), NOW_MS - 30_000, NOW_MS).loss_ms == 5_000
    assert judge_unread(70, held._replace(retention=Retention(90_000, 500)), NOW_MS - 30_000, NOW_MS).loss_ms == 20_000


def test_what_has_more_than_the_kept_bytes_behind_it_may_go_at_any_moment() -> None:
    held = HeldRecords(0, 100, Retention(size_bytes=500), 1_000)
    loss_ms = judge_unread(10, held, NOW_MS - 30_000, NOW_MS).loss_ms
    assert loss_ms is not None
    assert loss_ms < 0


@pytest.mark.parametrize(
    ("hold", "loss_ms"),
    [
        (Retention(), None),
        (Retention(age_ms=20_000), 15_000),
        (Retention(age_ms=1), 5_000),  # below the limit it holds nothing
        (Retention(size_bytes=1), 5_000),
        (Retention(size_bytes=600), 5_000),  # 300 bytes in 5 s: at the same time as the limit
        (Retention(size_bytes=900), 10_000),
        (Retention(7_000, 900), 5_000),
    ],
)
def test_held_records_live_until_a_limit_and_a_cap_are_past(hold: Retention, loss_ms: int | None) -> None:
    held = HeldRecords(0, 100, Retention(10_000), 1_000, hold)
    assert judge_unread(70, held, NOW_MS - 5_000, NOW_MS).loss_ms == loss_ms


@pytest.mark.parametrize("size_bytes", [None, 0])
def test_without_a_size_a_bound_of_bytes_says_nothing(size_bytes: int | None) -> None:
    held = HeldRecords(0, 100, Retention(size_bytes=500), size_bytes)
    assert judge_unread(70, held, NOW_MS - 30_000, NOW_MS).loss_ms is None


@pytest.mark.parametrize("retention", [Retention(0, 0), Retention(None, 0)])
def test_a_record_of_the_future_breaks_nothing(retention: Retention) -> None:
    unread = judge_unread(0, HeldRecords(0, 1, retention, 80), NOW_MS + 5_000, NOW_MS)
    assert unread.behind_ms == -5_000
    assert unread.loss_ms == 0


@pytest.mark.parametrize(
    ("offset", "held", "note"),
    [
        (100, HeldRecords(0, 130), ""),
        (None, HeldRecords(0, 130), ""),
        (100, HeldRecords(0, 99), "beyond the end: the topic was deleted and created again, or lost records"),
        (100, HeldRecords(110, 130), "10 unread records are gone"),
        (100, None, "the partition is not there any more"),
    ],
)
def test_what_is_wrong_is_told(offset: int | None, held: HeldRecords | None, note: str) -> None:
    unread = judge_unread(offset, held, None, NOW_MS)
    assert unread.note == note
    assert unread.lag == (None if held is None or offset is None else max(0, held.end - offset))


def test_the_first_unread_record_is_one_that_is_there() -> None:
    assert HeldRecords(110, 130).first_unread(100) == 110
    assert HeldRecords(0, 130).first_unread(100) == 100
    assert HeldRecords(0, 130).first_unread(130) is None
    assert HeldRecords(50, 50).first_unread(7) is None
