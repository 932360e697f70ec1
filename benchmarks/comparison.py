"""The run: both brokers, turn about, in rounds short enough that both see the same machine."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.batches import PARTITIONS, large_batch, small_batch
from benchmarks.brokers import wait_until_deleted
from benchmarks.client import create_topic, delete_topic
from benchmarks.consume_load import measure_consume, measure_consume_again
from benchmarks.page_cache import touch_pages
from benchmarks.produce_load import measure_produce
from benchmarks.request_load import measure_latency, measure_small_requests
from benchmarks.results import Metric, Results
from benchmarks.start_up import measure_start, measure_start_after_kill
from esp.testing.node_process import NodeProcess

PAUSE_S: Final = 0.3
"""Between two measurements: a broker's late work for the one does not count for the next."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The extent of a measurement."""

    rounds: int = 5
    """Measured rounds of load for each broker."""

    warm_up_rounds: int = 3
    """Rounds before those, which do not count: Kafka's JVM compiles its hot paths (its costs fall to a tenth within 2 GB), and both brokers
    reach their working memory."""

    round_bytes: int = 1_000_000_000
    """Produced in each round; consumed twice as much."""

    consume_passes: int = 2
    more_consume_passes: int = 3
    """Passes after those: the cost of further consumers of the same records."""

    requests: int = 90_000
    """Small requests in each round: a second of CPU time, of which the kernel counts ticks of 10 ms."""

    latency_requests: int = 2_000
    start_rounds: int = 3
    """Starts, and starts after kill -9, of each broker; 0 leaves them out."""


@dataclass(slots=True)
class Comparison:
    """Measures brokers beside one another.

    While load is measured all of them run; the idle one costs a percent or two of a core.
    """

    brokers: Mapping[str, NodeProcess]
    """The brokers by the names of their products, not running."""

    directory: Path
    """A directory on the file system of the brokers' data."""

    extent: Extent
    say: Say
    """Takes a line of progress."""

    results: Results = field(default_factory=Results)
    page_costs: list[float] = field(default_factory=list)
    """The cost of touching memory before each produce measurement, in seconds of CPU per GB: near 0.2 if all of it was touched before."""

    _large: bytes = field(default_factory=large_batch)
    _small: bytes = field(default_factory=small_batch)

    def run(self) -> Results:
        """Measure everything and return the figures.

        Raises:
            NodeError: a broker did not start or stop.
            UnexpectedAnswerError: a broker refused what it was asked for.
        """
        try:
            self._measure_load()
            if self.extent.start_rounds:
                self._measure_starts()
        finally:  # whatever went wrong, no broker is left behind
            for node in self.brokers.values():
                if node.is_running:
                    node.kill()
        return self.results

    def _in_turn(self, number: int) -> Iterator[tuple[str, NodeProcess]]:
        """The brokers; which one is first changes from round to round."""
        pairs = list(self.brokers.items())
        yield from reversed(pairs) if number % 2 else pairs

    def _measure_load(self) -> None:
        with ExitStack() as running:
            for name, node in self.brokers.items():
                self.say(f"starting {name}")
                running.enter_context(node)
            for number in range(-self.extent.warm_up_rounds, self.extent.rounds):
                is_counted = number >= 0
                self.say(f"round {number + 1} of {self.extent.rounds}" if is_counted else "warming up")
                self._measure_round(number, self.results if is_counted else Results())

    def _measure_round(self, number: int, results: Results) -> None:
        topic = f"round-{number + self.extent.warm_up_rounds}"
        small_topic = f"small-{topic}"
        for node in self.brokers.values():
            create_topic(node.port, topic, PARTITIONS)
            create_topic(node.port, small_topic, PARTITIONS)
        extent = self.extent
        count = extent.round_bytes // len(self._large)

        def produce(node: NodeProcess) -> dict[Metric, float]:
            self.page_costs.append(touch_pages(self.directory, extent.round_bytes))
            return measure_produce(node, topic, self._large, count)

        works: tuple[Callable[[NodeProcess], dict[Metric, float]], ...] = (
            produce,
            lambda node: measure_consume(node, topic, count * len(self._large), extent.consume_passes),
            lambda node: measure_consume_again(node, topic, count * len(self._large), extent.more_consume_passes),
            lambda node: measure_small_requests(node, small_topic, self._small, extent.requests),
            lambda node: measure_latency(node, small_topic, self._small, extent.latency_requests),
        )
        for work in works:
            for name, node in self._in_turn(number):
                time.sleep(PAUSE_S)
                values = work(node)
                results.add(name, values)
                self.say(f"  {name}: " + ", ".join(_shown(metric, value) for metric, value in values.items()))
        for node in self.brokers.values():
            for deleted in (topic, small_topic):
                delete_topic(node.port, deleted)
                wait_until_deleted(node, deleted)

    def _measure_starts(self) -> None:
        for number in range(self.extent.start_rounds):
            self.say(f"start {number + 1} of {self.extent.start_rounds}")
            for name, node in self._in_turn(number):
                for work in (measure_start, lambda node: measure_start_after_kill(node, self._large)):
                    values = work(node)
                    self.results.add(name, values)
                    self.say(f"  {name}: " + ", ".join(_shown(metric, value) for metric, value in values.items()))
                node.stop()


def _shown(metric: Metric, value: float) -> str:
    return f"{metric.key} {value:.{metric.digits}f}"
