"""The duration of moves, as a range that follows from the byte budget and from the cost of each move beside its bytes.

Every broker sends at most the budget, and receives at most the budget, each second. Then copies take at least as long as the busiest broker
needs for its bytes. If no broker idles that could copy, they take at most as long as the last copy to end had to wait: at each moment its
source or its target was busy, so the time is no more than that for the bytes that its source sends and the bytes that its target receives,
one after the other.

The cost of a move beside its bytes was measured on a loaded machine of two cores with four nodes, with up to 590 partitions of some
kilobytes, which went at 45 to 85 moves a second while a broker took part in a hundred at a time. The range allows for more load, and for
none.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from esp.placement.links import LinkBytes

SMALL_COPIES_S: Final = 1.0
"""Copies are small if together they take a broker no longer than this at its budget: the bytes in flight stay bounded, and a broker whose
copies end between two observations of the executor has more to do than the first five."""
SMALL_COPIES_FACTOR: Final = 20
"""So many times more small copies a broker takes part in at a time than large ones: 100 by default, a tenth of what one request to a
controller may well have."""

_MOVE_S: Final = (0.004, 0.04)
"""The time that each move takes of the controller and of the brokers, at least and at most, in seconds: two records of the controller, a
new log, the first fetch, the way into the ISR, and the deletion of an old log. The moves of a plan share the controller: their times add
up."""
TYPICAL_MOVE_S: Final = 0.016
"""The cost of a move besides its bytes, in seconds, on a machine with two processors: 572 moves of small partitions took 9 s."""
_WAIT_S: Final = 1.0
"""The longest time, in seconds, until a move that has ended is seen and the moves that wait for it begin."""


@dataclass(frozen=True, slots=True)
class Duration:
    """A range, in seconds."""

    low_s: float
    high_s: float

    def __add__(self, other: "Duration") -> "Duration":
        return Duration(self.low_s + other.low_s, self.high_s + other.high_s)


NOTHING: Final = Duration(0.0, 0.0)
BEGIN_AND_END: Final = Duration(0.3, 5.0)
"""The time that a plan takes before its first move and after its last: throttles are set and removed, preferred leaders are elected."""


def estimate_moves(moves: int, links: Iterable[LinkBytes], broker_bytes_per_second: int) -> Duration:
    """The duration of moves of which none waits for another.

    Args:
        moves: how many there are.
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
    if not moves:
        return NOTHING
    low = max((*sent.values(), *received.values()), default=0)
    high = max((sent[source] + received[target] for source, target in pairs), default=0)
    least_s, most_s = _MOVE_S
    return Duration(
        max(low / broker_bytes_per_second, moves * least_s),
        high / broker_bytes_per_second + moves * most_s + _WAIT_S,
    )
