"""Threads beside the loop of a simulated process: jobs that take time, and between whose operations on the disk the loop goes on.

A job is a greenlet: an own stack in the one thread of the simulation, which runs until its next operation on the disk, or until that
operation waits for the device, and goes on at a later moment of virtual time. In between its process does other things, and so do its
other jobs. As threads of a pool do, a job goes on after its waiter has gone, and one that no thread has begun ends with its waiter.
Jobs end with their process: none of their operations that were still to come ever happens.

Between two operations on the disk a job runs at one moment. That is less than what threads do, which overlap at any instruction.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final, ParamSpec, TypeVar, cast

from greenlet import greenlet

from esp.simulation.machine.disk_faults import Operation, ProcessKilledError
from esp.simulation.machine.loop import Process, ProcessEndedError, SimulatedLoop

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_WORK_US_MAX: Final = 2_000
_STEP_US_MAX: Final = 300
_LATE_US_MAX: Final = 300_000
_LATE_SHARE: Final = 0.0005
"""The share of the steps of a job at which the thread gets no processor for a while."""

_LATE_BEGIN_SHARE: Final = 0.02
"""The share of the jobs that begin late."""


@dataclass(frozen=True, slots=True)
class WorkerProfile:
    """The behaviour of the threads of a run's nodes."""

    threads: int = 2
    """The number of jobs that run at a time, as in a node on two processors."""
    interrupted_share: float = 0.3
    """The share of the operations on the disk, other than syncs (they always take time), before which the loop goes on."""

    @classmethod
    def draw(cls, rng: Random) -> "WorkerProfile":
        """A profile by seed."""
        return cls(threads=rng.choice((2, 2, 4)), interrupted_share=rng.choice((0.02, 0.3, 1.0)))


DEFAULT_WORKERS: Final = WorkerProfile()


@dataclass(slots=True, eq=False)
class _Job:
    function: Callable[[], Any]
    waiter: asyncio.Future[Any]
    stack: greenlet | None = None


class Workers:
    """See :class:`esp.ports.cpu.Cpu`: the threads of one process.

    Args:
        loop: the simulation's.
        rng: decides when jobs go on; its own stream.
        process: whose threads they are.
        profile: how they behave.
        device_us: how long the device takes for a sync, in microseconds.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        rng: Random,
        process: Process,
        profile: WorkerProfile | None = None,
        device_us: Callable[[], int] = lambda: 0,
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._process = process
        self._profile = profile or DEFAULT_WORKERS
        self._device_us = device_us
        self._context = process.worker_context()
        self._queue: deque[_Job] = deque()
        self._begun: dict[_Job, None] = {}
        """The jobs that hold a thread, in the order in which they began."""
        self._running: _Job | None = None
        self._ended: asyncio.Future[None] | None = None
        """Set when the next job ends, if a caller waits for that."""
        loop.at_close(self._end_all)

    async def until_idle(self) -> None:
        """Return when no job is left."""
        while self._begun or self._queue:
            self._ended = self._loop.create_future()
            await self._ended

    async def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """See :class:`esp.ports.cpu.Cpu`."""
        waiter: asyncio.Future[Result] = self._loop.create_future()
        self._queue.append(_Job(partial(function, *args, **kwargs), waiter))
        self._begin_next()
        return await waiter

    def allocate(self, size: int) -> memoryview:
        """See :class:`esp.ports.cpu.Cpu`."""
        return memoryview(bytearray(size))

    run_waiting = run

    def on_operation(self, operation: Operation | None) -> bool:
        """The running code is about to do something on the disk, None: look at it, or waits for the device (``sync``).

        If a job does, its process goes on meanwhile; return whether it was one. Code that looks at the disk from outside is no job.
        """
        job = self._running
        if job is None or not self._process.alive:
            return False
        if operation == "sync":
            delay_us = self._device_us()
        elif self._rng.random() < self._profile.interrupted_share:
            delay_us = self._rng.randrange(_STEP_US_MAX)
        else:
            return True
        assert job.stack is not None
        assert job.stack.parent is not None
        job.stack.parent.switch(delay_us)
        return True

    def _begin_next(self) -> None:
        while self._queue and len(self._begun) < self._profile.threads:
            job = self._queue.popleft()
            if not job.waiter.cancelled():
                self._begun[job] = None
                self._go_on_later(job, self._rng.randrange(_WORK_US_MAX), _LATE_BEGIN_SHARE)

    def _go_on_later(self, job: _Job, delay_us: int, late_share: float = _LATE_SHARE) -> None:
        if self._rng.random() < late_share:
            delay_us += self._rng.randrange(_LATE_US_MAX)
        self._loop.call_later(delay_us / 1_000_000, self._go_on, job, context=self._context)

    def _go_on(self, job: _Job) -> None:
        """Run a job up to its next stop, in a turn of the loop of its own."""
        if job.stack is None:
            job.stack = greenlet(job.function)
            job.stack.gr_context = self._context.copy()
        job.stack.parent = greenlet.getcurrent()
        self._running = job
        result, error = None, None
        try:
            result = job.stack.switch()
        except Exception as raised:
            error = raised
        except ProcessKilledError as killed:
            if not job.waiter.done():
                job.waiter.set_exception(killed)  # of interest outside only: in the process no code hears of it
            raise
        finally:
            self._running = None
        if not job.stack.dead:
            self._go_on_later(job, cast("int", result))
            return
        delay_s = self._rng.randrange(_WORK_US_MAX) / 1_000_000
        self._loop.call_later(delay_s, self._end, job, result, error, context=self._process.context)

    def _end(self, job: _Job, result: object, error: Exception | None) -> None:
        del self._begun[job]
        self._begin_next()
        if self._ended is not None:
            self._ended.set_result(None)
            self._ended = None
        if job.waiter.done():
            return
        if error is None:
            job.waiter.set_result(result)
        else:
            job.waiter.set_exception(error)

    def _end_all(self) -> None:
        """The simulation is over: whatever a job would still do no longer matters."""
        for job in self._begun:
            if job.stack is not None and not job.stack.dead:
                job.stack.parent = greenlet.getcurrent()
                while not job.stack.dead:  # what it does in a "finally" may stop it again
                    try:
                        job.stack.throw(ProcessEndedError)
                    except BaseException:
                        break
        self._begun.clear()
