"""The costs of a piece of work for a broker, taken from the kernel's accounts of its process."""

import time
from types import TracebackType
from typing import Final, Protocol, Self

from esp.testing.node_process import CpuSeconds


class Metered(Protocol):
    """A broker, or a cluster of them."""

    def cpu_seconds(self) -> CpuSeconds:
        """CPU time so far."""


_LOOK_INTERVAL_S: Final = 0.5
_LONGEST_WARM_UP_S: Final = 600.0
"""The longest wait for a node to be warm: it takes some seconds of CPU time, of which a busy machine gives a node few."""


class Warming(Protocol):
    """A node of ours."""

    @property
    def is_warm(self) -> bool:
        """True if it is prepared for requests of every kind."""


def wait_until_warm(node: Warming) -> None:
    """Return when a node of ours that was started just now has prepared itself for requests of every kind.

    The node does so in the background, for seconds, which would count as the cost of the requests that arrive meanwhile. Its own word
    counts: on a busy machine a node that waits for a processor looks like one at rest.

    Raises:
        TimeoutError: it does not end.
    """
    deadline = time.monotonic() + _LONGEST_WARM_UP_S
    while not node.is_warm:
        if time.monotonic() > deadline:
            raise TimeoutError(f"a node does not get warm within {_LONGEST_WARM_UP_S} s")
        time.sleep(_LOOK_INTERVAL_S)


_PROCESS_CLOCK: Final = 2
"""The kind of a kernel's clock that counts the CPU time of a process as the scheduler does (``CPUCLOCK_SCHED``)."""


def fine_cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, all threads, user and system, in nanoseconds as the scheduler counts it (Linux).

    The time of its children is not in it. It is for work that is too short for the steps of 10 ms of :class:`CostMeter`.

    Raises:
        OSError: there is no such process.
    """
    return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)


class CostMeter:
    """Measures a broker while the ``with`` block runs: CPU time of all its threads, and the clock's.

    Background work of the broker counts: it is part of what the broker costs.

    Args:
        node: the running broker, or cluster.
    """

    def __init__(self, node: Metered) -> None:
        self._node = node
        self.user_s = 0.0
        self.all_s = 0.0
        """User and system time."""

        self.elapsed_s = 0.0

    def __enter__(self) -> Self:
        self._before = self._node.cpu_seconds()
        self._started = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.elapsed_s = time.perf_counter() - self._started
        after = self._node.cpu_seconds()
        self.user_s = after.user - self._before.user
        self.all_s = self.user_s + after.system - self._before.system
