"""The simulated outside of one node, and the small seams that need no module of their own: randomness, the host."""

import asyncio
import uuid
from collections.abc import Callable, Iterable
from random import Random
from typing import Final, NoReturn

from esp.model.tls import TlsPolicy, TlsStatus
from esp.ports.env import Env
from esp.ports.network import Address, Connection, ConnectionOwner, Listener
from esp.simulation.machine.clock import SimulatedClock
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.disk_faults import Operation
from esp.simulation.machine.loop import Process, ProcessEndedError, SimulatedLoop, current_process
from esp.simulation.machine.network import SimulatedNetwork
from esp.simulation.machine.processor import LoopProcessor
from esp.simulation.machine.workers import Workers
from esp.simulation.streams import between, fork
from esp.simulation.trace import Trace

_DEVICE_US_MAX: Final = 5_000


class HostNetwork:
    """The network as one host's processes see it; see :class:`esp.ports.network.Network`."""

    def __init__(self, network: SimulatedNetwork, host: str) -> None:
        self._network = network
        self._host = host

    async def load_tls(self, policies: Iterable[TlsPolicy]) -> None:
        """See :class:`esp.ports.network.Network`."""
        assert not list(policies), "this network has plaintext only"

    async def reload_tls(self, policy: TlsPolicy, *, validate_only: bool) -> None:
        """See :class:`esp.ports.network.Network`."""
        raise AssertionError(f"this network has plaintext only, not {policy} ({validate_only=})")

    def tls_status(self) -> Iterable[TlsStatus]:
        """See :class:`esp.ports.network.Network`. Nothing is encrypted here."""
        return ()

    async def listen(
        self, address: Address, accept: Callable[[Connection], ConnectionOwner], tls: TlsPolicy | None = None
    ) -> Listener:
        """See :class:`esp.ports.network.Network`."""
        assert tls is None, "this network has plaintext only"
        return self._network.listen_at(self._host, address, accept)

    async def connect(
        self,
        address: Address,
        open_: Callable[[Connection], ConnectionOwner],
        timeout_us: int,
        tls: TlsPolicy | None = None,
    ) -> Connection:
        """See :class:`esp.ports.network.Network`."""
        assert tls is None, "this network has plaintext only"
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
    """The times that the device of a disk takes.

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

    def sync_us(self, rng: Random) -> int:
        """The time that a sync takes for whose end a thread waits."""
        return int(rng.randrange(_DEVICE_US_MAX) * self.slowness)


def simulated_disk(loop: SimulatedLoop, rng: Random, device: Device | None = None) -> SimulatedDisk:
    """A disk whose device takes its time; it outlives the processes that use it."""
    device = device or Device(rng, "disk", None)
    return SimulatedDisk(rng, now_ms=SimulatedClock(loop).wall_ms, wait=device.wait)


def _nothing(_name: str) -> None:
    """Do nothing."""


def _held_up(
    process: Process, workers: Workers, processor: LoopProcessor | None
) -> Callable[[Operation | None], object]:
    """The thread that an operation on the disk holds up: the one that does it, be it the loop's."""
    if processor is None:
        return workers.on_operation

    def on_operation(operation: Operation | None) -> None:
        if not workers.on_operation(operation) and current_process() is process:
            processor.on_operation(operation)

    return on_operation


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
    workers: Workers | None = None,
    processor: LoopProcessor | None = None,
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
        workers: the process's threads; without them, two.
        processor: says how long turns of its loop take; without it, no time at all.
    """
    workers = workers or Workers(loop, fork(rng), process)
    clock = clock or SimulatedClock(loop)
    clock.processor = process.processor = processor
    disk.on_operation = _held_up(process, workers, processor)
    disk.faults.on_killed = lambda: process.end("killed while it changed the disk")
    return Env(
        clock=clock,
        random=SeededRandom(rng),
        network=network if host is None else HostNetwork(network, host),
        disk=disk,
        cpu=workers,
        host=SimulatedHost(process, host or "localhost", boot_id),
        maybe=maybe,
    )
