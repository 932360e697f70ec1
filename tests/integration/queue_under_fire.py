"""A queue under fire, on real processes: by seed, nodes and members of a share group are killed while both work.

    python -m tests.integration.queue_under_fire --minutes 10 [--seed N]

A producer writes numbers; of twenty, one is poison, which members reject, or release until it is out of attempts. Members are of two
families, librdkafka and Java (:mod:`tests.integration.share_worker`). In the end all is healed and worked off, and the histories are
judged: each number that was acknowledged to the producer is accepted once, and not delivered again after that; poison is in the dead-letter
queue, with the reason and the number of its attempts (INV-SHARE-ACK, INV-SHARE-LOSS, INV-SHARE-COUNT).
"""

import argparse
import logging
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from esp.cli.app import run_tools
from esp.testing.cluster import Cluster
from esp.testing.kafka_tools import KafkaTools
from tests.integration.java_tools import JavaTools
from tests.integration.share_worker import is_poison

_LOGGER: Final = logging.getLogger(__name__)

NODES: Final = 3
PARTITIONS: Final = 6
TOPIC, GROUP, LETTERS = "orders", "packers", "dlq.orders"
JAVA_PROGRAM: Final = Path(__file__).with_name("ShareWorker.java")
ATTEMPTS_MAX: Final = 5
"""``group.share.delivery.count.limit``, the default."""

LOCK_S: Final = 2.0
STALE_S: Final = LOCK_S + 8.0
"""A record may reach its member so long after another one has accepted it: the answer lay in the member's client, and its lock is gone."""

RATE: Final = 100
"""Records a second."""

END_TIMEOUT_S: Final = 180.0
SETTINGS: Final = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.session.timeout.ms": "3000",
    "group.share.record.lock.duration.ms": str(int(LOCK_S * 1000)),
    "group.share.min.record.lock.duration.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
}


class Event(NamedTuple):
    """What a member told of a record."""

    word: str
    number: int
    deliveries: int
    at_s: float


class Worker:
    """A member's process, and all that it told.

    Args:
        command: starts it.
        family: of its client.
        messages: a file for what it says on stderr.
    """

    def __init__(self, command: Sequence[str], family: str, messages: Path) -> None:
        self.family = family
        self.events: list[Event] = []
        with messages.open("a") as stderr:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            words = line.rstrip("\n").split("\t")
            if line.endswith("\n") and len(words) == 4:  # else it died over the line
                self.events.append(Event(words[0], int(words[1]), int(words[2]), int(words[3]) / 1e9))

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()
        self._thread.join()

    def stop(self) -> None:
        """Let it leave the group."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
        self._thread.join()


class Feeder(threading.Thread):
    """Writes numbers from 0 on, at a steady rate."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.acked: set[int] = set()
        self.sent = 0
        self._stopping = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "delivery.timeout.ms": 600_000, "log_level": 0}
        )

    def run(self) -> None:
        """Write until told to stop."""
        while not self._stopping.wait(1 / RATE):
            number = self.sent
            self._producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._on_delivery)
            self.sent += 1
            self._producer.poll(0)

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            self.acked.add(int(message.value()))

    def finish(self) -> None:
        """Write no more; all is acknowledged."""
        self._stopping.set()
        self.join()
        assert self._producer.flush(END_TIMEOUT_S) == 0, "the producer cannot write"


@dataclass
class Report:
    """The results of a run."""

    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    acked: int = 0
    accepted: Counter[str] = field(default_factory=Counter)
    """Numbers that members of a family accepted."""
    deliveries: int = 0
    letters: int = 0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        faults = ", ".join(f"{count} x {name}" for name, count in sorted(self.faults.items()))
        families = ", ".join(f"{count} by {family}" for family, count in sorted(self.accepted.items()))
        lines = [
            f"seed {self.seed}; faults: {faults or 'none'}",
            f"  {self.acked} records acknowledged, {self.deliveries} deliveries; accepted: {families}; {self.letters} dead letters",
            f"  violations: {len(self.violations)}",
            *(f"    {violation}" for violation in self.violations[:50]),
        ]
        return "\n".join(lines)


