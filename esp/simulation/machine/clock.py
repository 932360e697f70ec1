"""The clocks of a node on virtual time."""

import asyncio
from collections.abc import Callable
from typing import Final

from esp.ports.clock import Timer

WALL_START_MS: Final = 1_795_000_000_000
"""What the wall clock shows when the loop begins: a day in 2026."""


class SimulatedClock:
    """See :class:`esp.ports.clock.Clock`.

    Args:
        loop: whose time it shows.
        rate: how many seconds this clock counts, and its timers take for one, in a second of the loop: 0.9 is slow, 1.1 is fast.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, rate: float = 1.0) -> None:
        self._loop = loop
        self._us_per_s = rate * 1_000_000
        self.wall_shift_ms = 0
        """How far somebody has set the wall clock; it jumps when this changes."""

    def monotonic_us(self) -> int:
        """See :class:`esp.ports.clock.Clock`."""
        return round(self._loop.time() * self._us_per_s)

    def wall_ms(self) -> int:
        """See :class:`esp.ports.clock.Clock`."""
        return WALL_START_MS + self.wall_shift_ms + self.monotonic_us() // 1000

    def call_later_us(self, delay_us: int, callback: Callable[[], None]) -> Timer:
        """See :class:`esp.ports.clock.Clock`."""
        return self._loop.call_later(delay_us / self._us_per_s, callback)

    async def sleep_us(self, delay_us: int) -> None:
        """See :class:`esp.ports.clock.Clock`."""
        await asyncio.sleep(delay_us / self._us_per_s)
