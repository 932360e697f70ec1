"""What a shortcut answers is counted for metrics and quotas, by one look at the clock for both."""

import pytest

from esp.broker.shortcut_counter import ShortcutCounter

FRAME = memoryview(bytes(100))


class Clock:
    def __init__(self):
        self.now_us = 1_000
        self.looks = 0

    def monotonic_us(self):
        self.looks += 1
        return self.now_us


class Shortcut:
    """Takes 30 us for an answer."""

    api_key = 0
    body_offset = 20

    def __init__(self, clock, answer=b"answer"):
        self._clock = clock
        self._answer = answer

    def answer(self, frame):
        self._clock.now_us += 30
        return self._answer


class Tally:
    def __init__(self):
        self.counted = []

    def count(self, *figures):
        self.counted.append(figures)


class Meter:
    def __init__(self):
        self.charged = []

    def charge_repeated(self, frame, answer, began_us, now_us):
        self.charged.append((frame, answer, began_us, now_us))
        return b"throttled"


def test_metrics_and_quotas_count_one_time():
    clock, tally, meter = Clock(), Tally(), Meter()
    counter = ShortcutCounter(clock.monotonic_us, tally)
    counter.meter = meter
    assert counter.answer(Shortcut(clock), FRAME) == b"throttled"
    assert tally.counted == [(80, len(b"answer"), 30)]
    assert meter.charged == [(FRAME, b"answer", 1_000, 1_030)]
    assert clock.looks == 2


@pytest.mark.parametrize("has_meter", [False, True])
@pytest.mark.parametrize("has_tally", [False, True])
def test_what_the_shortcut_leaves_to_the_ordinary_way_is_not_counted_here(has_meter, has_tally):
    clock, tally, meter = Clock(), Tally(), Meter()
    counter = ShortcutCounter(clock.monotonic_us, tally if has_tally else None)
    counter.meter = meter if has_meter else None
    assert counter.answer(Shortcut(clock, None), FRAME) is None
    assert (tally.counted, meter.charged) == ([], [])
    assert counter.answer(Shortcut(clock), FRAME) == (b"throttled" if has_meter else b"answer")
    assert (len(tally.counted), len(meter.charged)) == (has_tally, has_meter)
