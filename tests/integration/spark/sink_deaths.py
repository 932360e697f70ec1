"""Deaths of a sink's tasks and driver at chosen moments, and tasks that wait for their speculative copies: the first process that comes to
the moment of an order obeys it.

Executors import this module too.
"""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyspark import TaskContext

from esp.consumer.messages import Api
from esp.sink import functions
from esp.sink import order as orders_of_batches
from tests.integration.sink_runs import KILLED, WatchedCluster

BEFORE_COMMIT: Final = "worker-before-commit"
IN_COMMIT: Final = "worker-in-commit"
AFTER_COMMIT: Final = "worker-after-commit"
AFTER_SINK: Final = "driver-after-sink"
HELD: Final = "worker-held"
"""A task waits before its commit until a speculative copy of it has fenced it."""

_MOMENTS: Final = {
    ("answered", "TxnOffsetCommit"): BEFORE_COMMIT,
    ("sent", "EndTxn"): IN_COMMIT,
    ("answered", "EndTxn"): AFTER_COMMIT,
}
_FENCES: Final = ("answered", "InitProducerId")
_HOLDING: Final = "holding"
_COPY: Final = "copy"
_COPIED: Final = "copied-"
_COPY_TIMEOUT_S: Final = 60.0
_ALLOWED: Final = "allowed"
_BEGUN: Final = "begun"


@dataclass(frozen=True, slots=True)
class Orders:
    """The orders of a run.

    Attributes:
        directory: where each is an empty file, which is removed when it is obeyed.
    """

    directory: str

    def place(self, name: str) -> None:
        """Have a process die at a moment of this name."""
        with open(self._path(name), "w"):
            pass

    def take(self, name: str) -> bool:
        """Return True if there is such an order, for one caller only."""
        try:
            os.unlink(self._path(name))
        except FileNotFoundError:
            return False
        return True

    def is_there(self, name: str) -> bool:
        """True if nobody has come to the order."""
        return os.path.exists(self._path(name))

    @property
    def is_held(self) -> bool:
        """True while a task is to be held, or waits for its copy."""
        return self.is_there(HELD) or self.is_there(_HOLDING)

    def hold(self, task: str, attempt: int) -> None:
        """Wait for a copy of a task, and count it; give up after a minute."""
        self._write(_HOLDING, f"{task} {attempt}")
        deadline = time.monotonic() + _COPY_TIMEOUT_S
        while not self.is_there(_COPY) and time.monotonic() < deadline:
            time.sleep(0.02)
        if self.take(_COPY):
            self.place(f"{_COPIED}{task}")
        self.take(_HOLDING)

    def note_attempt(self, task: str, attempt: int) -> None:
        """Tell the task that is held if this is a copy of it."""
        with suppress(FileNotFoundError):
            held, _, first = self._read(_HOLDING).partition(" ")
            if held == task and int(first) != attempt:
                self.place(_COPY)

    def copies(self) -> int:
        """The number of the copies that ran while their task was held."""
        return sum(name.startswith(_COPIED) for name in os.listdir(self.directory))

    def allow(self, batch: int) -> None:
        """Let the query go on up to a batch."""
        self._write(_ALLOWED, str(batch))

    def begin_when_allowed(self, batch: int) -> None:
        """Return when the query may run a batch."""
        while batch > int(self._read(_ALLOWED)):
            time.sleep(0.02)
        self._write(_BEGUN, str(batch))

    def begun(self) -> int:
        """The batch that the query began last; -1 for none."""
        return int(self._read(_BEGUN)) if self.is_there(_BEGUN) else -1

    def _write(self, name: str, text: str) -> None:
        with open(self._path(f"next-{name}"), "w") as file:
            file.write(text)
        os.replace(self._path(f"next-{name}"), self._path(name))

    def _read(self, name: str) -> str:
        with open(self._path(name)) as file:
            return file.read()

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)


@dataclass(frozen=True, slots=True)
class DyingTaskFunction(functions.TaskFunction):
    """The work of a task whose process dies if it is ordered to.

    Attributes:
        orders: of the run.
    """

    orders: Orders = Orders("")

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Do the work, or a part of it."""

        def obey(event: str, api: Api) -> None:
            if (event, api.name) == _FENCES:
                self.orders.note_attempt(*_this_task())
            moment = _MOMENTS.get((event, api.name))
            if moment == BEFORE_COMMIT and self.orders.take(HELD):
                self.orders.hold(*_this_task())
            if moment is not None and self.orders.take(moment):
                os._exit(KILLED)

        orders_of_batches.Cluster = lambda servers, terms, timeout_s: WatchedCluster(servers, terms, timeout_s, obey)  # type: ignore[assignment,misc]
        return functions.TaskFunction.__call__(self, batches)


@dataclass(frozen=True, slots=True)
class DyingRows:
    """Rows on their way to a sink of Spark's own, in a task whose process dies behind them if it is ordered to.

    Attributes:
        orders: of the run.
    """

    orders: Orders

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows."""
        yield from batches
        if any(self.orders.take(moment) for moment in _MOMENTS.values()):
            os._exit(KILLED)


def _this_task() -> tuple[str, int]:
    """The task that this process runs, and the number of its attempt."""
    context = TaskContext.get()
    assert context is not None, "a task runs"
    return f"{context.stageId()}-{context.partitionId()}", context.taskAttemptId()


def arm(orders: Orders) -> None:
    """Have this driver, and the tasks of its sinks, obey orders."""
    from esp.spark import batch_sink  # noqa: PLC0415 - executors do without PySpark's sessions

    whole = batch_sink.BatchSink.__call__

    def call(self: batch_sink.BatchSink, frame: Any, batch: int) -> None:
        orders.begin_when_allowed(batch)
        whole(self, frame, batch)
        if orders.take(AFTER_SINK):
            os.killpg(0, signal.SIGKILL)

    batch_sink.BatchSink.__call__ = call  # type: ignore[method-assign]
    batch_sink.TaskFunction = partial(DyingTaskFunction, orders=orders)  # type: ignore[misc,assignment]
