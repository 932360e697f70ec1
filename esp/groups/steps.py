"""Work that takes long, in steps: generators that yield after each of some microseconds, so that their caller goes on when there is time.

Cores make them, and remain pure: the caller says how many steps are taken at once, and what has changed in between is for the work to
look at.
"""

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Final, Generic, TypeVar

STEP_ITEMS: Final = 16
"""Things that are looked at in one step: members, partitions or topics."""

Item = TypeVar("Item")
Result = TypeVar("Result")

Steps = Generator[None, None, Result]
"""Work that yields after each step."""


def in_steps(items: Iterable[Item], size: int = STEP_ITEMS) -> Iterator[tuple[Item, ...]]:
    """The items in their order, so many at a time as one step looks at."""
    rest = iter(items)
    while some := tuple(islice(rest, size)):
        yield some


class SteppedWork(Generic[Result]):
    """Work of which some steps are done.

    Args:
        steps: the work.
    """

    def __init__(self, steps: Steps[Result]) -> None:
        self._steps = self._run(steps)
        self._results: list[Result] = []

    def go_on(self, steps_max: int) -> bool:
        """Take so many steps at most; True if the work is done. Raises what the work raises."""
        for _ in islice(self._steps, steps_max):
            pass
        return bool(self._results)

    @property
    def result(self) -> Result:
        """The result of work that is done."""
        return self._results[0]

    def _run(self, steps: Steps[Result]) -> Steps[None]:
        self._results.append((yield from steps))
