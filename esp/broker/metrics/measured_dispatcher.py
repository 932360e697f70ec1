"""A dispatcher that measures: what a node with metrics has in place of the plain one, so that others pay nothing."""

from collections.abc import Sequence
from typing import Any, Final

from esp.broker.connections.dispatcher import Dispatcher
from esp.broker.connections.request import Request
from esp.broker.metrics.request_metrics import RequestCounts, RequestMetrics
from esp.broker.tasks import Tasks
from esp.ports.clock import Clock
from esp.ports.network import Buffer
from esp.protocol.registry import ListenerKind


class MeasuredDispatcher(Dispatcher):
    """See :class:`~esp.broker.connections.dispatcher.Dispatcher`.

    Args:
        kind: of the listeners.
        services: what cold handlers work with, if that is known already.
        tasks: where handlers that wait live.
        clock: the node's.
        metrics: where the requests are counted.
    """

    allows_shortcuts = False

    def __init__(self, kind: ListenerKind, services: Any, tasks: Tasks, clock: Clock, metrics: RequestMetrics) -> None:
        super().__init__(kind, services, tasks, clock)
        self._now_us: Final = clock.monotonic_us
        self._metrics = metrics

    def dispatch(self, request: Request, body: memoryview) -> Sequence[Buffer] | None:
        """See the base class. A request that cannot be decoded is not counted: its connection ends."""
        begun_us = self._now_us()
        received_bytes = len(body)
        answer = super().dispatch(request, body)
        counts = self._metrics.counts(request)
        counts.received_bytes += received_bytes
        if answer is not None:
            self._count(counts, begun_us, answer)
        elif request.answer is not None:  # answered before the handler returned
            self._count(counts, begun_us, request.answer)
        else:
            request.on_answer(lambda buffers: self._count(counts, begun_us, buffers))
        return answer

    def _count(self, counts: RequestCounts, begun_us: int, answer: Sequence[Buffer]) -> None:
        counts.durations.observe(self._now_us() - begun_us)
        counts.sent_bytes += sum(map(len, answer))
