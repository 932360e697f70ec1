"""Computations that would block the loop."""

from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Cpu(Protocol):
    """Runs functions beside the loop: a thread pool in production, inline at a simulated cost in the simulator."""

    async def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Call ``function`` off the loop and return, or raise, what it does. It must not touch what the loop may change meanwhile."""

    def allocate(self, size: int) -> memoryview:
        """Return so many bytes, all zero, for a large result of such a function, which calls this itself.

        They cost nothing until they are written to; to zero tens of mebibytes in Python would keep the interpreter from the loop for
        milliseconds.
        """

    async def run_waiting(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Run a function like :meth:`run` that mostly waits for devices: more of them run at once than there are processors."""
