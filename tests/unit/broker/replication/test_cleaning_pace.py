"""The debt of compaction that moved bytes too early."""

from esp.broker.replication.cleaning_pace import CleaningPace
from esp.settings.setting import DOUBLE_MAX

S = 1_000_000


def test_the_time_that_a_step_takes_counts_as_waiting():
    pace = CleaningPace()
    pace.note_moved(300, begun_us=10 * S, most=100)
    assert pace.wait_us(now_us=10 * S, most=100) == 3 * S
    assert pace.wait_us(now_us=11 * S, most=100) == 2 * S
    assert pace.wait_us(now_us=14 * S, most=100) == 0


def test_no_time_is_saved_up_for_later():
    pace = CleaningPace()
    pace.note_moved(100, begun_us=10 * S, most=100)
    pace.note_moved(100, begun_us=60 * S, most=100)
    assert pace.wait_us(now_us=60 * S, most=100) == S


def test_all_rounds_have_one_debt():
    pace = CleaningPace()
    pace.note_moved(100, begun_us=10 * S, most=100)
    assert pace.wait_us(now_us=11 * S, most=100) == 0
    pace.note_moved(100, begun_us=10 * S, most=100)  # another round's, which began earlier
    assert pace.wait_us(now_us=11 * S, most=100) == S


def test_another_rate_counts_for_what_is_left():
    pace = CleaningPace()
    pace.note_moved(1000, begun_us=0, most=100)
    assert pace.wait_us(now_us=5 * S, most=100) == 5 * S
    assert pace.wait_us(now_us=5 * S, most=500) == S
    assert pace.wait_us(now_us=5 * S, most=DOUBLE_MAX) == 0
    assert pace.wait_us(now_us=5 * S + 1, most=DOUBLE_MAX) == 0


def test_a_rate_of_nothing_is_one_byte():
    pace = CleaningPace()
    pace.note_moved(3, begun_us=S, most=0.0)
    assert pace.wait_us(now_us=S, most=0.0) == 3 * S
