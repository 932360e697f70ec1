"""The metrics of a node: what is counted while it runs, and who may read it.

What is told is gathered on the loop, and turned into text off it. Memory, open files and CPU time of the process are told under the names
that Prometheus's clients have for them in all languages (``process_*``).
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from esp.broker.connections.dispatcher import Dispatcher
from esp.broker.metrics.families import MeasuredNode, collect_loop, collect_node, collect_requests
from esp.broker.metrics.http_server import HttpServer, Page
from esp.broker.metrics.loop_delay import LoopDelay
from esp.broker.metrics.measured_dispatcher import MeasuredDispatcher
from esp.broker.metrics.request_metrics import RequestMetrics
from esp.broker.tasks import Tasks
from esp.ports.clock import Clock
from esp.ports.env import Env
from esp.ports.network import Address
from esp.protocol.registry import ListenerKind


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

    async def serve(self, address: Address, node: MeasuredNode) -> Address:
        """Let them be read, and return where.

        Args:
            address: where to listen; port 0 is any.
            node: what they are of; it has started.

        Raises:
            OperatorError: the address cannot be bound.
        """

        async def render(accept: str) -> Page:
            metrics = [*collect_requests(self.requests), *collect_loop(self.loop_delay.delays), *collect_node(node)]
            return await self._env.cpu.run(_encode, accept, metrics)

        self.loop_delay.start()
        self._server = HttpServer(self._env.network, self._tasks, render)
        return await self._server.listen(address)

    async def close(self) -> None:
        """Count and serve no more."""
        self.loop_delay.close()
        if self._server is not None:
            await self._server.close()
        await self._tasks.stop()


class _Gathered:
    """What the library's encoders take for a registry."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        yield from self._metrics
        yield from ProcessCollector(registry=None).collect()


def _encode(accept: str, metrics: Sequence[Metric]) -> Page:
    encode, content_type = choose_encoder(accept)
    return Page(content_type, encode(_Gathered(metrics)))
