"""An event loop on virtual time, and the simulated processes that live on it.

The loop runs what is ready, first in, first out, and then jumps to the next timer: nothing waits, and the same program gives the same
run. There is no selector and no thread. Tasks, locks and queues are asyncio's own.

A :class:`Process` ends as ``kill -9`` ends one: nothing that belongs to it runs any more, no ``finally`` and no handler of an error.
It may also be paused, as by a garbage collection, SIGSTOP or a frozen virtual machine: what it has to do piles up and is done in one burst
later. What belongs to it is told by a context variable, which tasks, timers and callbacks inherit.

Its loop may be held up, too (:mod:`esp.simulation.machine.processor`): as in a pause, but its worker threads go on.
"""

import asyncio
import contextlib
import contextvars
import heapq
import warnings
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

STEPS_MAX: Final = 5_000_000
"""Callbacks of one run: more than any scenario needs, and a few seconds for one that runs in circles."""

DAY_S: Final = 86_400.0


class StuckError(Exception):
    """The simulation cannot end, or does not; the message names what every task waits for."""


class ProcessEndedError(BaseException):
    """The process ends here (raised inside it), or has ended (raised to the code that waited for it).

    Not an ``Exception``, so that no handler of the code under test takes it for an error that it could live with.
    """


class Processor(Protocol):
    """Decides how long the turns of a process's loop take."""

    ahead_s: float
    """The time that the present turn has taken so far, in seconds."""

    def end_turn(self) -> float:
        """A turn of the loop is over; return how many seconds it took in all."""


class Process:
    """One simulated process; made by :meth:`SimulatedLoop.new_process`.

    Args:
        loop: that it lives on.
        name: for reports.
    """

    def __init__(self, loop: "SimulatedLoop", name: str) -> None:
        self.name = name
        self.alive = True
        self.end_reason = ""
        """The reason for which it ended, once it has."""
        self.is_paused = False
        self.is_busy = False
        """True if its loop's thread is still at work with the last turn."""
        self.processor: Processor | None = None
        """Says how long turns take; None: no time at all."""
        self.held: list[asyncio.Handle] = []
        """The handles that became due while it was paused or busy, oldest first."""
        self.context = contextvars.copy_context()
        """Its own: callbacks that are given it belong to the process."""
        self._loop = loop
        self._at_end: list[Callable[[], None]] = []
        self._waiting: list[asyncio.Future[None]] = []
        self.context.run(_CURRENT.set, self)

    async def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run ``coroutine`` in the process, and return what it does.

        Raises:
            ProcessEndedError: the process ended first, or before the call.
        """
        if not self.alive:
            coroutine.close()
            raise ProcessEndedError(f"{self.name}: {self.end_reason}")
        task = self._loop.create_task(coroutine, context=self.context.copy())
        over = self._loop.create_future()
        self._waiting.append(over)
        task.add_done_callback(lambda _task: _settle(over))
        await over
        self._waiting.remove(over)
        if not self.alive:
            raise ProcessEndedError(f"{self.name}: {self.end_reason}")
        return task.result()

    def at_end(self, callback: Callable[[], None]) -> None:
        """Call ``callback``, of the world outside, when the process ends; callbacks are called in the order in which they came."""
        self._at_end.append(callback)

    def pause(self) -> None:
        """Let nothing of it run until :meth:`resume`."""
        self.is_paused = True

    def resume(self) -> None:
        """Go on with everything that became due meanwhile, in that order."""
        self.is_paused = False
        if not self.is_busy:
            self._loop.run_held(self)

    def be_busy(self, seconds: float) -> None:
        """Let nothing of it run for so long but its worker threads, and then everything that became due meanwhile."""
        self.is_busy = True
        self._loop.call_later(seconds, self._end_busy, context=_OUTSIDE)

    def _end_busy(self) -> None:
        self.is_busy = False
        if not self.is_paused:
            self._loop.run_held(self)

    @property
    def ahead_s(self) -> float:
        """The seconds by which the end of what its loop does now is later than virtual time shows."""
        return self.processor.ahead_s if self.processor is not None else 0.0

    def worker_context(self) -> contextvars.Context:
        """A context for what the process does beside its loop."""
        context = self.context.copy()
        context.run(_IS_WORKER.set, True)
        return context

    def end(self, reason: str) -> None:
        """End the process, from inside or outside; nothing happens when it has ended before."""
        if not self.alive:
            return
        self.alive = False
        self.end_reason = reason
        self.held.clear()
        self._loop.keep_remains()
        for callback in self._at_end:
            callback()
        for future in self._waiting:
            _settle(future)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


_CURRENT: Final[contextvars.ContextVar[Process | None]] = contextvars.ContextVar("process", default=None)


_IS_WORKER: Final[contextvars.ContextVar[bool]] = contextvars.ContextVar("is_worker", default=False)

_OUTSIDE: Final = contextvars.Context()
"""The context of callbacks that belong to no process."""


def current_process() -> Process | None:
    """The process that the running code belongs to; None for the world outside: tests, clients, the faults themselves."""
    return _CURRENT.get()


class _Handle(asyncio.Handle):
    """A callback that is ready; as asyncio's own, made in fewer steps: a run makes one for each callback."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class _Timer(asyncio.TimerHandle):
    """A callback that becomes ready; as asyncio's own, made, cancelled and compared in fewer steps.

    Timers are compared only where they are due at one moment: none comes before another then.
    """

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = True

    def cancel(self) -> None:
        """See :class:`asyncio.TimerHandle`. The loop drops it when it comes up."""
        self._cancelled = True
        self._callback = self._args = None  # type: ignore[assignment]  # as asyncio does: nothing runs it

    def __lt__(self, _other: object) -> bool:
        return False

    __eq__ = object.__eq__
    __hash__ = object.__hash__


