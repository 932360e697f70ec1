"""``python -m benchmarks.rebalance_move``: a large partition moves to another node; wall and CPU time beside Kafka's.

Three nodes with the defaults of each; the partition has one replica, which goes from the node that leads it to another, without a
throttle. CPU is that of all three nodes while it moves, from ``/proc/PID/stat``. Both are measured turn about.
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Annotated, Final, NamedTuple

import typer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.cluster import make_clusters
from benchmarks.command import DataDir
from benchmarks.rebalance_load import RebalanceLoad
from benchmarks.results import ESP, KAFKA
from esp.cli.kafka.reassignments import ReassignmentsAdmin
from esp.model.ids import TopicPartition
from esp.testing.cluster import Cluster

_LOOK_EVERY_S: Final = 0.1
_MOVED_WITHIN_S: Final = 600.0


class Moved(NamedTuple):
    """The time and the CPU time of one move."""

    wall_s: float
    cpu_s: float


def measure_move(cluster: Cluster, topic: str, size_bytes: int) -> Moved:
    """Fill a partition, and move it.

    Raises:
        TimeoutError: it takes more than ten minutes.
    """
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    settings = {"min.insync.replicas": "1"}
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[[1]], config=settings)], request_timeout=20)[
        topic
    ].result()
    RebalanceLoad(cluster.bootstrap, topic).fill(size_bytes, 1)
    with ReassignmentsAdmin(cluster.bootstrap) as tool:
        before = cluster.cpu_seconds()
        began_s = time.monotonic()
        partition = TopicPartition(topic, 0)
        assert not tool.reassign({partition: (2,)}), "nobody refuses that"
        while partition in tool.reassignments():
            if time.monotonic() - began_s > _MOVED_WITHIN_S:
                raise TimeoutError(f"{topic} does not move")
            time.sleep(_LOOK_EVERY_S)
        wall_s = time.monotonic() - began_s
        after = cluster.cpu_seconds()
    admin.delete_topics([topic])[topic].result()
    return Moved(wall_s, after.user + after.system - before.user - before.system)


def main(
    megabytes: Annotated[int, typer.Option(min=1, help="In the partition.")] = 1000,
    rounds: Annotated[int, typer.Option(min=1, help="Measured moves of each.")] = 3,
    warm_up: Annotated[int, typer.Option(min=0, help="Moves before them that do not count.")] = 1,
    data_dir: DataDir = None,
) -> None:
    """Measure what moving a partition takes, on ESP and on Kafka, turn about."""
    found: dict[str, list[Moved]] = {ESP: [], KAFKA: []}
    with tempfile.TemporaryDirectory(prefix="esp-benchmark-", dir=data_dir) as directory:
        clusters = make_clusters([ESP, KAFKA], Path(directory))
        try:
            for cluster in clusters.values():
                cluster.start()
            for number in range(-warm_up, rounds):
                for name, cluster in clusters.items():
                    moved = measure_move(cluster, f"moved-{number + warm_up}", megabytes * 1_000_000)
                    print(f"{name}: {moved.wall_s:.1f} s, {moved.cpu_s:.2f} CPU-seconds", flush=True)
                    if number >= 0:
                        found[name].append(moved)
        finally:  # whatever went wrong, no node is left behind
            for cluster in clusters.values():
                cluster.close()
    table = Table("", "wall, s", "CPU, s", box=None, padding=(0, 3, 0, 0))
    middle = {name: Moved(*(median(each) for each in zip(*some, strict=True))) for name, some in found.items()}
    for name, moved in middle.items():
        table.add_row(name, f"{moved.wall_s:.1f}", f"{moved.cpu_s:.2f}")
    ratio = (middle[ESP].wall_s / middle[KAFKA].wall_s, middle[ESP].cpu_s / middle[KAFKA].cpu_s)
    table.add_row("ratio", *(f"{each:.2f}" for each in ratio))
    Console(highlight=False, width=None if sys.stdout.isatty() else 120).print(table)


if __name__ == "__main__":
    typer.run(main)
