import pytest

from esp.sink.pauses import PAUSE_MOST_S, Pauses


def test_pauses_behind_fences_double_up_to_half_a_minute() -> None:
    pauses = Pauses(0.1, lambda: 0.0)
    found = [pauses.after_fence(0.0) for _ in range(12)]
    assert found[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert found[-1] == PAUSE_MOST_S / 2
    assert Pauses(0.1, lambda: 1.0).after_fence(0.0) == pytest.approx(0.2)


def test_a_pause_behind_a_fence_is_as_long_as_the_attempt_was_at_least() -> None:
    pauses = Pauses(0.1, lambda: 0.0)
    assert pauses.after_fence(7.0) == 7.0
    assert pauses.after_fence(40.0) == 40.0


def test_pauses_behind_other_failures_do_not_grow() -> None:
    pauses = Pauses(0.1, lambda: 0.5)
    assert [pauses.after_failure() for _ in range(3)] == [0.1] * 3