class SimulatedLoop(asyncio.BaseEventLoop):
    """The loop. Errors that are not handled end :meth:`run` with that error, unless their process has ended."""

    _closed: bool
    _stopping: bool
    _ready: "deque[asyncio.Handle]"
    _scheduled: list[tuple[float, asyncio.TimerHandle]]  # asyncio's own code only empties it

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        """Callbacks that were run: equal for equal runs."""
        self.steps_max = STEPS_MAX
        self.on_turn: Callable[[dict[Process, None]], None] | None = None
        """Called after each turn with the processes that did something in it; nothing else has happened since."""
        self._now_s = 0.0
        self._limit_s = DAY_S
        self._running: Process | None = None
        self._unhandled: BaseException | None = None
        self._remains: list[asyncio.Task[Any]] = []
        self._touched: dict[Process, None] = {}
        self._at_close: list[Callable[[], None]] = []

    def new_process(self, name: str) -> Process:
        """A process in which nothing runs yet."""
        return Process(self, name)

    def run(self, main: Coroutine[Any, Any, Result], *, limit_s: float = DAY_S) -> Result:
        """Run ``main`` and close the loop.

        Raises:
            StuckError: nothing is left that could happen, or ``main`` is not done after ``limit_s`` seconds of virtual time.
        """
        self._limit_s = limit_s
        asyncio.set_event_loop(None)  # no code may find another loop than the running one
        try:
            return self.run_until_complete(main)
        finally:
            self.close()

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now_s

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """See :class:`asyncio.AbstractEventLoop`.

        The heap holds pairs, which compare without a call of Python code: it is full of time-outs that were cancelled.
        """
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, (when, timer))
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """See :class:`asyncio.AbstractEventLoop`."""
        when = self._now_s + delay
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, (when, timer))
        return timer

    def call_soon(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """See :class:`asyncio.AbstractEventLoop`."""
        if self._closed:
            raise RuntimeError("the loop is closed")
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def close(self) -> None:
        """End what is left: only now do coroutines of dead processes run their ``finally``, where it no longer matters."""
        if self.is_closed():
            return
        self.keep_remains()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # what they would have awaited next never is
            self._close_remains()
        super().close()

    def at_close(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the loop is closed, before the coroutines of the dead end."""
        self._at_close.append(callback)

    def _close_remains(self) -> None:
        for callback in self._at_close:
            callback()
        self._at_close.clear()
        for task in self._remains:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001  # asyncio's own way to say that this is no accident
            coroutine = task.get_coro()
            assert coroutine is not None
            with contextlib.suppress(BaseException):
                coroutine.close()
        self._remains.clear()

    def run_held(self, process: Process) -> None:
        """Make ready what a paused process could not do."""
        self._ready.extend(process.held)
        process.held.clear()

    def keep_remains(self) -> None:
        """Keep unfinished tasks from the garbage collector, which would run their ``finally``."""
        self._remains.extend(task for task in asyncio.all_tasks(self) if task not in self._remains)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Remember an error that was not handled. The end of a process is none, nor what happens in the step that ended it."""
        error = context.get("exception") or RuntimeError(context.get("message"))
        if isinstance(error, Exception) and (self._running is None or self._running.alive):
            self._unhandled = self._unhandled or error

    def run_in_executor(self, *_: Any) -> Any:  # type: ignore[override]  # refused whatever the arguments
        """There are no threads here."""
        raise NotImplementedError("simulated code reaches threads through the Cpu seam")

    def _run_once(self) -> None:
        """Run turn after turn, until the loop is to stop."""
        ready, scheduled = self._ready, self._scheduled
        while True:
            if not ready:
                while scheduled and scheduled[0][1]._cancelled:  # noqa: SLF001  # a loop looks into handles; the method costs a call
                    heapq.heappop(scheduled)
                if not scheduled:
                    raise StuckError(f"nothing is left that could happen\n{self._report()}")
                self._now_s = max(self._now_s, scheduled[0][0])
                if self._now_s > self._limit_s:
                    raise StuckError(f"not done after {self._limit_s} s of virtual time\n{self._report()}")
            now_s = self._now_s
            while scheduled and scheduled[0][0] <= now_s:
                ready.append(heapq.heappop(scheduled)[1])
            self._run_ready(len(ready))
            if self.steps > self.steps_max:
                raise StuckError(f"not done after {self.steps} steps\n{self._report()}")
            if self._stopping:
                return

    def _run_ready(self, count: int) -> None:
        ready, touched = self._ready, self._touched
        for _ in range(count):
            handle = ready.popleft()
            if handle._cancelled:  # noqa: SLF001  # a loop runs handles
                continue
            process = self._running = handle._context.get(_CURRENT)  # type: ignore[attr-defined]  # noqa: SLF001  # as above
            if process is not None:
                if not process.alive:
                    continue
                if process.is_paused or (
                    process.is_busy and not handle._context.get(_IS_WORKER)  # type: ignore[attr-defined]  # noqa: SLF001  # as above
                ):
                    process.held.append(handle)
                    continue
                touched[process] = None
            self.steps += 1
            try:
                handle._context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]  # noqa: SLF001  # as above
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as raised:
                self.call_exception_handler({"exception": raised})
            if self._unhandled is not None:
                error, self._unhandled = self._unhandled, None
                raise error
        self._running = None
        if touched:
            if self.on_turn is not None:
                self.on_turn(touched)
            for process in touched:
                if process.processor is not None and process.alive and not process.is_busy:
                    took_s = process.processor.end_turn()
                    if took_s:
                        process.be_busy(took_s)
            touched.clear()

    def _write_to_self(self) -> None:
        """Do nothing: no thread sleeps in a selector."""

    def _report(self) -> str:
        lines = []
        for task in sorted(asyncio.all_tasks(self), key=lambda task: task.get_name()):
            stack = task.get_stack(limit=1)
            where = f"{stack[0].f_code.co_qualname}, line {stack[0].f_lineno}" if stack else "not begun"
            lines.append(f"  {task.get_name()}: {where}")
        return "\n".join(lines) or "  no task waits"
