"""The real outside of a node."""

from esp.ports.env import Env
from esp.runtime.asyncio_network import AsyncioNetwork
from esp.runtime.os_disk import OsDisk
from esp.runtime.system_clock import SystemClock
from esp.runtime.system_host import SystemHost, raise_open_files_limit
from esp.runtime.system_random import SystemRandom
from esp.runtime.thread_cpu import ThreadCpu


def real_env() -> Env:
    """Return the seams' real bodies, for a node that has the process to itself."""
    raise_open_files_limit()
    host = SystemHost()
    return Env(
        clock=SystemClock(),
        random=SystemRandom(),
        network=AsyncioNetwork(host),
        disk=OsDisk(),
        cpu=ThreadCpu(),
        host=host,
    )
