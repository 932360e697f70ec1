"""The work of tasks as functions that travel to executors. They load pyarrow when they are called, and say so where it is missing."""

import importlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from esp.executor.worker_process import ease_next_task
from esp.sink.order import BatchOrder


@dataclass(frozen=True, slots=True)
class TaskFunction:
    """A function of :mod:`esp.sink.task`, for batches of Arrow.

    Attributes:
        name: of the function.
        order: its last argument.
    """

    name: str
    order: BatchOrder

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Do the work. At its end the process is made ready for its next task.

        Raises:
            ModuleNotFoundError: a package is missing on this executor.
        """
        try:
            work = getattr(importlib.import_module("esp.sink.task"), self.name)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"the sink needs the package {error.name}, which {sys.executable} on this executor does not have: install numpy and "
                "pyarrow there, or name another Python in PYSPARK_PYTHON before the session is made",
                name=error.name,
            ) from error
        return _followed(work(batches, self.order))


def _followed(results: Iterator[Any]) -> Iterator[Any]:
    yield from results
    ease_next_task()
