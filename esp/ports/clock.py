"""Time. Cores take time as an argument; only the shell asks a clock, and only this one."""

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A callback that is due later."""

    def cancel(self) -> None:
        """Forget the callback; nothing happens when it has run or was cancelled before."""


class Clock(Protocol):
    """A node's two clocks: one that never goes back, and the one on the wall, which may jump both ways."""

    def monotonic_us(self) -> int:
        """Microseconds since an arbitrary moment; never decreases within a process."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch, as Kafka's timestamps count them."""

    def call_later_us(self, delay_us: int, callback: Callable[[], None]) -> Timer:
        """Run ``callback`` on the node's loop after ``delay_us`` microseconds."""

    async def sleep_us(self, delay_us: int) -> None:
        """Return after ``delay_us`` microseconds."""
