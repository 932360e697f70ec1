"""Chaos on real processes: by seed, nodes of a cluster are killed, paused, cut off, starved of disk and robbed of logs, under load.

    python -m tests.integration.chaos --minutes 30 [--seed N]          (with ESP_TEST_AGAINST=kafka in the environment: on real Kafka)

Three families of clients write (idempotent, acks=all) and read by assignment all the while; an operator deletes records of a topic of
its own and changes settings of all topics. In the end everything is healed, all is read again, and the histories are judged: nothing
acknowledged is lost, doubled, moved or out of order, no reader ever saw anything else than what stands in the log in the end
(PROMISE-1, 2, 4), and no log begins beyond what the operator deleted (LOG-12).
"""

import argparse
import contextlib
import logging
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from esp.simulation.checkers.client_history import Read, check
from esp.testing.cluster import Cluster, MakeNode
from esp.testing.node import Node
from esp.testing.node_networks import cuttable_network
from esp.testing.real_kafka import AGAINST_KAFKA, RealKafka
from tests.integration.chaos_clients import FAMILIES, PARTITIONS, AioWriter, Reader, Writer
from tests.integration.chaos_operator import Operator
from tests.integration.load import read_everything

_LOGGER: Final = logging.getLogger(__name__)

NODES: Final = 3
SMALL_DISK_NODE: Final = 3
MIB: Final = 1024 * 1024
SESSION_S: Final = 3
SETTINGS: Final = {
    "broker.session.timeout.ms": str(SESSION_S * 1000),
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
}
"""A silent node is found out in seconds, so that minutes hold many faults."""

DOUBT_S: Final = 5.0
"""So long a replaced leader may not know that it was replaced, with two heartbeats and a time-out of the metadata fetch (BRK-9)."""

HEAL_TIMEOUT_S: Final = 120

IDLE_PARTITIONS: Final = 2000
"""So many that followers name them in requests of more than a connection takes that is not served yet: nodes that start meet those."""

_IDLE_TOPIC_PARTITIONS: Final = 100

LOST_LOGS: Final = "lost logs"
LOST_LAST_LOGS: Final = "lost logs of the last in sync"
LOSSES: Final = frozenset({LOST_LOGS, LOST_LAST_LOGS})
"""The faults that take copies of records away."""

TRIMMED: Final = "chaos-trimmed"
"""The topic whose records the operator deletes."""


@dataclass
class Report:
    """What a run came to."""

    seed: int
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    acked: dict[str, int] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    denied: dict[str, int] = field(default_factory=dict)
    """How often a reader was told that its offset does not exist."""
    operated: str = ""
    """What the operator did, as a sentence."""
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = ", ".join(f"{count} x {name}" for name, count in sorted(self.faults.items()))
        lines = [
            f"seed {self.seed}, {self.seconds:.0f} s; faults: {counts or 'none'}",
            *(
                f"  {family}: {self.acked[family]} records acknowledged, {self.read[family]} read, {self.denied[family]} offsets denied"
                for family in self.acked
            ),
            f"  {self.operated}",
            f"  violations: {len(self.violations)}",
            *(f"    {violation}" for violation in self.violations),
        ]
        return "\n".join(lines)


class Disk:
    """The disk of one node, which can be full: a small file system in memory where that is allowed, else a limit on file sizes."""

    def __init__(self, cluster: Cluster, node: int, size_bytes: int) -> None:
        self._cluster = cluster
        self._node = node
        self._path = cluster.nodes[node].data_dir
        self._path.mkdir(parents=True, exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(self._path)]
        self._mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0

    def fill(self) -> None:
        """Leave not a byte."""
        if not self._mounted:
            self._limit(4096)
            return
        with contextlib.suppress(OSError), (self._path / "filler").open("ab", buffering=0) as filler:
            while True:
                filler.write(bytes(64 * 1024))

    def free(self) -> None:
        """Give the room back."""
        if self._mounted:
            (self._path / "filler").unlink(missing_ok=True)
        else:
            self._limit(resource.RLIM_INFINITY)

    def close(self) -> None:
        """Unmount."""
        if self._mounted:
            subprocess.run(["umount", "--lazy", str(self._path)], check=False)

    def _limit(self, size: int) -> None:
        node = self._cluster.nodes[self._node]
        if node.is_running:
            resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