class Queue:
    """The cluster, and the members at work.

    Args:
        directory: for all files.
        tools: Kafka's.
        members: how many of each family.
        rng: of the faults.
    """

    def __init__(self, directory: Path, tools: KafkaTools, members: dict[str, int], rng: random.Random) -> None:
        self.cluster = Cluster(directory / "cluster", NODES, SETTINGS)
        self.faults: Counter[str] = Counter()
        self.gone: list[Worker] = []
        """Members that have been killed, or have left."""
        self._directory = directory
        self._tools = tools
        self._members = members
        self._rng = rng
        self._workers: list[Worker] = []

    def begin(self) -> None:
        """Start the cluster, make the topics and set the members to work."""
        self.cluster.start()
        bootstrap = self.cluster.bootstrap
        JavaTools(self._tools, bootstrap)("features", "upgrade", "--feature", "share.version=2")
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        shared = {"min.insync.replicas": "2"}
        new = [
            NewTopic(TOPIC, PARTITIONS, NODES, config=shared),
            NewTopic(LETTERS, 2, NODES, config={**shared, "errors.deadletterqueue.group.enable": "true"}),
        ]
        for made in admin.create_topics(new).values():
            made.result(30)
        settings = (
            "share.auto.offset.reset=earliest",
            f"errors.deadletterqueue.topic.name={LETTERS}",
            "errors.deadletterqueue.copy.record.enable=true",
        )
        change = ["--alter", "--entity-type", "groups", "--entity-name", GROUP, "--add-config", ",".join(settings)]
        assert run_tools(["configs", "--bootstrap-server", bootstrap, *change]) == 0
        for family, count in self._members.items():
            for _ in range(count):
                self._start(family)

    def hurt(self, minutes: float) -> None:
        """Kill nodes and members, each of which comes back."""
        until = time.monotonic() + 60 * minutes
        while time.monotonic() < until:
            time.sleep(self._rng.uniform(0.5, 6))
            kind = self._rng.choice(("node", "node", "member", "member", "members leave"))
            self.faults[f"{kind} killed" if kind != "members leave" else kind] += 1
            _LOGGER.info("%s", kind)
            if kind == "node":
                self._kill_node()
            elif kind == "member":
                self._replace(self._rng.choice(self._workers), is_killed=True)
            else:
                for worker in self._rng.sample(self._workers, min(3, len(self._workers))):
                    self._replace(worker, is_killed=False)

    def finish(self) -> None:
        """Wait until nothing is left in the queue, and let all members leave."""
        for node in self.cluster.nodes.values():
            if not node.is_running:
                node.launch()
            node.wait_until_ready()
        ask = JavaTools(self._tools, self.cluster.bootstrap)
        deadline = time.monotonic() + END_TIMEOUT_S
        while any(lag != "0" for lag in _lags(ask)):
            assert time.monotonic() < deadline, f"the queue is not worked off: {_lags(ask)}"
            time.sleep(1)
        for worker in self._workers:
            worker.stop()
        self.gone += self._workers
        self._workers = []

    def close(self) -> None:
        """End everything."""
        for worker in self._workers:
            worker.kill()
        self.cluster.close()

    def _start(self, family: str) -> None:
        words = (self.cluster.bootstrap, GROUP, TOPIC)
        if family == "Java":
            command = self._tools.command(str(JAVA_PROGRAM), *words, heap="64m")
        else:
            command = [sys.executable, "-m", "tests.integration.share_worker", *words]
        self._workers.append(Worker(command, family, self._directory / f"{family}.stderr"))

    def _replace(self, worker: Worker, *, is_killed: bool) -> None:
        if is_killed:
            worker.kill()
        else:
            worker.stop()
        self._workers.remove(worker)
        self.gone.append(worker)
        self._start(worker.family)

    def _kill_node(self) -> None:
        node = self.cluster.nodes[self._rng.choice(sorted(self.cluster.nodes))]
        node.kill()
        time.sleep(self._rng.uniform(0, 4))
        node.launch()
        node.wait_until_ready()


