"""Work beside the loop, in threads: for code that releases the interpreter lock, as compression, checksums and file reads do."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class ThreadCpu:
    """See :class:`esp.ports.cpu.Cpu`.

    Args:
        threads: how many calls run at a time; by default one per processor, and two at least, as one of them may wait for a device.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._pool = ThreadPoolExecutor(threads or max(2, os.cpu_count() or 1), thread_name_prefix="cpu")

    async def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """See :class:`esp.ports.cpu.Cpu`."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(function, *args, **kwargs))
