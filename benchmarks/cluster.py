"""``python -m benchmarks.cluster``: compare a cluster of three nodes with one of Apache Kafka, turn about."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from benchmarks import command
from benchmarks.batches import PARTITIONS, large_batch
from benchmarks.brokers import SHARED_SETTINGS, START_SCRIPT_OPTIONS, DefaultKafka, wait_until_deleted
from benchmarks.cluster_load import (
    Topics,
    measure_cluster_start,
    measure_gap,
    measure_idle_followers,
    measure_produce,
)
from benchmarks.comparison import PAUSE_S
from benchmarks.page_cache import touch_pages
from benchmarks.report import describe_machine
from benchmarks.results import ESP, GAP_AFTER_KILL, GAP_AFTER_STOP, KAFKA, Metric, Results
from esp.testing.cluster import Cluster, MakeNode
from esp.testing.node import Node
from esp.testing.node_process import NodeProcess

NODES: Final = 3
FILE_STEM: Final = "cluster"

NOTES: Final = (
    f"""Three nodes each, brokers and controllers in one, with default settings on one machine beside the one client; only
`log.segment.delete.delay.ms` is 1 s for both. Kafka's JVMs have the options of its start script:
`-Xmx1g {" ".join(START_SCRIPT_OPTIONS)}`.""",
    """CPU is that of all three processes, all threads, from `/proc/PID/stat`; a GB is 10^9 bytes of batches, of which three
copies are written.""",
    """Produce: one topic of 4 partitions with 3 replicas, min.insync.replicas=2, acks=all; records of 1 KB in batches of 128 KiB,
one batch per request, one connection to each leader with 5 requests in flight. Memory is touched before each measurement.""",
    """Gap: an idempotent librdkafka producer sends a record every 5 ms (`retry.backoff.ms` and `reconnect.backoff.ms` 20,
`topic.metadata.refresh.fast.interval.ms` 50) while the leader gets SIGKILL or SIGTERM.""",
    "Idle: a topic of 3,000 partitions with 3 replicas, no clients, 20 s; the busiest node counts.",
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The extent of a measurement; as for one broker, but Kafka's three JVMs take longer to compile their hot paths."""

    rounds: int = 3
    warm_up_rounds: int = 8
    round_bytes: int = 500_000_000
    gaps: int = 3
    idle: bool = True


USUAL: Final = Extent()
QUICK: Final = Extent(rounds=1, warm_up_rounds=1, round_bytes=100_000_000, gaps=1, idle=False)


class ClusterComparison:
    """Measures clusters beside one another; all of them run while load is measured.

    Args:
        clusters: by name, not running.
        directory: on the file system of their data.
        extent: how much is measured.
        say: takes a line of progress.
    """

    def __init__(
        self, clusters: Mapping[str, Cluster], directory: Path, extent: Extent, say: Callable[[str], None]
    ) -> None:
        self._clusters = clusters
        self._directory = directory
        self._extent = extent
        self._say = say
        self._batch = large_batch()
        self.results = Results()

    def run(self) -> Results:
        """Measure everything and return the figures.

        Raises:
            NodeError: a node did not start or stop.
            UnexpectedAnswerError: a broker refused what it was asked for.
        """
        extent = self._extent
        with ExitStack() as running:
            for name, cluster in self._clusters.items():
                self._say(f"starting {name}")
                running.enter_context(cluster)
            for number in range(-extent.warm_up_rounds, extent.rounds):
                self._say(f"round {number + 1} of {extent.rounds}" if number >= 0 else "warming up")
                self._produce(number)
            for number in range(extent.gaps):
                self._say(f"failover {number + 1} of {extent.gaps}")
                self._fail_over(number)
        for name, cluster in self._clusters.items():
            self._say(f"start and rest of {name}")
            self._take(name, measure_cluster_start(cluster))
            if extent.idle and name == ESP:
                self._take(name, measure_idle_followers(cluster, "idle"))
            cluster.stop()
        return self.results

    def _in_turn(self, number: int) -> Iterator[tuple[str, Cluster]]:
        pairs = list(self._clusters.items())
        yield from reversed(pairs) if number % 2 else pairs

    def _produce(self, number: int) -> None:
        topic = f"round-{number + self._extent.warm_up_rounds}"
        for name, cluster in self._in_turn(number):
            topics = Topics(cluster)
            topics.create(topic, PARTITIONS)
            touch_pages(self._directory, NODES * self._extent.round_bytes)
            time.sleep(PAUSE_S)
            values = measure_produce(cluster, topic, self._batch, self._extent.round_bytes // len(self._batch))
            self._take(name, values, is_counted=number >= 0)
            topics.delete(topic)
            for node in cluster.nodes.values():
                wait_until_deleted(node, topic)

    def _fail_over(self, number: int) -> None:
        kinds: tuple[tuple[Callable[[NodeProcess], None], Metric], ...] = (
            (NodeProcess.kill, GAP_AFTER_KILL),
            (NodeProcess.stop, GAP_AFTER_STOP),
        )
        for name, cluster in self._in_turn(number):
            for fail, metric in kinds:
                topic = f"gap-{number}-{metric.key}"
                Topics(cluster).create(topic, 1)
                self._take(name, measure_gap(cluster, topic, fail, metric))

    def _take(self, name: str, values: Mapping[Metric, float], *, is_counted: bool = True) -> None:
        if is_counted:
            self.results.add(name, values)
        self._say(
            f"  {name}: " + ", ".join(f"{metric.key} {value:.{metric.digits}f}" for metric, value in values.items())
        )


def make_clusters(names: list[str], directory: Path) -> dict[str, Cluster]:
    """Return the named clusters, not started."""
    kinds: dict[str, MakeNode] = {ESP: Node, KAFKA: DefaultKafka}
    clusters = {}
    for name in names:
        (directory / name).mkdir()
        clusters[name] = Cluster(directory / name, NODES, SHARED_SETTINGS, make_node=kinds[name])
    return clusters


@app.command()
def main(
    rounds: command.Rounds = USUAL.rounds,
    warm_up: command.WarmUp = USUAL.warm_up_rounds,
    megabytes: command.Megabytes = USUAL.round_bytes // 1_000_000,
    gaps: Annotated[int, typer.Option(min=0, help="Failovers of each kind.")] = USUAL.gaps,
    only: command.Only = "",
    quick: command.Quick = False,
    out: command.Out = command.RESULTS_DIRECTORY,
    data_dir: command.DataDir = None,
) -> None:
    """Measure what clusters of three ESP nodes and of three Kafka nodes need for the same work, turn about."""
    console = command.new_console()
    names = command.chosen(only)
    extent = (
        QUICK if quick else Extent(rounds=rounds, warm_up_rounds=warm_up, round_bytes=megabytes * 1_000_000, gaps=gaps)
    )
    machine = describe_machine()
    with tempfile.TemporaryDirectory(prefix="esp-benchmark-", dir=data_dir) as directory:
        clusters = make_clusters(names, Path(directory))
        try:
            results = ClusterComparison(clusters, Path(directory), extent, console.print).run()
        finally:  # whatever went wrong, no node is left behind
            for cluster in clusters.values():
                cluster.close()
    command.show(console, results)
    if quick:
        console.print("A short run proves that all works, no more. Nothing was written.")
        return
    command.leave(console, results, out, machine, asdict(extent), NOTES, FILE_STEM)


if __name__ == "__main__":
    app()
