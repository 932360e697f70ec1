"""The work of a coordinator that takes too long to be done at once: it goes on in slices, between which requests are served."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from esp.groups.steps import SteppedWork
from esp.model.now import Now

SLICE_STEPS: Final = 8
"""Steps of one slice: some tens of microseconds."""

Result = TypeVar("Result")


class _Task(NamedTuple):
    work: SteppedWork[Any]
    on_done: Callable[[Any, Now], None]


class Backlog:
    """Works by their keys; the one that was added first is done first."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, str], _Task] = {}
        self.now = Now(0, 0)
        """The time of the slice that is being done."""

    def __contains__(self, key: tuple[str, str]) -> bool:
        """True if the work of this key is not done."""
        return key in self._tasks

    @property
    def is_empty(self) -> bool:
        """True if nothing is left to be done."""
        return not self._tasks

    def add(self, key: tuple[str, str], work: SteppedWork[Result], on_done: Callable[[Result, Now], None]) -> None:
        """Have work done, after what is to be done before; instead of that of the same key.

        Args:
            key: a kind of work, and the id of the group that it is for.
            work: looks at each step whether it is still wanted.
            on_done: called with its result.
        """
        self._tasks.pop(key, None)
        self._tasks[key] = _Task(work, on_done)

    def go_on(self, now: Now) -> None:
        """Do one slice."""
        self.now = now
        for key, task in self._tasks.items():
            if task.work.go_on(SLICE_STEPS):
                del self._tasks[key]
                task.on_done(task.work.result, now)
            return
