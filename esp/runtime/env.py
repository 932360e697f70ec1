"""The real outside of a node: the machine's clocks and the loop's timers, randomness from the operating system, the machine itself and the
end of the process. Work beside the loop is done in threads: for code that releases the interpreter lock, as compression, checksums and file
reads do.
"""

import asyncio
import fcntl
import logging
import os
import platform
import resource
import secrets
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NoReturn, ParamSpec, TypeVar

from esp.ports.clock import Timer
from esp.ports.env import Env
from esp.runtime.asyncio_network import AsyncioNetwork
from esp.runtime.large_memory import large_memory
from esp.runtime.os_disk import OsDisk
from esp.runtime.worker_process import OsWorkerProcess

log = logging.getLogger(__name__)


EXIT_STATUS = 70
"""EX_SOFTWARE of sysexits.h: an internal error, so that a supervisor can distinguish it from a refused configuration."""

WAITING_THREADS: Final = 16
"""Threads of :meth:`ThreadCpu.run_waiting`."""
DESCRIPTORS: Final = 16_384
"""Open files and sockets that there is room for from the start: an eighth of a mebibyte."""


class SystemHost:
    """The machine and the process of this node (:class:`esp.ports.host.Host`)."""

    def __init__(self) -> None:
        self.boot_id = _boot_id()
        self.name = platform.node()

    def fatal(self, reason: str) -> NoReturn:
        """See :class:`esp.ports.host.Host`. Nothing runs after it: no ``finally``, no exit handler, no other thread's cleanup."""
        log.critical("stopping the node at once: %s", reason, exc_info=sys.exc_info()[0] is not None)
        logging.shutdown()
        os._exit(EXIT_STATUS)


def raise_open_files_limit() -> None:
    """Take all the open files that the system grants: each segment has three, each connection and each mapped region one.

    To be called before there are threads: with them the kernel makes its table larger in tens of milliseconds, in which nothing is served.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:  # macOS refuses an unlimited soft limit
            log.warning("the limit of open files stays at %d: %s", soft, error)
    _make_room_for_descriptors(min(DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[0]))


def _make_room_for_descriptors(count: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        os.close(fcntl.fcntl(null, fcntl.F_DUPFD_CLOEXEC, count - 1))
    except OSError as error:  # it will be made when it is needed
        log.debug("no room for %d descriptors: %s", count, error)
    finally:
        os.close(null)


def _boot_id() -> str:
    if sys.platform == "darwin":
        return subprocess.run(
            ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"], check=True, capture_output=True, text=True
        ).stdout.strip()
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class ThreadCpu:
    """A pool of threads (:class:`esp.ports.cpu.Cpu`).

    Args:
        threads: how many calls run at a time; by default one per processor, and two at least, as one of them may wait for a device.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._pool = ThreadPoolExecutor(threads or max(2, os.cpu_count() or 1), thread_name_prefix="cpu")
        # It has no threads until one is needed.
        self._waiting = ThreadPoolExecutor(WAITING_THREADS, thread_name_prefix="waiting")

    async def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """See :class:`esp.ports.cpu.Cpu`."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(function, *args, **kwargs))

    def allocate(self, size: int) -> memoryview:
        """See :class:`esp.ports.cpu.Cpu`."""
        return large_memory(size)

    async def run_waiting(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """See :class:`esp.ports.cpu.Cpu`."""
        return await asyncio.get_running_loop().run_in_executor(self._waiting, partial(function, *args, **kwargs))


class SystemRandom:
    """Random numbers from the operating system (:class:`esp.ports.random.Random`)."""

    def below(self, limit: int) -> int:
        """See :class:`esp.ports.random.Random`."""
        return secrets.randbelow(limit)

    def uuid(self) -> uuid.UUID:
        """See :class:`esp.ports.random.Random`.

        Kafka's reserved uuids are not of version 4. Base64 that starts with ``-`` would look like a flag on a command line; it comes of
        the first six bits 111110.
        """
        while True:
            value = uuid.uuid4()
            if value.bytes[0] >> 2 != 0b111110:
                return value


class SystemClock:
    """The machine's clocks and the loop's timers (:class:`esp.ports.clock.Clock`)."""

    def monotonic_us(self) -> int:
        """See :class:`esp.ports.clock.Clock`."""
        return time.monotonic_ns() // 1000

    def wall_ms(self) -> int:
        """See :class:`esp.ports.clock.Clock`."""
        return time.time_ns() // 1_000_000

    def call_later_us(self, delay_us: int, callback: Callable[[], None]) -> Timer:
        """See :class:`esp.ports.clock.Clock`."""
        return asyncio.get_running_loop().call_later(delay_us / 1_000_000, callback)

    async def sleep_us(self, delay_us: int) -> None:
        """See :class:`esp.ports.clock.Clock`."""
        await asyncio.sleep(delay_us / 1_000_000)


def real_env() -> Env:
    """Return the seams' real bodies, for a node that has the process to itself."""
    raise_open_files_limit()
    host, disk = SystemHost(), OsDisk()
    return Env(
        clock=SystemClock(),
        random=SystemRandom(),
        network=AsyncioNetwork(host),
        disk=disk,
        cpu=ThreadCpu(),
        host=host,
        worker_process=partial(OsWorkerProcess, disk),
    )
