"""Tells the log which partitions cannot be fetched from a broker: one line for each reason and moment, however many partitions."""

import logging
from functools import partial
from typing import Final

from esp.model.ids import NodeId, TopicPartition
from esp.ports.clock import Clock

log = logging.getLogger(__name__)

GATHER_US: Final = 1_000_000
"""What has one cause shows within that time."""
NAMED_MAX: Final = 3
"""Partitions that are named; the others are counted."""


class FetchTroubles:
    """Those of one fetcher.

    Args:
        clock: says when a line is due.
        source: the broker to fetch from.
    """

    def __init__(self, clock: Clock, source: NodeId) -> None:
        self._clock = clock
        self._source = source
        self._names: dict[str, dict[TopicPartition, None]] = {}

    def add(self, name: TopicPartition, reason: str) -> None:
        """A partition cannot be fetched, and has not been for a while."""
        names = self._names.get(reason)
        if names is None:
            names = self._names[reason] = {}
            self._clock.call_later_us(GATHER_US, partial(self._tell, reason))
        names[name] = None

    def _tell(self, reason: str) -> None:
        names = list(self._names.pop(reason))
        named = ", ".join(map(str, names[:NAMED_MAX]))
        rest = len(names) - NAMED_MAX
        others = f" and {rest} other partitions" if rest > 0 else ""
        log.warning("%s%s cannot be fetched from node %d: %s", named, others, self._source, reason)
