"""``python -m benchmarks.rebalance_demo``: a node joins three that hold a topic under load, takes its share, and the first one is drained.

What is printed: each plan, its progress, the predicted and the real duration, producers' 99th percentile before, during and after, and
what a check of the whole history says. The exit status is 1 if a record was lost, or a plan did not end as it should.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.command import DataDir
from benchmarks.rebalance_load import RebalanceLoad, read_back
from esp.cli.app import run_tools
from esp.rebalance.plan_file import read_plan
from esp.rebalance.sizes import format_duration
from esp.simulation.checkers.client_history import check
from esp.testing.cluster import Cluster
from esp.testing.ports import free_port

TOPIC: Final = "orders"
PARTITIONS: Final = 12
REPLICATION_FACTOR: Final = 3
NEW_NODE: Final = 4
OLD_NODE: Final = 1
CALM_S: Final = 15.0
"""The time for which producers are watched before anything moves, and after."""


class Phase(NamedTuple):
    """A part of the demonstration; moments are monotonic seconds, and the prediction is in seconds, if anything was moved."""

    name: str
    begin_s: float
    end_s: float
    predicted_s: tuple[float, float] | None = None


class Demonstration:
    """Runs on a cluster that is up, and remembers its phases.

    Args:
        cluster: of three nodes.
        directory: for plans.
        budget: what each broker may spend on moves, as the tool takes it; None for its default.
    """

    def __init__(self, cluster: Cluster, directory: Path, budget: str | None) -> None:
        self._cluster = cluster
        self._directory = directory
        self._budget = [] if budget is None else ["--budget", budget]
        self.phases: list[Phase] = []

    def watch(self, name: str) -> None:
        """Let the load go on for a while."""
        begin_s = time.monotonic()
        time.sleep(CALM_S)
        self.phases.append(Phase(name, begin_s, time.monotonic()))

    def rebalance(self, name: str, *intent: str) -> None:
        """Make a plan, and carry it out."""
        path = str(self._directory / f"{intent[0]}.json")
        self._tool("rebalance", "plan", *intent, *self._budget, "--out", path)
        duration = read_plan(path).plan.duration
        begin_s = time.monotonic()
        self._tool("rebalance", "apply", path)
        self.phases.append(Phase(name, begin_s, time.monotonic(), (duration.low_s, duration.high_s)))

    def _tool(self, *words: str) -> None:
        print(f"\n$ esp {' '.join(words)}", flush=True)
        status = run_tools([*words, "--bootstrap-server", self._cluster.bootstrap])
        if status != 0:
            raise SystemExit(f"esp {' '.join(words)} ended with status {status}")


def main(
    megabytes: Annotated[int, typer.Option(min=1, help="In the topic, before the load.")] = 1000,
    rate: Annotated[int, typer.Option(min=1, help="Records of 1 KB a second, all the time.")] = 300,
    budget: Annotated[
        str | None, typer.Option(help="Bytes a second of each broker for moves; the tool's default.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Show a rebalance from its plan to its end, and what producers feel of it."""
    with tempfile.TemporaryDirectory(dir=data_dir) as scratch, _make_cluster(Path(scratch)) as cluster:
        load = RebalanceLoad(cluster.bootstrap, TOPIC)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, REPLICATION_FACTOR)], request_timeout=20)[TOPIC].result()
        print(
            f"three nodes; {megabytes} MB go into {TOPIC}, {PARTITIONS} partitions with {REPLICATION_FACTOR} replicas",
            flush=True,
        )
        load.fill(megabytes * 1_000_000, PARTITIONS * 20)
        load.start(rate)
        demonstration = Demonstration(cluster, Path(scratch), budget)
        demonstration.watch("before")
        joining = cluster.nodes[NEW_NODE] = cluster.make(NEW_NODE)
        joining.format(cluster.cluster_id)
        joining.start()
        print(f"\nnode {NEW_NODE} joined", flush=True)
        demonstration.rebalance(f"node {NEW_NODE} gets its share", "spread")
        demonstration.rebalance(f"node {OLD_NODE} is drained", "drain", str(OLD_NODE))
        cluster.nodes.pop(OLD_NODE).stop()
        print(f"\nnode {OLD_NODE} was stopped", flush=True)
        demonstration.watch("after")
        load.finish()
        read = read_back(cluster.bootstrap, TOPIC, PARTITIONS)
    _tell(demonstration.phases, load)
    anomalies = check(load.sent, read)
    print(
        f"{len(load.sent)} records sent, {len(load.errors)} refused, {len(read)} read back, {len(anomalies)} anomalies"
    )
    for anomaly in anomalies[:10]:
        print(f"  {anomaly}")
    if anomalies:
        sys.exit(1)


def _make_cluster(directory: Path) -> Cluster:
    """Three nodes that tell how long requests take."""
    metrics = {number: {"metrics.listener": f"127.0.0.1:{free_port()}"} for number in (1, 2, 3)}
    return Cluster(directory, settings={"default.replication.factor": "3"}, node_settings=metrics)


def _tell(phases: list[Phase], load: RebalanceLoad) -> None:
    table = Table(
        "phase", "seconds", "predicted", "acknowledged", "p99", "against before", box=None, padding=(0, 3, 0, 0)
    )
    before_ms = load.p99_ms(phases[0].begin_s, phases[0].end_s)
    for phase in phases:
        p99_ms = load.p99_ms(phase.begin_s, phase.end_s)
        count = sum(phase.begin_s <= at < phase.end_s for at, _ in load.waits)
        low_high = phase.predicted_s
        predicted = "" if low_high is None else f"{format_duration(low_high[0])} to {format_duration(low_high[1])}"
        seconds = f"{phase.end_s - phase.begin_s:.0f}"
        table.add_row(phase.name, seconds, predicted, str(count), f"{p99_ms:.1f} ms", f"x{p99_ms / before_ms:.1f}")
    print()
    Console(highlight=False, width=None if sys.stdout.isatty() else 120).print(table)


if __name__ == "__main__":
    typer.run(main)
