"""The stage of a row of the report: its brokers, taken turn about, and the results so far."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cost import wait_until_warm
from benchmarks.results import Metric, Results
from benchmarks.start_up import SETTLING_S
from esp.testing.node import Node
from esp.testing.node_process import NodeProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The extent of a measurement."""

    rounds: int = 5
    warm_up_rounds: int = 3
    """Rounds before those, which do not count: Kafka's JVM compiles its hot paths."""

    scale: float = 1.0
    """The size of everything beside that of the issue: 1 GB is compacted, 100,000 ids are loaded."""


@dataclass(slots=True)
class Stage:
    """The brokers, and the results so far."""

    nodes: Mapping[str, NodeProcess]
    """The brokers by the names of their products, running."""

    directory: Path
    """A directory for files of clients."""

    extent: Extent
    say: Callable[[str], None]
    results: Results

    def rounds(self) -> Iterator[int]:
        """The numbers of the rounds, below 0 for those that do not count."""
        for number in range(-self.extent.warm_up_rounds, self.extent.rounds):
            self.say(f"round {number + 1} of {self.extent.rounds}" if number >= 0 else "warming up")
            yield number

    def in_turn(self, number: int) -> Iterator[tuple[str, NodeProcess]]:
        """The brokers; which one is first changes from round to round."""
        pairs = list(self.nodes.items())
        yield from reversed(pairs) if number % 2 else pairs

    def take(self, name: str, values: Mapping[Metric, float], number: int = 0) -> None:
        """Take what a round measured of a broker."""
        if number >= 0:
            self.results.add(name, values)
        shown = ", ".join(f"{metric.key} {value:.{metric.digits}f}" for metric, value in values.items())
        self.say(f"  {name}: {shown}")

    def scaled(self, count: float, least: int = 1) -> int:
        """A size of the issue at the scale of this run."""
        return max(least, int(count * self.extent.scale))


def settle(node: NodeProcess) -> None:
    """Return when a broker that was started just now, or got its data just now, is at rest."""
    time.sleep(SETTLING_S)
    if isinstance(node, Node):
        wait_until_warm(node)


@contextmanager
def started(stage: Stage, nodes: Mapping[str, NodeProcess]) -> Iterator[None]:
    """Have brokers on the stage: started, and at rest.

    Raises:
        NodeError: a broker does not start or stop.
    """
    stage.nodes = nodes
    with ExitStack() as running:
        for name, node in nodes.items():
            stage.say(f"starting {name}")
            running.enter_context(node)
        for node in nodes.values():
            settle(node)
        yield
