"""The one value through which the outside is handed to a node."""

from collections.abc import Callable
from dataclasses import dataclass

from esp.ports.clock import Clock
from esp.ports.cpu import Cpu
from esp.ports.disk import Disk
from esp.ports.host import Host
from esp.ports.network import Network
from esp.ports.random import Random
from esp.ports.worker_process import WorkerProcess


def _nothing(_name: str) -> None:
    """Do nothing, which is all that a named point does in production."""


@dataclass(frozen=True, slots=True)
class Env:
    """A node's outside: clock, random source, network, disk, work off the loop, host.

    ``worker_process`` returns a process that does not run yet, given a name for its work; None where all work is done in threads.
    ``maybe`` marks places where the simulator may do the nastiest thing for that place; in production it does nothing.
    """

    clock: Clock
    random: Random
    network: Network
    disk: Disk
    cpu: Cpu
    host: Host
    worker_process: Callable[[str], WorkerProcess] | None = None
    maybe: Callable[[str], None] = _nothing
