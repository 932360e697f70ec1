"""The machine's clocks and the loop's timers."""

import asyncio
import time
from collections.abc import Callable

from esp.ports.clock import Timer


class SystemClock:
    """See :class:`esp.ports.clock.Clock`."""

    def monotonic_us(self) -> int:
        """See :class:`esp.ports.clock.Clock`."""
        return time.monotonic_ns() // 1000

    def wall_ms(self) -> int:
        """See :class:`esp.ports.clock.Clock`."""
        return time.time_ns() // 1_000_000

    def call_later_us(self, delay_us: int, callback: Callable[[], None]) -> Timer:
        """See :class:`esp.ports.clock.Clock`."""
        return asyncio.get_running_loop().call_later(delay_us / 1_000_000, callback)

    async def sleep_us(self, delay_us: int) -> None:
        """See :class:`esp.ports.clock.Clock`."""
        await asyncio.sleep(delay_us / 1_000_000)
