"""Chaos on real processes: by seed, nodes of a cluster are killed, paused, cut off, starved of disk, robbed of logs and disks, under load.

    python -m tests.integration.chaos --minutes 30 [--seed N]          (with ESP_TEST_AGAINST=kafka in the environment: on real Kafka)

Three families of clients write (idempotent, acks=all) and read by assignment all the while; an operator deletes records of a topic of
its own and changes settings of topics, and a default of them all. In the end everything is healed, all is read again, and the histories are
judged: nothing acknowledged is lost, doubled, moved or out of order, no reader ever saw anything else than what stands in the log in the
end (PROMISE-1, 2, 4), and no log begins beyond what the operator deleted (LOG-12).
"""

import argparse
import logging
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from tests.integration.chaos_disks import Disk, LogDirectories, directory_settings
from tests.integration.chaos_operator import LEAST_MIN_ISR, MIN_ISR, Operator
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
EMPTIED: Final = "emptied directory"
TAKEN_OUT: Final = "directory taken out"
EMPTIED_LAST: Final = "emptied directory of the last in sync"
TAKEN_OUT_LAST: Final = "directory of the last in sync taken out"
LOSSES: Final = frozenset({LOST_LOGS, LOST_LAST_LOGS, EMPTIED, TAKEN_OUT, EMPTIED_LAST, TAKEN_OUT_LAST})
"""The faults that take copies of records away."""