class Nemesis:
    """Hurts the nodes by seed, one fault after another, each with its end.

    Args:
        cluster: the nodes.
        disk: the disk of one of them.
        topics: the topics whose logs may vanish.
        rng: decides everything.
    """

    def __init__(self, cluster: Cluster, disk: Disk, topics: Sequence[str], rng: random.Random) -> None:
        self._cluster = cluster
        self._topics = topics
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "socket.timeout.ms": 5000, "log_level": 0})
        self._disk = disk
        self._rng = rng
        self.faults: Counter[str] = Counter()
        self._kinds: dict[str, Callable[[int], None]] = {
            "kill": self._kill,
            "stop": self._stop,
            "pause": self._pause,
            "isolate": self._isolate,
            "cut": self._cut,
            "full disk": self._fill,
            "kill all": self._kill_all,
            "kill two": self._kill_two,
            LOST_LOGS: self._lose_logs,
            LOST_LAST_LOGS: self._lose_last_logs,
        }
        self._weights = (6, 3, 4, 3, 3, 2, 1, 2, 2, 2)

    def run_until(self, moment: float) -> None:
        """Hurt until the monotonic clock shows ``moment``."""
        while time.monotonic() < moment:
            [kind] = self._rng.choices(list(self._kinds), self._weights)
            node = self._rng.randint(1, NODES)
            if kind in LOSSES and not self._all_are_in_sync():
                continue
            _LOGGER.info("%s (node %d)", kind, node)
            self.faults[kind] += 1
            self._kinds[kind](node)
            self._revive()
            pause_s = self._rng.choice((0.0, 0.5, 2.0, 6.0))
            self._wait(pause_s, pause_s)

    def heal(self) -> None:
        """End every fault and wait until all nodes take requests."""
        self._cluster.network.heal()
        self._disk.free()
        self._revive()
        for node in self._cluster.nodes.values():
            node.START_TIMEOUT_S = HEAL_TIMEOUT_S
            node.wait_until_ready()

    def _revive(self) -> None:
        for node in self._cluster.nodes.values():
            if not node.is_running:
                node.launch()

    def _wait(self, least_s: float, most_s: float) -> None:
        time.sleep(self._rng.uniform(least_s, most_s))

    def _kill(self, node: int) -> None:
        self._cluster.nodes[node].kill()
        self._wait(0, 4)

    def _kill_all(self, _node: int) -> None:
        for process in self._cluster.nodes.values():
            process.kill()
        self._wait(0, 1)

    def _kill_two(self, node: int) -> None:
        """Take the majority, while the node that is left goes on asking; both start together."""
        for number in (node, node % NODES + 1):
            self._cluster.nodes[number].kill()
        self._wait(0, 4)

    def _lose_logs(self, node: int) -> None:
        """Stop or kill a node, and start it without one log, or without any but those of other topics."""
        process = self._cluster.nodes[node]
        if self._rng.random() < 0.5 and process.is_ready:
            process.stop(HEAL_TIMEOUT_S)
        else:
            process.kill()
        self._remove_logs(node)

    def _lose_last_logs(self, node: int) -> None:
        """Kill a node after the others, so that it is the last in sync, and start it first without some of its logs."""
        for number, process in self._cluster.nodes.items():
            if number != node:
                process.kill()
        self._wait(0, 4)
        self._lose_logs(node)
        self._cluster.nodes[node].launch()
        self._wait(0, 4)

    def _remove_logs(self, node: int) -> None:
        topics = self._topics if self._rng.random() < 0.3 else [self._rng.choice(self._topics)]
        partitions = range(PARTITIONS) if len(topics) > 1 else [self._rng.randrange(PARTITIONS)]
        for topic in topics:
            for partition in partitions:
                shutil.rmtree(self._cluster.nodes[node].data_dir / f"{topic}-{partition}")

    def _all_are_in_sync(self) -> bool:
        """True if every copy that may vanish can be spared: one copy at a time may be lost.

        What the last fault did to the in-sync sets is known once the session of a dead broker has ended.
        """
        if not all(node.is_ready for node in self._cluster.nodes.values()):
            return False
        self._wait(SESSION_S, SESSION_S + 1)
        try:
            known = self._admin.list_topics(timeout=5).topics
        except KafkaException:
            return False
        partitions = [partition for topic in self._topics for partition in known[topic].partitions.values()]
        return all(len(partition.isrs) == NODES for partition in partitions)

    def _stop(self, node: int) -> None:
        process = self._cluster.nodes[node]
        if process.is_ready:
            process.stop(HEAL_TIMEOUT_S)
        else:  # it has just been started: nobody listens to signals yet
            process.kill()
        self._wait(0, 2)

    def _pause(self, node: int) -> None:
        self._cluster.nodes[node].pause()
        self._wait(0.2, 8)
        self._cluster.nodes[node].resume()

    def _isolate(self, node: int) -> None:
        self._cluster.network.isolate(node)
        self._wait(0.5, 8)
        self._cluster.network.heal()

    def _cut(self, node: int) -> None:
        self._cluster.network.cut(node, node % NODES + 1)
        self._wait(0.5, 8)
        self._cluster.network.heal()

    def _fill(self, _node: int) -> None:
        self._disk.fill()
        self._wait(1, 5)
        self._disk.free()


