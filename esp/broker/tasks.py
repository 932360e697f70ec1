"""The node's background coroutines.

A task that fails is a bug of ours: it stops the node, since the work that it left undone is unknown. Tasks are kept in the order in which
they were started, so that shutting down is the same in every run.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from esp.ports.host import Host

log = logging.getLogger(__name__)


class Tasks:
    """Starts coroutines, and ends what is left of them at shutdown."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._running: dict[asyncio.Task[None], None] = {}
        self._has_new = False
        """True if a task was started that may not have begun yet."""
        self.around: Callable[[Coroutine[Any, Any, None]], Coroutine[Any, Any, None]] | None = None
        """Makes the coroutine that is run instead of one that is started now for a request, whose time is counted in its tasks too."""

    def start(self, coroutine: Coroutine[Any, Any, None], *, name: str, for_request: bool = False) -> None:
        """Run ``coroutine`` beside everything else.

        Args:
            coroutine: what is run.
            name: for the log.
            for_request: whether all of it is work for the request that is being handled.
        """
        if for_request and self.around is not None:
            coroutine = self.around(coroutine)
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._running[task] = None
        self._has_new = True
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            log.critical("task %s failed", task.get_name(), exc_info=error)
            self._host.fatal(f"task {task.get_name()} failed: {error!r}")

    async def stop(self) -> None:
        """Cancel what still runs and wait for its end.

        Tasks that were started in this round of the loop begin first, also by requests that come while others end: a coroutine that was
        never awaited would cause a warning.
        """
        self._has_new = True
        while self._has_new or self._running:
            if self._has_new:
                self._has_new = False
                await asyncio.sleep(0)
                continue
            task = next(iter(self._running))
            del self._running[task]
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
