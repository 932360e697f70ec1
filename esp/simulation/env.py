"""The simulated outside of one node, and the small seams that need no module of their own: randomness, work off the loop, the host."""

import asyncio
import uuid
from collections.abc import Callable
from random import Random
from typing import Final, NoReturn, ParamSpec, TypeVar

from esp.ports.env import Env
from esp.simulation.clock import SimulatedClock
from esp.simulation.disk import SimulatedDisk
from esp.simulation.disk_faults import Operation
from esp.simulation.loop import Process, ProcessEndedError, SimulatedLoop
from esp.simulation.network import SimulatedNetwork

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_WORK_US_MAX: Final = 2_000
_DEVICE_US_MAX: Final = 5_000


class SeededRandom:
    """See :class:`esp.ports.random.Random`: the same numbers in every run."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def below(self, limit: int) -> int:
        """See :class:`esp.ports.random.Random`."""
        return self._rng.randrange(limit)

    def uuid(self) -> uuid.UUID:
        """See :class:`esp.ports.random.Random`."""
        while True:
            value = uuid.UUID(int=self._rng.getrandbits(128), version=4)
            if value.bytes[0] >> 2 != 0b111110:
                return value


class InlineCpu:
    """See :class:`esp.ports.cpu.Cpu`: work is done at one moment somewhere between the call and its return, which take time."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    async def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """See :class:`esp.ports.cpu.Cpu`."""
        await self._wait()
        try:
            return function(*args, **kwargs)
        finally:
            await self._wait()

    async def _wait(self) -> None:
        await asyncio.sleep(self._rng.randrange(_WORK_US_MAX) / 1_000_000)


class SimulatedHost:
    """See :class:`esp.ports.host.Host`: a fatal error ends the process."""

    def __init__(self, process: Process) -> None:
        self.boot_id = "simulated"
        self.name = "localhost"
        self._process = process

    def fatal(self, reason: str) -> NoReturn:
        """See :class:`esp.ports.host.Host`."""
        self._process.end(reason)
        raise ProcessEndedError(reason)


def simulated_disk(loop: SimulatedLoop, rng: Random) -> SimulatedDisk:
    """A disk whose device takes its time; it outlives the processes that use it."""

    async def wait(_operation: Operation, _size: int) -> None:
        await asyncio.sleep(rng.randrange(_DEVICE_US_MAX) / 1_000_000)

    return SimulatedDisk(rng, now_ms=SimulatedClock(loop).wall_ms, wait=wait)


def simulated_env(
    loop: SimulatedLoop, rng: Random, process: Process, disk: SimulatedDisk, network: SimulatedNetwork
) -> Env:
    """The outside of the node that lives in ``process``. The disk is that process's alone: where it kills, the process ends.

    Args:
        loop: the simulation's.
        rng: the node's own stream of randomness.
        process: ends with a fatal error of the node.
        disk: what an earlier process left on it, it still holds.
        network: shared by all.
    """
    disk.faults.on_killed = lambda: process.end("killed while it changed the disk")
    return Env(
        clock=SimulatedClock(loop),
        random=SeededRandom(rng),
        network=network,
        disk=disk,
        cpu=InlineCpu(rng),
        host=SimulatedHost(process),
    )
