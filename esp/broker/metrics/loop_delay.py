"""How late the event loop is: whatever keeps it busy delays every request by as much."""

from typing import Final

from esp.broker.metrics.histogram import Histogram
from esp.ports.clock import Clock, Timer

INTERVAL_US: Final = 100_000
"""How often the loop is asked."""


class LoopDelay:
    """Sets timers and sees how late they come.

    Args:
        clock: the node's.
    """

    def __init__(self, clock: Clock) -> None:
        self.delays = Histogram()
        self._clock = clock
        self._timer: Timer | None = None
        self._due_us = 0

    def start(self) -> None:
        """Begin to measure."""
        self._due_us = self._clock.monotonic_us() + INTERVAL_US
        self._timer = self._clock.call_later_us(INTERVAL_US, self._on_timer)

    def close(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self.delays.observe(max(0, self._clock.monotonic_us() - self._due_us))
        self.start()
