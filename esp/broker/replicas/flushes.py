"""Flushes of replicas that are asked for at each append: one at a time for each log, and one more for all that came meanwhile (SYNC-2)."""

from collections.abc import Awaitable, Callable

from esp.broker.replicas.hosted_partition import HostedPartition
from esp.broker.tasks import Tasks


class ReplicaFlushes:
    """See the module.

    Args:
        flush: flushes one replica's log.
        tasks: where the flushes live.
    """

    def __init__(self, flush: Callable[[HostedPartition], Awaitable[None]], tasks: Tasks) -> None:
        self._flush = flush
        self._tasks = tasks
        self._running: dict[HostedPartition, bool] = {}
        """True: more was appended since the running flush began, so that another one has to follow it."""

    def flush_later(self, hosted: HostedPartition) -> None:
        """Flush what was appended before this call, soon."""
        if hosted in self._running:
            self._running[hosted] = True
        else:
            self._running[hosted] = False
            self._tasks.start(self._run(hosted), name=f"flush {hosted.name}")

    async def _run(self, hosted: HostedPartition) -> None:
        again = True
        while again:
            self._running[hosted] = False
            await self._flush(hosted)
            again = self._running[hosted]
        del self._running[hosted]
