"""A crew does the work of a runner: it reads partitions, and writes files. Here it is some threads of the runner's process."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol

from esp.capture.partition_capture import Commit, FileTerms, PartitionCapture
from esp.capture.plan import CapturePlan
from esp.capture.position import Position
from esp.consumer.messages import Partition

_TURN_S: Final = 1.0
"""The time for which a thread reads one partition before it takes another."""


@dataclass(frozen=True, slots=True)
class Task:
    """The work of a crew.

    Attributes:
        plan: the capture; schemas of its values are those of all files that the runner makes.
        files: the terms of files.
        commit: called with each file that is whole, by one thread at a time for each partition.
        warn: called with a line about what is no error.
        stop: set when the runner is to end.
    """

    plan: CapturePlan
    files: FileTerms
    commit: Commit
    warn: Callable[[str], None]
    stop: threading.Event


class Crew(Protocol):
    """A crew."""

    def begin(self, partition: Partition, position: Position) -> None:
        """Capture a partition from its position on, besides those that were given before."""

    def capture(self, ends: Mapping[Partition, int]) -> bool:
        """Do a round: read partitions on towards their ends, and commit the files that are whole; False if nothing was to do.

        With ``--once`` the round is the only one, and goes up to the ends.

        Raises:
            ConsumerError: records cannot be read, or a file cannot be committed.
        """

    def finish(self) -> None:
        """Commit what was read.

        Raises:
            ConsumerError: that is not possible.
        """

    def discard(self) -> None:
        """Forget what was read and not committed."""

    def close(self) -> None:
        """End, when all is finished or discarded."""


class LocalCrew:
    """Threads of this process, which hold files open from round to round.

    Args:
        task: the work.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._parts: dict[Partition, PartitionCapture] = {}
        self._pool = ThreadPoolExecutor(task.plan.threads, "capture")

    def begin(self, partition: Partition, position: Position) -> None:
        """See :class:`Crew`."""
        task = self._task
        self._parts[partition] = PartitionCapture(
            partition,
            position.topic_id,
            position.offset,
            position.offset,
            task.files,
            task.commit,
            task.plan.servers,
            task.plan.terms,
            task.warn,
        )

    def capture(self, ends: Mapping[Partition, int]) -> bool:
        """See :class:`Crew`."""
        behind = [part for partition, part in self._parts.items() if part.offset < ends[partition]]
        until_s = inf if self._task.plan.is_once else time.monotonic() + _TURN_S
        self._in_threads([_turn(part, ends[part.partition], until_s, self._task.stop) for part in behind])
        if not self._task.plan.is_once:
            self._in_threads([part.close_due for part in self._parts.values()])
        return bool(behind)

    def finish(self) -> None:
        """See :class:`Crew`."""
        self._in_threads([part.close for part in self._parts.values()])

    def discard(self) -> None:
        """See :class:`Crew`."""
        self._task.stop.set()
        self._pool.shutdown()
        for part in self._parts.values():
            with suppress(OSError):  # the next start removes it
                part.discard()

    def close(self) -> None:
        """See :class:`Crew`."""
        self._pool.shutdown()

    def _in_threads(self, works: Sequence[Callable[[], None]]) -> None:
        """Do some works, and raise the error of the first that has one."""
        for future in [self._pool.submit(work) for work in works]:
            future.result()


def _turn(part: PartitionCapture, end: int, until_s: float, stop: threading.Event) -> Callable[[], None]:
    return lambda: part.read(end, until_s, stop)
