"""The duration of copies, as a range that follows from the byte budget.

Every broker sends at most the budget, and receives at most the budget, each second. Then copies take at least as long as the busiest broker
needs for its bytes. If no broker idles that could copy, they take at most as long as the last copy to end had to wait: at each moment its
source or its target was busy, so the time is no more than that for the bytes that its source sends and the bytes that its target receives,
one after the other.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from esp.placement.links import LinkBytes

_MOVE_OVERHEAD_S: Final = 0.5
"""The most that a move takes beside the copying, in seconds: the controller's two records, the first fetch and the way into the ISR."""


@dataclass(frozen=True, slots=True)
class Duration:
    """A range, in seconds."""

    low_s: float
    high_s: float

    def __add__(self, other: "Duration") -> "Duration":
        return Duration(self.low_s + other.low_s, self.high_s + other.high_s)


NOTHING: Final = Duration(0.0, 0.0)


def estimate_copies(links: Iterable[LinkBytes], broker_bytes_per_second: int) -> Duration:
    """The duration of copies that begin together.

    Args:
        links: the bytes from each source to each target.
        broker_bytes_per_second: the budget of each broker in each direction, above 0.
    """
    sent: Counter[int] = Counter()
    received: Counter[int] = Counter()
    pairs = []
    for link in links:
        sent[link.source] += link.size_bytes
        received[link.target] += link.size_bytes
        pairs.append((link.source, link.target))
    if not pairs:
        return NOTHING
    low = max(*sent.values(), *received.values())
    high = max(sent[source] + received[target] for source, target in pairs)
    return Duration(low / broker_bytes_per_second, high / broker_bytes_per_second + _MOVE_OVERHEAD_S)
