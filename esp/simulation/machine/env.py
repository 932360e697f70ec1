"""The simulated outside of one node, and the small seams that need no module of their own: randomness, work off the loop, the host."""

import asyncio
import uuid
from collections.abc import Callable
from random import Random
from typing import Final, NoReturn, ParamSpec, TypeVar

from esp.ports.env import Env
from esp.ports.network import Address, Connection, ConnectionOwner, Listener
from esp.simulation.machine.clock import SimulatedClock
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.disk_faults import Operation
from esp.simulation.machine.loop import Process, ProcessEndedError, SimulatedLoop
from esp.simulation.machine.network import SimulatedNetwork
from esp.simulation.streams import between
from esp.simulation.trace import Trace

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_WORK_US_MAX: Final = 2_000
_DEVICE_US_MAX: Final = 5_000


class HostNetwork:
    """The network as one host's processes see it; see :class:`esp.ports.network.Network`."""

    def __init__(self, network: SimulatedNetwork, host: str) -> None:
        self._network = network
        self._host = host

    async def listen(self, address: Address, accept: Callable[[Connection], ConnectionOwner]) -> Listener:
        """See :class:`esp.ports.network.Network`."""
        return self._network.listen_at(self._host, address, accept)

    async def connect(
        self, address: Address, open_: Callable[[Connection], ConnectionOwner], timeout_us: int
    ) -> Connection:
        """See :class:`esp.ports.network.Network`."""
        return await self._network.connect_from(self._host, address, open_, timeout_us)


class SeededRandom:
    """See :class:`esp.ports.random.Random`: the same numbers in every run."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def below(self, limit: int) -> int:
        """See :class:`esp.ports.random.Random`."""
        return between(self._rng, 0, limit - 1)

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

    def __init__(self, process: Process, name: str, boot_id: str) -> None:
        self.boot_id = boot_id
        self.name = name
        self._process = process

    def fatal(self, reason: str) -> NoReturn:
        """See :class:`esp.ports.host.Host`."""
        self._process.end(reason)
        raise ProcessEndedError(reason)


class Device:
    """How long the device of a disk takes.

    Args:
        rng: decides each wait.
        name: for the trace.
        trace: takes what was waited for.
    """

    def __init__(self, rng: Random, name: str, trace: Trace | None) -> None:
        self.slowness = 1.0
        """Every wait is longer by this factor; assignable at any time."""
        self._rng = rng
        self._name = name
        self._trace = trace

    async def wait(self, operation: Operation, size: int) -> None:
        """Wait as long as an operation on ``size`` sectors, names or bytes takes."""
        if self._trace is not None:
            self._trace.count(operation, self._name, size)
        await asyncio.sleep(self._rng.randrange(_DEVICE_US_MAX) * self.slowness / 1_000_000)


def simulated_disk(loop: SimulatedLoop, rng: Random, device: Device | None = None) -> SimulatedDisk:
    """A disk whose device takes its time; it outlives the processes that use it."""
    device = device or Device(rng, "disk", None)
    return SimulatedDisk(rng, now_ms=SimulatedClock(loop).wall_ms, wait=device.wait)


def _nothing(_name: str) -> None:
    """Do nothing."""


def simulated_env(
    loop: SimulatedLoop,
    rng: Random,
    process: Process,
    disk: SimulatedDisk,
    network: SimulatedNetwork,
    *,
    host: str | None = None,
    clock: SimulatedClock | None = None,
    boot_id: str = "simulated",
    maybe: Callable[[str], None] = _nothing,
) -> Env:
    """The outside of the node that lives in ``process``. The disk is that process's alone: where it kills, the process ends.

    Args:
        loop: the simulation's.
        rng: the node's own stream of randomness.
        process: ends with a fatal error of the node.
        disk: what an earlier process left on it, it still holds.
        network: shared by all.
        host: the address of the machine; without it, the one that all share.
        clock: the machine's; without it, one that is right.
        boot_id: of the machine.
        maybe: called at the code's named points.
    """
    disk.faults.on_killed = lambda: process.end("killed while it changed the disk")
    return Env(
        clock=clock or SimulatedClock(loop),
        random=SeededRandom(rng),
        network=network if host is None else HostNetwork(network, host),
        disk=disk,
        cpu=InlineCpu(rng),
        host=SimulatedHost(process, host or "localhost", boot_id),
        maybe=maybe,
    )
