"""One machine of a simulated cluster, with its disk, and the node that runs on it, through its lives."""

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Final

from esp.broker.app import BrokerNode
from esp.broker.limits import REAL_LIMITS, NodeLimits
from esp.controller.features import SUPPORTED_FEATURES
from esp.controller.image import FeatureRange
from esp.model.errors import OperatorError
from esp.ports.env import Env
from esp.settings.broker import BrokerSettings
from esp.simulation.machine.clock import SimulatedClock
from esp.simulation.machine.directory_tree import DirectoryTree
from esp.simulation.machine.env import Device, simulated_disk, simulated_env
from esp.simulation.machine.loop import Process, ProcessEndedError, SimulatedLoop
from esp.simulation.machine.network import SimulatedNetwork
from esp.simulation.machine.processor import LoopProcessor
from esp.simulation.machine.workers import Workers
from esp.simulation.nodes_tier.rot import Target, find_rotten
from esp.simulation.nodes_tier.timing_profile import TimingProfile
from esp.simulation.streams import fork
from esp.simulation.trace import Trace

STOPPED: Final = "stopped in order"
KILLED: Final = "killed"
POWER_LOST: Final = "lost power"
KILLED_IN_DISK: Final = "killed while it changed the disk"

DELIBERATE: Final = (STOPPED, KILLED, POWER_LOST, KILLED_IN_DISK)
"""Ends of a process that the simulator brought about, as opposed to those that the node chose."""


