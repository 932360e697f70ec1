"""Work that takes long, in steps: generators that yield after each of some microseconds, so that their caller goes on when there is time.

Cores make them, and remain pure: the caller says how many steps are taken at once, and what has changed in between is for the work to
look at.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import Final, Generic, TypeVar

STEP_ITEMS: Final = 16
"""Things that are looked at in one step: members, partitions or topics."""

RESTARTS_MAX: Final = 2
"""The times that work begins again whose basis changes."""

Item = TypeVar("Item")
Basis = TypeVar("Basis")
Result = TypeVar("Result")

Steps = Generator[None, None, Result]
"""Work that yields after each step."""


def in_steps(items: Iterable[Item], size: int = STEP_ITEMS) -> Iterator[tuple[Item, ...]]:
    """The items in their order, so many at a time as one step looks at."""
    rest = iter(items)
    while some := tuple(islice(rest, size)):
        yield some


def on_a_basis(
    find_basis: Callable[[], Basis | None], begin: Callable[[], Steps[Result]]
) -> Steps[tuple[Basis, Result] | None]:
    """Work that begins again when its basis has changed, :data:`RESTARTS_MAX` times: then it is finished on the basis that it has.

    So work whose basis changes all the time has a result too.

    Args:
        find_basis: the basis as it is now, compared after each step; None if the work is not wanted any more.
        begin: the work, from its beginning.

    Returns:
        The basis on which the work is done, and its result; None if it is not wanted any more.
    """
    basis = find_basis()
    restarts = 0
    work = begin()
    while basis is not None:
        try:
            next(work)
        except StopIteration as end:
            return basis, end.value
        yield
        newer = find_basis()
        if newer is None:
            return None
        if newer != basis and restarts < RESTARTS_MAX:
            restarts += 1
            basis, work = newer, begin()
    return None


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
