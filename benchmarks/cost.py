"""What a piece of work costs a broker, taken from the kernel's accounts of its process."""

import time
from types import TracebackType
from typing import Protocol, Self

from esp.testing.node_process import CpuSeconds


class Metered(Protocol):
    """A broker, or a cluster of them."""

    def cpu_seconds(self) -> CpuSeconds:
        """CPU time so far."""


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
