"""One fetch request for very many partitions: looked at and answered in slices, in turns with other long requests.

It waits as others do (:mod:`esp.broker.data_path.pending_fetch`). If more is committed during a look, another look follows.
"""

from esp.broker.data_path.pending_fetch import PendingFetch
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.request import Request
from esp.broker.tasks import Tasks
from esp.broker.turns.turns import Turns
from esp.ports.clock import Clock, Timer
from esp.protocol.progress import SLICE_ELEMENTS


class LongFetch:
    """One fetch request that is answered in slices.

    Args:
        fetch: the partitions that are to be read, and the answer's limits.
        request: the request that is to be answered.
        clock: for the time that it may wait.
        tasks: the tasks in which later looks run.
        turns: gives it its turns.
    """

    def __init__(self, fetch: PendingFetch, request: Request, clock: Clock, tasks: Tasks, turns: Turns) -> None:
        self._fetch = fetch
        self._request = request
        self._clock = clock
        self._tasks = tasks
        self._turns = turns
        self._parked_on: dict[HostedPartition, None] = {}
        self._timer: Timer | None = None
        self._is_looking = True
        self._has_news = self._is_late = False

    async def begin(self, max_wait_ms: int) -> None:
        """Look for the first time; answer, if there is enough or no time to wait. The connection goes on then."""
        if self._request.is_abandoned:  # its callback for that would not be called again
            return
        self._request.on_abandoned = self._stop_waiting
        self._is_late = max_wait_ms <= 0
        if not self._is_late:
            self._timer = self._clock.call_later_us(max_wait_ms * 1000, self._time_out)
            await self._park()
        await self._look()
        self._request.client.hold.end()

    async def _park(self) -> None:
        for done, hosted in enumerate(self._fetch.replicas()):
            if done % SLICE_ELEMENTS == SLICE_ELEMENTS - 1:
                await self._turns.wait()
                if self._request.is_abandoned:
                    return
            self._parked_on[hosted] = None
            hosted.wait(self._on_news)

    def _on_news(self) -> None:
        self._has_news = True
        self._look_soon()

    def _time_out(self) -> None:
        self._is_late = True
        self._look_soon()

    def _look_soon(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._tasks.start(self._look(), name="long fetch")

    async def _look(self) -> None:
        is_enough = False
        while not is_enough and not self._request.is_abandoned:
            self._has_news = False
            was_late = self._is_late
            is_enough = await self._fetch.read_slowly(self._turns) or was_late
            if not (is_enough or self._has_news or self._is_late):
                self._is_looking = False
                return
        if not self._request.is_abandoned:
            self._stop_waiting()
            buffers = await self._turns.run(self._fetch.encode_in_slices())
            self._request.reply(buffers)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None  # it refers to this
        for hosted in self._parked_on:
            hosted.forget(self._on_news)
        self._parked_on.clear()
