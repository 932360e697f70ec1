"""The rate of copies: a fixed budget, or one that follows the produce latency.

The rule is that of TCP's congestion avoidance (additive increase, multiplicative decrease: Chiu and Jain, 1989): down by a half as soon as
the 99th percentile of produce requests passes the bound, up by a step while it stays clearly below. It finds the rate that the disks and
the network have to spare without knowing either.
"""

from dataclasses import dataclass
from typing import Final

HELD_BYTES_PER_SECOND: Final = 1024
"""The rate while a plan is paused: what was copied stays, and little is added. The least rate that Kafka's tool suggests."""

_DECREASE: Final = 0.5
_STEPS: Final = 10
"""The number of steps in which the rate would rise from nothing to the budget."""
_CALM: Final = 0.7
"""The part of the bound below which there is room to go faster; between it and the bound the rate stays."""
_FLOOR_PART: Final = 1 / 32
_CEILING_FACTOR: Final = 4
_LEAST: Final = 64 * 1024


@dataclass
class Pace:
    """The bytes that each broker may send and may receive in a second for moves.

    Args:
        budget: the rate without a bound, and the first rate with one.
        max_produce_p99_ms: the bound; None for a fixed budget. With it the rate is from a thirty-second of the budget to four times it.
    """

    budget: int
    max_produce_p99_ms: float | None = None

    def __post_init__(self) -> None:
        self.bytes_per_second = self.budget

    def on_latency(self, produce_p99_ms: float | None) -> None:
        """Take the produce latency since the last call; None without produce requests, or if no broker reports it."""
        bound = self.max_produce_p99_ms
        if bound is None:
            return
        if produce_p99_ms is not None and produce_p99_ms > bound:
            self.bytes_per_second = max(self._floor, int(self.bytes_per_second * _DECREASE))
        elif produce_p99_ms is None or produce_p99_ms < bound * _CALM:
            self.bytes_per_second = min(self.budget * _CEILING_FACTOR, self.bytes_per_second + self.budget // _STEPS)

    @property
    def _floor(self) -> int:
        return min(self.budget, max(_LEAST, int(self.budget * _FLOOR_PART)))
