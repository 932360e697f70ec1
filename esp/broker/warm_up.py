"""Prepares, after a node's start and a little at a time, for the first request of each kind.

A node starts without most handlers, and without readers and writers of messages (decision 2). The first request of a version makes them: up
to some ten milliseconds in which no other request is served, several hundred times over. The first client should not pay for that, least of
all in a failover; and no client should be able to let others pay for it by sending requests of every kind. So it is done beforehand, in
steps with pauses between them.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final

from esp.ports.clock import Clock, Timer

log = logging.getLogger(__name__)

BEGIN_AFTER_US: Final = 5_000_000
"""A node that is only tried out, or that has its clients come back to it at once, has better things to do at first."""

PAUSE_US: Final = 10_000
"""Others have the loop between steps, which take 2 to 20 ms each."""


class WarmUp:
    """Takes one step after another until all are taken.

    Args:
        clock: the node's.
        steps: what there is to do; each is asked for when the one before is done.
        on_step: called after each step.
    """

    def __init__(
        self, clock: Clock, steps: Iterator[Callable[[], object]], on_step: Callable[[], None] = lambda: None
    ) -> None:
        self._clock = clock
        self._steps = steps
        self._on_step = on_step
        self._timer: Timer = clock.call_later_us(BEGIN_AFTER_US, self._take_step)

    def close(self) -> None:
        """Take no further step."""
        self._timer.cancel()

    def _take_step(self) -> None:
        step = next(self._steps, None)
        if step is None:
            log.info("prepared for requests of every kind")
            return
        step()
        self._on_step()
        self._timer = self._clock.call_later_us(PAUSE_US, self._take_step)
