"""Since when each broker has been away, as the active controller has seen it.

Nothing of this is in the metadata log. A controller that becomes active counts from then on, so that a change of controllers makes a repair
later and never earlier (REPAIR-1). Times are of the controller's monotonic clock.
"""

from collections.abc import Iterable

from esp.model.ids import NodeId


class BrokerAbsences:
    """Who is away, and since when."""

    def __init__(self) -> None:
        self._since_us: dict[NodeId, int] = {}

    def observe(self, away: Iterable[NodeId], now_us: int) -> None:
        """Take note of all who are away now; whoever is back has never been away."""
        self._since_us = {node: self._since_us.get(node, now_us) for node in away}

    def longer_than(self, duration_us: int, now_us: int) -> tuple[NodeId, ...]:
        """Who has been away for at least so long, by id."""
        assert all(since_us <= now_us for since_us in self._since_us.values()), "the clock does not go back"
        return tuple(sorted(node for node, since_us in self._since_us.items() if now_us - since_us >= duration_us))