def _lags(ask: JavaTools) -> list[str]:
    told = ask("share-groups", "--describe", "--group", GROUP, "--offsets")
    rows = [line.split() for line in told.splitlines() if line.startswith(GROUP)]
    return [row[-1] for row in rows] if len(rows) == PARTITIONS else ["unknown"]


def read_letters(bootstrap: str) -> dict[int, list[dict[str, bytes]]]:
    """The headers of the dead letters of each number."""
    settings = {"group.id": "undertaker", "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    partitions = [TopicPartition(LETTERS, number) for number in range(2)]
    ends = {one.partition: consumer.get_watermark_offsets(one, timeout=30)[1] for one in partitions}
    consumer.assign([TopicPartition(LETTERS, number, 0) for number in range(2)])
    found: defaultdict[int, list[dict[str, bytes]]] = defaultdict(list)
    for _ in range(sum(ends.values())):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        found[int(message.value() or b"")].append({name: value or b"" for name, value in message.headers() or ()})
    consumer.close()
    return dict(found)


def judge(
    acked: set[int], sent: int, events: Sequence[Event], letters: dict[int, list[dict[str, bytes]]]
) -> Iterator[str]:
    """Return all that cannot be in a correct history."""
    by_number: defaultdict[int, list[Event]] = defaultdict(list)
    for event in events:
        by_number[event.number].append(event)
    for number in range(sent):
        told = by_number[number]
        if is_poison(number):
            if number in acked and number not in letters:
                yield f"{number} is poison, and there is no letter of it: {told}"
            continue
        if number in letters:
            yield f"{number} is a dead letter, though members accept it: {told}"
        sure = [event for event in told if event.word == "accepted"]
        if len(sure) > 1:
            yield f"{number} was accepted twice: {sure}"
        if number in acked and not sure and not any(event.word in ("got", "unsure") for event in told):
            yield f"{number} was never delivered"
        for event in told:
            if event.word != "got":
                continue
            if event.deliveries > ATTEMPTS_MAX:
                yield f"{number} was delivered beyond the limit: {event}"
            if sure and (event.deliveries > sure[0].deliveries or event.at_s > sure[0].at_s + STALE_S):
                yield f"{number} was delivered again after it was accepted: {sure[0]}, {event}"
    for number in sorted(letters.keys() - set(range(sent))):
        yield f"there is a letter of {number}, which was never written"


def run(directory: Path, minutes: float, seed: int, members: dict[str, int]) -> Report:
    """Run a queue under fire, and judge it."""
    report = Report(seed)
    queue = Queue(directory, KafkaTools.find(), members, random.Random(seed))
    try:
        queue.begin()
        feeder = Feeder(queue.cluster.bootstrap)
        feeder.start()
        queue.hurt(minutes)
        _LOGGER.info("heal")
        feeder.finish()
        queue.finish()
        letters = read_letters(queue.cluster.bootstrap)
        events = [event for worker in queue.gone for event in worker.events]
        report.faults, report.acked = queue.faults, len(feeder.acked)
        report.deliveries = sum(event.word == "got" for event in events)
        report.letters = sum(map(len, letters.values()))
        for worker in queue.gone:
            report.accepted[worker.family] += sum(event.word == "accepted" for event in worker.events)
        report.violations += judge(feeder.acked, feeder.sent, events, letters)
        queue.cluster.stop()
    except BaseException:
        _LOGGER.exception("the run broke off; the nodes' last words:\n%s", queue.cluster.output[-20_000:])
        raise
    finally:
        queue.close()
    return report


def main() -> int:
    """Run from the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="queue_under_fire", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: 10)")
    parser.add_argument("--seed", type=int, default=None, help="of the faults (default: a new one)")
    parser.add_argument("--librdkafka", type=int, default=15, help="members of librdkafka (default: 15)")
    parser.add_argument("--java", type=int, default=5, help="members of Kafka's own client (default: 5)")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory(prefix="queue-") as directory:
        report = run(Path(directory), options.minutes, seed, {"librdkafka": options.librdkafka, "Java": options.java})
    sys.stdout.write(f"{report}\n")
    return 1 if report.violations or not report.acked else 0


if __name__ == "__main__":
    sys.exit(main())
