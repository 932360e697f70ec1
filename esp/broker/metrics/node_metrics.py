"""The metrics of a node: counted while it runs, and served over HTTP.

They are gathered on the loop, and turned into text off it. Memory, open files and CPU time of the process have the names that Prometheus's
clients give them in all languages (``process_*``). The delay of the event loop is measured too: any work that keeps the loop busy delays
every request by as much. A node with metrics has a dispatcher that measures in place of the plain one, so that other nodes pay nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from esp.broker.broker_role import BrokerRole
from esp.broker.connections.dispatcher import Dispatcher
from esp.broker.controller_role import ControllerRole
from esp.broker.metrics.families import collect_loop, collect_node, collect_requests
from esp.broker.metrics.histogram import Histogram
from esp.broker.metrics.http_server import HttpServer, Page
from esp.broker.metrics.request_metrics import RequestMetrics
from esp.broker.request import LATER, NEVER, Answer, Request
from esp.broker.running_node import RunningNode
from esp.broker.shortcut_counter import ShortcutCounter
from esp.broker.tasks import Tasks
from esp.model.buffers import Buffer
from esp.model.tls import TlsPolicy
from esp.ports.clock import Clock, Timer
from esp.ports.env import Env
from esp.ports.network import Address
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

    def __init__(self, kind: ListenerKind, services: Any, tasks: Tasks, clock: Clock, metrics: RequestMetrics) -> None:
        super().__init__(kind, services, tasks, clock)
        self._now_us: Final = clock.monotonic_us
        self._metrics = metrics

    def dispatch(self, request: Request, body: memoryview) -> Answer:
        """See the base class. A request that cannot be decoded is not counted: its connection ends."""
        begun_us = self._now_us()
        received_bytes = len(body)
        answer = super().dispatch(request, body)
        counts = self._metrics.counts(request)

        def count(buffers: Sequence[Buffer]) -> None:
            counts.count(received_bytes, sum(map(len, buffers)), self._now_us() - begun_us)

        if answer is NEVER:
            count(())
        elif answer is not LATER:
            count(answer)
        elif request.answer is not None:  # answered before the handler returned
            count(request.answer)
        else:
            request.on_answer(count)
        client = request.client
        if client.shortcut is not None and client.shortcut.api_key == request.api_key:
            if client.counter is None:
                client.counter = ShortcutCounter(self._now_us)
            client.counter.tally = counts
        return answer


INTERVAL_US: Final = 100_000
"""The interval at which the delay of the loop is measured."""


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


class NodeMetrics:
    """Counts from the start, and serves once it is told what there is to tell.

    Args:
        env: the outside.
    """

    def __init__(self, env: Env) -> None:
        self.requests: dict[ListenerKind, RequestMetrics] = {}
        self.loop_delay: Final = LoopDelay(env.clock)
        self._env = env
        self._tasks = Tasks(env.host)
        self._server: HttpServer | None = None

    def dispatcher(self, kind: ListenerKind, services: Any, tasks: Tasks, clock: Clock) -> Dispatcher:
        """A dispatcher that is measured; the arguments are those of the plain one."""
        metrics = self.requests.setdefault(kind, RequestMetrics())
        return MeasuredDispatcher(kind, services, tasks, clock, metrics)

    async def serve(
        self,
        address: Address,
        node: RunningNode,
        broker: BrokerRole | None,
        controller: ControllerRole | None,
        tls: TlsPolicy | None = None,
    ) -> Address:
        """Let them be read, and return where.

        Args:
            address: where to listen; port 0 is any.
            node: what they are of; it has started.
            broker: its role, if it has that one.
            controller: the same.
            tls: the terms of encryption; None for plaintext.

        Raises:
            OperatorError: the address cannot be bound.
        """

        async def render(accept: str) -> Page:
            metrics = [
                *collect_requests(self.requests),
                *collect_loop(self.loop_delay.delays),
                *collect_node(node, broker, controller, self._env),
            ]
            return await self._env.cpu.run(_encode, accept, metrics)

        self.loop_delay.start()
        self._server = HttpServer(self._env.network, self._tasks, render)
        return await self._server.listen(address, tls)

    async def close(self) -> None:
        """Count and serve no more."""
        self.loop_delay.close()
        if self._server is not None:
            await self._server.close()
        await self._tasks.stop()


class _Gathered:
    """The source of metrics for the library's encoders, in place of a registry."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        yield from self._metrics
        yield from ProcessCollector(registry=None).collect()


def _encode(accept: str, metrics: Sequence[Metric]) -> Page:
    encode, content_type = choose_encoder(accept)
    return Page(content_type, encode(_Gathered(metrics)))
