"""The clocks of a node on virtual time."""

import asyncio
from collections.abc import Callable, Iterator
from math import inf
from typing import Final

from esp.ports.clock import Timer
from esp.simulation.machine.processor import LoopProcessor

WALL_START_MS: Final = 1_795_000_000_000
"""The time that the wall clock shows when the loop begins: a day in 2026."""

DECISION_S: Final = 2.0
"""The time for which a step may go by what the wall clock showed when the step began."""


class SimulatedClock:
    """See :class:`esp.ports.clock.Clock`.

    Args:
        loop: whose time it shows.
        rate: how many seconds this clock counts, and its timers take for one, in a second of the loop: 0.9 is slow, 1.1 is fast.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, rate: float = 1.0) -> None:
        self.rate = rate
        self._loop = loop
        self._us_per_s = rate * 1_000_000
        self._wall_shift_ms = 0
        self._lapse_ms = 0
        self._before_jump = (-DECISION_S, 0)
        """The time of the last jump, and the shift before it."""
        self._shifts: list[tuple[float, int]] = [(0.0, 0)]
        """By how much the wall clock was ahead since each of its changes, by its own jumps and by those of all clocks."""
        self.processor: LoopProcessor | None = None
        """The processor of the process that looks at the clock; None where that takes no time."""
        self._shown_us = 0

    @property
    def wall_shift_ms(self) -> int:
        """The time by which the wall clock was set; it jumps when this changes."""
        return self._wall_shift_ms

    @wall_shift_ms.setter
    def wall_shift_ms(self, shift_ms: int) -> None:
        self._before_jump = self._loop.time(), self._wall_shift_ms
        self._wall_shift_ms = shift_ms
        self._on_shifted()

    @property
    def lapse_ms(self) -> int:
        """The time by which the wall clocks of all nodes went ahead together; it only grows."""
        return self._lapse_ms

    @lapse_ms.setter
    def lapse_ms(self, lapse_ms: int) -> None:
        self._lapse_ms = lapse_ms
        self._on_shifted()

    def _on_shifted(self) -> None:
        self._shifts.append((self._loop.time(), self._wall_shift_ms + self._lapse_ms))

    def shifts_since(self, since_s: float) -> Iterator[int]:
        """By how many milliseconds the wall clock was ahead at a time and at any later one, by its jumps alone.

        A step that ends at that time may have begun before, and gone by what the clock showed then.
        """
        begun_s = since_s - DECISION_S
        ends_s = [at_s for at_s, _ in self._shifts[1:]] + [inf]
        return (shift_ms for (_, shift_ms), end_s in zip(self._shifts, ends_s, strict=True) if end_s > begun_s)

    def latest_wall_ms(self) -> int:
        """The latest time by which a step may go that ends now: if the clock was just set back, the one that it would show otherwise."""
        jumped_s, shift_ms = self._before_jump
        if self._loop.time() - jumped_s > DECISION_S:
            return self.wall_ms()
        return self.wall_ms() + max(0, shift_ms - self._wall_shift_ms)

    def monotonic_us(self) -> int:
        """See :class:`esp.ports.clock.Clock`."""
        if self.processor is None:
            return round(self._loop.time() * self._us_per_s)
        shown_us = round((self._loop.time() + self.processor.look()) * self._us_per_s)
        shown_us = self._shown_us = max(shown_us, self._shown_us)  # a thread may look when the loop has just been ahead
        return shown_us

    def wall_ms(self) -> int:
        """See :class:`esp.ports.clock.Clock`."""
        return WALL_START_MS + self._lapse_ms + self._wall_shift_ms + self.monotonic_us() // 1000

    def call_later_us(self, delay_us: int, callback: Callable[[], None]) -> Timer:
        """See :class:`esp.ports.clock.Clock`."""
        return self._loop.call_later(delay_us / self._us_per_s + self._ahead_s, callback)

    async def sleep_us(self, delay_us: int) -> None:
        """See :class:`esp.ports.clock.Clock`."""
        await asyncio.sleep(delay_us / self._us_per_s + self._ahead_s)

    @property
    def _ahead_s(self) -> float:
        return self.processor.ahead_s if self.processor is not None else 0.0