FIRST: Final = (TAKEN_OUT_LAST, EMPTIED)
"""Every run begins with these, however short it is."""

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
        self._directories = {number: LogDirectories(node) for number, node in cluster.nodes.items()}
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
            EMPTIED: self._empty_directory,
            TAKEN_OUT: self._take_directory_out,
            EMPTIED_LAST: self._empty_last_directory,
            TAKEN_OUT_LAST: self._take_last_directory_out,
        }
        self._weights = (6, 3, 4, 3, 3, 2, 1, 2, 2, 2, 1, 1, 1, 1)

    def run_until(self, moment: float) -> None:
        """Hurt until the monotonic clock shows ``moment``, and at least by the faults that every run begins with."""
        for kind in FIRST:
            self._wait_until_in_sync()
            self._hurt(kind)
        while time.monotonic() < moment:
            [kind] = self._rng.choices(list(self._kinds), self._weights)
            if kind not in LOSSES or self._all_are_in_sync():
                self._hurt(kind)

    def _hurt(self, kind: str) -> None:
        node = self._rng.randint(1, NODES)
        _LOGGER.info("%s (node %d)", kind, node)
        self._kinds[kind](node)
        self.faults[kind] += 1
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
        self._end(node)
        self._wait(0, 4)

    def _kill_all(self, _node: int) -> None:
        for number in self._cluster.nodes:
            self._end(number)
        self._wait(0, 1)

    def _kill_two(self, node: int) -> None:
        """Take the majority, while the node that is left goes on asking; both start together."""
        for number in (node, node % NODES + 1):
            self._end(number)
        self._wait(0, 4)

    def _end(self, node: int, *, in_order: bool = False) -> None:
        """Kill a node, or stop it in order if it listens to signals yet; it has all its directories when it starts again."""
        process = self._cluster.nodes[node]
        if in_order and process.is_ready:
            process.stop(HEAL_TIMEOUT_S)
        else:
            process.kill()
        self._directories[node].put_back()

    def _lose_logs(self, node: int) -> None:
        """Stop or kill a node, and start it without one log, or without any but those of other topics."""
        self._end(node, in_order=self._rng.random() < 0.5)
        self._remove_logs(node)

    def _lose_last_logs(self, node: int) -> None:
        """Kill a node after the others, so that it is the last in sync, and start it first without some of its logs."""
        for number in self._cluster.nodes:
            if number != node:
                self._end(number)
        self._wait(0, 4)
        self._lose_logs(node)
        self._cluster.nodes[node].launch()
        self._wait(0, 4)

    def _remove_logs(self, node: int) -> None:
        topics = self._topics if self._rng.random() < 0.3 else [self._rng.choice(self._topics)]
        partitions = range(PARTITIONS) if len(topics) > 1 else [self._rng.randrange(PARTITIONS)]
        for topic in topics:
            for partition in partitions:
                self._directories[node].remove_log(topic, partition)

    def _empty_directory(self, node: int) -> None:
        """Stop or kill a node, and start it with one of its directories empty."""
        self._end(node, in_order=self._rng.random() < 0.5)
        self._directories[node].empty(self._choose_directory(node))

    def _take_directory_out(self, node: int) -> None:
        """Stop or kill a node, and start it with a setting that lacks one of its directories, which is lost."""
        self._end(node, in_order=self._rng.random() < 0.5)
        self._directories[node].take_out(self._choose_directory(node))

    def _empty_last_directory(self, node: int) -> None:
        """As :meth:`_empty_directory`, with a node that ends as the last one in sync, and starts first."""
        self._stop_others(node)
        self._empty_directory(node)
        self._cluster.nodes[node].launch()
        self._wait(0, 4)

    def _take_last_directory_out(self, node: int) -> None:
        """As :meth:`_take_directory_out`, with a node that ends as the last one in sync, and starts first."""
        self._stop_others(node)
        self._take_directory_out(node)
        self._cluster.nodes[node].launch()
        self._wait(0, 4)

    def _stop_others(self, node: int) -> None:
        """Stop all nodes but one in order, one after the other: each leaves the in-sync sets while there is a majority to decide it."""
        for number in self._cluster.nodes:
            if number != node:
                self._end(number, in_order=True)

    def _choose_directory(self, node: int) -> Path:
        """One that holds something: that is lost without it."""
        return self._rng.choice(self._directories[node].find(self._topics))

    def _wait_until_in_sync(self) -> None:
        deadline = time.monotonic() + HEAL_TIMEOUT_S
        while not self._all_are_in_sync():
            assert time.monotonic() < deadline, f"not all replicas are in sync after {HEAL_TIMEOUT_S} s"

    def _all_are_in_sync(self) -> bool:
        """True if every copy can be spared: one copy at a time may be lost.

        What the last fault did to the in-sync sets is known once the session of a dead broker has ended.
        """
        if not all(node.is_ready for node in self._cluster.nodes.values()):
            return False
        self._wait(SESSION_S, SESSION_S + 1)
        try:
            known = self._admin.list_topics(timeout=5).topics
        except KafkaException:
            return False
        partitions = [partition for topic in known.values() for partition in topic.partitions.values()]
        return all(len(partition.isrs) == NODES for partition in partitions)

    def _stop(self, node: int) -> None:
        self._end(node, in_order=True)
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
        """A directory that failed stays offline until its node starts again, which it does at once in half of all cases."""
        self._disk.fill()
        self._wait(1, 5)
        self._disk.free()
        if self._rng.random() < 0.5:
            self._end(SMALL_DISK_NODE)


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
    cluster = Cluster(
        directory,
        NODES,
        SETTINGS,
        node_settings={number: directory_settings(directory / f"node-{number}") for number in range(1, NODES + 1)},
        make_node=make_node,
        network=cuttable_network(NODES),
    )
    disk = Disk(cluster, SMALL_DISK_NODE, int((64 + idle_partitions / 50 + 32 * minutes) * MIB))
    try:
        cluster.start()
        topics = [f"chaos-{writer.family}" for writer, _ in FAMILIES]
        _create(cluster, [*topics, TRIMMED], PARTITIONS, {"segment.bytes": str(MIB)})
        for number in range(idle_partitions // _IDLE_TOPIC_PARTITIONS):
            _create(cluster, [f"idle-{number}"], _IDLE_TOPIC_PARTITIONS, {MIN_ISR: LEAST_MIN_ISR})
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
            f"{TRIMMED}: {trimmed_writer.acked} records, {operator.deletions} deletions, {operator.changes} changes of topics' settings"
            f" and {operator.default_changes} of the default minimum acknowledged"
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


def _create(cluster: Cluster, topics: Sequence[str], partitions: int, config: Mapping[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    new = [NewTopic(topic, partitions, NODES, config=dict(config)) for topic in topics]
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