class SimulatedNode:
    """The disk stays, processes come and go.

    Args:
        loop: the simulation's.
        rng: this machine's own stream of randomness.
        network: shared by all.
        settings: the node's.
        host: the machine's address.
        clock_rate: how fast its clock goes.
        trace: takes what happens to it.
        maybe: called with this node at the code's named points.
        timing: how long what it computes takes.
        timing_rng: decides that; its own stream.
        limits: see there.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        rng: Random,
        network: SimulatedNetwork,
        settings: BrokerSettings,
        *,
        host: str,
        clock_rate: float,
        trace: Trace,
        maybe: Callable[["SimulatedNode", str], None],
        timing: TimingProfile,
        timing_rng: Random,
        limits: NodeLimits = REAL_LIMITS,
    ) -> None:
        self.node_id = settings.node_id
        self.name = f"node {settings.node_id}"
        self.host = host
        self.settings = settings
        self.limits = limits
        self.features: Mapping[str, FeatureRange] = SUPPORTED_FEATURES
        """The features of the release with which the next process starts; assignable at any time."""
        self.running_features = self.features
        """The features of the release of the present or the last process."""
        self.device = Device(fork(rng), self.name, trace)
        self.disk = simulated_disk(loop, fork(rng), self.device)
        self.clock = SimulatedClock(loop, clock_rate)
        self.process: Process | None = None
        self.broker: BrokerNode | None = None
        """The node's own object, of the present or the last process."""
        self.is_serving = False
        """True if it came up, and was not asked to go."""
        self.is_starting = False
        """True from the start of a process until it serves; a process that ended before leaves it so."""
        self.is_stopping = False
        """True if its process was asked to go."""
        self.lives = 0
        self.started_s = 0.0
        """The simulated time at which its present or last process started."""
        self._boots = 1
        self.disk_was_faulty = False
        """True if its disk failed or was full in this life: the node may end itself."""
        self.lost_of_member: str | None = None
        """The part of its member of the quorum that is gone from its disk, if any: the node may not take part with the rest."""
        self.damaged: dict[str, None] = {}
        """Directories of replicas from which files have vanished: the node may refuse to open them."""
        self.lost_identities: dict[str, bytes | None] = {}
        """Log directories whose ``meta.properties`` is not there, each with the copy that the operator has of it, if any."""
        self.rotten_at_start: list[Target] = []
        """The files that had rotted on its disk when this life began; the node may have cut some of it away since."""
        self.on_end: Callable[[SimulatedNode], None] = lambda _node: None
        """Called whenever its process ended, before anything else happens."""
        self.on_start: Callable[[SimulatedNode], None] = lambda _node: None
        """Called before each start of a process."""
        self.on_new_disk: Callable[[SimulatedNode], None] = lambda _node: None
        """Called when the machine got another disk."""
        self._loop = loop
        self._rng = rng
        self._network = network
        self._trace = trace
        self._maybe = maybe
        self._timing = timing
        self._timing_rng = timing_rng
        self._workers: Workers | None = None
        self._processor: LoopProcessor | None = None
        self._stalls = True

    @property
    def is_alive(self) -> bool:
        """True if its process runs, be it paused."""
        return self.process is not None and self.process.alive

    @property
    def end_reason(self) -> str:
        """The reason for which the last process ended."""
        return self.process.end_reason if self.process is not None else "never started"

    def format_disk(self, format_blocking: Callable[[Env, BrokerSettings], None]) -> None:
        """Let ``format_blocking`` write what a node's disk must hold before its first start."""
        process = self._loop.new_process(f"{self.name}, format")
        format_blocking(self._env(process), self.settings)
        process.end(STOPPED)
        self.disk.crash()

    def calm(self) -> None:
        """Let nothing hold up its loop for long any more."""
        self._stalls = False
        if self._processor is not None:
            self._processor.stalls = False

    def _env(self, process: Process) -> Env:
        rng = self._timing_rng
        device_us = partial(self.device.sync_us, rng)
        workers = self._workers = Workers(self._loop, fork(rng), process, self._timing.workers, device_us)
        if self._timing.processor is not None:
            self._processor = LoopProcessor(fork(rng), self._timing.processor, device_us)
            self._processor.stalls = self._stalls
        return simulated_env(
            self._loop,
            fork(self._rng),
            process,
            self.disk,
            self._network,
            host=self.host,
            clock=self.clock,
            boot_id=f"boot {self._boots} of {self.name}",
            maybe=lambda point: self._maybe(self, point),
            workers=workers,
            processor=self._processor,
        )

    async def start(self) -> bool:
        """Start a process, on the disk as it is; returns when the node serves (True), or ended before (False)."""
        assert not self.is_alive
        if not self._network.is_up(self.host):
            self._network.restore_power(self.host)
        if self.process is not None and self.process.end_reason != POWER_LOST:
            self.disk.crash()
        self.on_start(self)
        self.rotten_at_start = find_rotten(self.disk)
        self.lives += 1
        self.started_s = self._loop.time()
        self.is_starting, self.is_stopping = True, False
        self.disk_was_faulty = self.disk.is_disturbed
        process = self.process = self._loop.new_process(f"{self.name}, life {self.lives}")
        process.at_end(self._on_end)
        self._trace.say(self.name, f"starts, life {self.lives}")
        features = self.running_features = self.features
        make = partial(BrokerNode, limits=self.limits)
        broker = self.broker = process.context.copy().run(make, self._env(process), self.settings, features)
        try:
            await process.run(broker.start())
        except ProcessEndedError:
            return False
        except (OperatorError, OSError) as error:
            process.end(f"did not come up: {error!r}")
            return False
        if process.alive and self.process is process:
            self.is_serving, self.is_starting = True, False
            self._trace.say(self.name, "serves")
        return self.is_serving

    async def stop(self) -> None:
        """Stop in order, as SIGTERM does; returns when the process has ended."""
        process, broker = self.process, self.broker
        if process is None or broker is None or not self.is_serving:
            return
        self.is_serving = False
        self.is_stopping = True
        self._trace.say(self.name, "is asked to stop")
        with contextlib.suppress(ProcessEndedError, OSError):
            await process.run(broker.stop())
            assert self._workers is not None
            await process.run(self._workers.until_idle())  # the interpreter waits for its threads before it exits
            process.end(STOPPED)
        process.end("did not stop in order")

    def kill(self) -> None:
        """End the process where it stands; the machine lives on."""
        if self.process is not None:
            self.process.end(KILLED)

    def lose_power(self) -> None:
        """End the machine, with what was not synced. It is dark until the next start."""
        self._network.lose_power(self.host)
        self._boots += 1
        if self.process is not None:
            self.process.end(POWER_LOST)
            self.process.end_reason = POWER_LOST
        self.disk.power_loss()

    def change_disk(self, tree: DirectoryTree) -> None:
        """Put another disk into the machine; the process is dead."""
        assert not self.is_alive
        self.disk.install(tree)
        self.on_new_disk(self)

    def move_away(self, path: str, aside: str) -> None:
        """Rename a directory out of the way, as an operator does while the process is dead."""
        assert not self.is_alive
        self.disk.crash()
        if not self.disk.exists(aside):
            self.disk.make_directory(aside)
        self.disk.rename(path, f"{aside}/{self.lives}-{path.rpartition('/')[2]}")
        for directory in (path.rpartition("/")[0], aside):
            self.disk.sync_directory_blocking(directory)

    def _on_end(self) -> None:
        assert self.process is not None
        self.is_serving = False
        self._trace.say(self.name, f"ended: {self.process.end_reason}")
        self.on_end(self)