def run(
    directory: Path,
    minutes: float,
    seed: int,
    *,
    idle_partitions: int = IDLE_PARTITIONS,
    make_node: MakeNode = Node,
) -> Report:
    """Run a cluster under load and faults, and judge it.

    Args:
        directory: where the cluster keeps everything.
        minutes: how long faults are injected.
        seed: of the faults.
        idle_partitions: so many more partitions, about, of three replicas each, that nobody writes to.
        make_node: what the nodes are.
    """
    report = Report(seed)
    began = time.monotonic()
    cluster = Cluster(directory, NODES, SETTINGS, make_node=make_node, network=cuttable_network(NODES))
    disk = Disk(cluster, SMALL_DISK_NODE, int((64 + idle_partitions / 50 + 32 * minutes) * MIB))
    try:
        cluster.start()
        topics = [f"chaos-{writer.family}" for writer, _ in FAMILIES]
        _create(cluster, [*topics, TRIMMED], PARTITIONS)
        for number in range(idle_partitions // _IDLE_TOPIC_PARTITIONS):
            _create(cluster, [f"idle-{number}"], _IDLE_TOPIC_PARTITIONS)
        writers = [writer(cluster.bootstrap, topic) for (writer, _), topic in zip(FAMILIES, topics, strict=True)]
        readers = [reader(cluster.bootstrap, topic) for (_, reader), topic in zip(FAMILIES, topics, strict=True)]
        trimmed_writer = AioWriter(cluster.bootstrap, TRIMMED)
        operator = Operator(cluster.bootstrap, TRIMMED, [*topics, TRIMMED], seed)
        for client in (*writers, *readers, trimmed_writer, operator):
            client.start()
        nemesis = Nemesis(cluster, disk, [*topics, TRIMMED], random.Random(seed))
        nemesis.run_until(time.monotonic() + 60 * minutes)
        _LOGGER.info("heal")
        nemesis.heal()
        report.faults = nemesis.faults
        operator.finish()
        for writer in (*writers, trimmed_writer):
            writer.finish()
        for reader in readers:
            reader.finish()
        for writer, reader in zip(writers, readers, strict=True):
            report.acked[writer.family], report.read[writer.family] = writer.acked, len(reader.read)
            report.denied[writer.family] = reader.denials.count
            report.violations += judge(writer, reader, read_everything(cluster, writer.topic, HEAL_TIMEOUT_S))
        report.operated = (
            f"{TRIMMED}: {trimmed_writer.acked} records, {operator.deletions} deletions"
            f" and {operator.changes} changes of settings acknowledged"
        )
        report.violations += operator.judge(trimmed_writer, read_everything(cluster, TRIMMED, HEAL_TIMEOUT_S))
        cluster.stop()
    except BaseException:
        _LOGGER.exception("the run broke off; the nodes' last words:\n%s", cluster.output)
        raise
    finally:
        cluster.close()
        disk.close()
    report.seconds = time.monotonic() - began
    return report


def judge(writer: Writer, reader: Reader, final: Sequence[Read]) -> Iterator[str]:
    """Return all that cannot be in a correct history."""
    for client in (writer, reader):
        if client.failure is not None:
            yield f"{client.family}: {type(client).__name__} ended with {client.failure!r}"
    if not writer.acked:
        yield f"{writer.family}: nothing was acknowledged"
    for anomaly in check(writer.sent, final):
        yield f"{writer.family}: {anomaly}"
    if reader.denials.longest_s > DOUBT_S:
        yield f"{reader.family}: a reader was told for {reader.denials.longest_s:.1f} s that its offset does not exist"
    by_place = {(one.partition, one.offset): one for one in final}
    last: dict[int, int] = {}
    for one in reader.read:
        if by_place.get((one.partition, one.offset)) != one:
            yield f"{reader.family}: a reader saw {one}, in the end there is {by_place.get((one.partition, one.offset))}"
        if one.offset != last.get(one.partition, -1) + 1:
            yield f"{reader.family}: a reader got offset {one.offset} of partition {one.partition} after {last.get(one.partition)}"
        last[one.partition] = one.offset


def _create(cluster: Cluster, topics: Sequence[str], partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    config = {"segment.bytes": str(MIB), "min.insync.replicas": "2"}
    new = [NewTopic(topic, partitions, NODES, config=config) for topic in topics]
    for created in admin.create_topics(new).values():
        created.result(30)


def _keep_log(logger: logging.Logger, path: Path) -> None:
    """Let what a family of clients logs stand in a file alone: it tells of a client that does not go on why."""
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def main() -> int:
    """Run from the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (default: 30)")
    parser.add_argument("--seed", type=int, default=None, help="of the faults (default: a new one)")
    parser.add_argument(
        "--idle-partitions",
        type=int,
        default=IDLE_PARTITIONS,
        help=f"partitions besides, that nobody writes to (default: {IDLE_PARTITIONS})",
    )
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000)
    logging.basicConfig(stream=sys.stdout, level=logging.CRITICAL, format="%(asctime)s %(message)s")
    _LOGGER.setLevel(logging.INFO)  # and silence from the clients, who complain of each fault at length
    directory = Path(tempfile.mkdtemp(prefix="esp-chaos-"))
    _LOGGER.info("seed %d, in %s", seed, directory)
    for family in ("kafka", "aiokafka"):
        _keep_log(logging.getLogger(family), directory / "clients.log")
    report = run(
        directory,
        options.minutes,
        seed,
        idle_partitions=options.idle_partitions,
        make_node=RealKafka if AGAINST_KAFKA else Node,
    )
    _LOGGER.info("%s", report)
    if not report.violations:
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
