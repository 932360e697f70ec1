"""Counts the requests of one connection that its shortcut answers: for the node's metrics and its client's quotas, as others are counted.

Other requests are counted around their handlers, by the dispatcher of a node with metrics and by the enforcer of quotas. What a shortcut
answers passes neither, so each of them leaves here what it counts by. The time of an answer is taken once for both.
"""

from collections.abc import Callable
from typing import Protocol

from esp.broker.shortcut import Shortcut
from esp.model.buffers import Buffer


class Tally(Protocol):
    """The metrics of requests of one kind; see :class:`esp.broker.metrics.request_metrics.RequestCounts`."""

    def count(self, received_bytes: int, sent_bytes: int, elapsed_us: int) -> None:
        """Count a request by the size of its body, the size of its answer, and its time."""


class ShortcutMeter(Protocol):
    """The quotas of the connection's client; see :class:`esp.broker.quotas.client_meter.ClientMeter`."""

    def charge_repeated(self, frame: memoryview, answer: Buffer, began_us: int, now_us: int) -> Buffer:
        """Count a request that a shortcut has answered; return the answer, with the time for which its client is throttled."""


class ShortcutCounter:
    """Stands between a session and the shortcut of its connection.

    Args:
        now_us: the node's monotonic clock.
        tally: the metrics of the requests that shortcuts answer, on a node that has metrics.
    """

    __slots__ = ("_now_us", "meter", "tally")

    def __init__(self, now_us: Callable[[], int], tally: Tally | None = None) -> None:
        self._now_us = now_us
        self.tally = tally
        """The tally of the requests which the connection's present shortcut answers."""
        self.meter: ShortcutMeter | None = None
        """While a quota counts for the connection's client."""

    def answer(self, shortcut: Shortcut, frame: memoryview) -> Buffer | None:
        """Return what the shortcut answers, or None; see :meth:`esp.broker.shortcut.Shortcut.answer`."""
        meter, now_us = self.meter, self._now_us
        began_us = now_us()
        answer = shortcut.answer(frame)
        if answer is None:
            return None
        ended_us = now_us()
        if self.tally is not None:
            self.tally.count(len(frame) - shortcut.body_offset, len(answer), ended_us - began_us)
        return answer if meter is None else meter.charge_repeated(frame, answer, began_us, ended_us)
