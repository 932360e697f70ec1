"""What a node's process sets of its interpreter."""

import gc
import sys
import weakref
from collections.abc import Callable

import pytest

from esp.runtime import interpreter
from esp.runtime.interpreter import (
    SEARCH_EVERY_S,
    SWITCH_INTERVAL_S,
    YOUNG_OBJECTS,
    search_regularly,
    shorten_pauses,
    spare_what_exists,
)


def test_other_threads_give_the_interpreter_back_soon() -> None:
    before, thresholds = sys.getswitchinterval(), gc.get_threshold()
    try:
        shorten_pauses()
        assert abs(sys.getswitchinterval() - SWITCH_INTERVAL_S) < 1e-6
        assert gc.get_threshold() == YOUNG_OBJECTS
    finally:
        sys.setswitchinterval(before)
        gc.set_threshold(*thresholds)


def test_what_exists_is_looked_through_no_more() -> None:
    try:
        spare_what_exists()
        assert gc.get_freeze_count() > 1000
        assert len(gc.get_objects()) < 1000
    finally:
        gc.unfreeze()


class PlayedLoop:
    """A loop of which only later calls are asked."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self.due.append((delay_s, callback))


class InACircle:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.parametrize(("takes_s", "next_s"), [(0.001, 60), (0.06, 60), (0.5, 500)])
def test_circles_are_found_by_the_clock_in_a_thousandth_of_the_time(
    takes_s: float, next_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    told_s = iter((100.0, 100.0 + takes_s))
    monkeypatch.setattr(interpreter, "perf_counter", lambda: next(told_s))
    loop = PlayedLoop()
    search_regularly(loop)  # type: ignore[arg-type]
    [(delay_s, search)] = loop.due
    assert delay_s == SEARCH_EVERY_S
    lost = weakref.ref(InACircle())
    search()
    assert lost() is None
    assert loop.due[1][0] == pytest.approx(next_s)
    assert loop.due[1][1] is search
