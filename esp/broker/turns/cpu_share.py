"""A share of the threads for work that would hold up the loop, so that no one kind of work takes all of them."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from esp.ports.cpu import Cpu

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class CpuShare:
    """See :class:`esp.ports.cpu.Cpu`; a call that comes when all of the share is taken waits, in the order of coming.

    Args:
        cpu: the threads in which the work is done.
        at_a_time: the number of calls that run there at once.
    """

    def __init__(self, cpu: Cpu, at_a_time: int) -> None:
        self._cpu = cpu
        self._turns = asyncio.Semaphore(at_a_time)

    async def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """See :class:`esp.ports.cpu.Cpu`."""
        async with self._turns:
            return await self._cpu.run(function, *args, **kwargs)

    def allocate(self, size: int) -> memoryview:
        """See :class:`esp.ports.cpu.Cpu`."""
        return self._cpu.allocate(size)

    async def run_waiting(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """See :class:`esp.ports.cpu.Cpu`."""
        async with self._turns:
            return await self._cpu.run_waiting(function, *args, **kwargs)
