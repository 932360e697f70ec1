"""Hostile clients against a running node, by seed: what they send is spoilt, endless, huge, slow, or too much, and one client is honest.

    python -m tests.integration.fuzz --minutes 30 [--seed N] [--kafka]

The node must stay up and go on serving, its memory must stay below a bound, and so must what the honest client's requests take of the
node. The attackers take much of the machine too, for which the node cannot be blamed: so a second node, which nobody attacks, serves an
honest client of its own in the same time, and the first one's requests may take twice as long as those. Kafka can be attacked in the same
way, to compare: of it no more is asked than that it lives.
"""

import argparse
import itertools
import logging
import os
import random
import resource
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Final

from kio.index import load_request_schema

from esp.protocol.registry import SERVED_ON, ApiKey, ListenerKind, ServedApi
from esp.records.builder import NewRecord, build_batch
from esp.testing.node import Node
from esp.testing.node_process import HOST, NodeProcess
from esp.testing.real_kafka import RealKafka
from tests.integration import messages
from tests.integration.fuzz_report import MEMORY_MAX_BYTES, MIB, Descriptors, Phase, Report, Tally
from tests.integration.honest_client import HonestClient, Latency, waits_are_told
from tests.integration.many_elements import long_requests
from tests.integration.wire import Wire, frame
from tests.unit.protocol.hostile import example

_LOGGER: Final = logging.getLogger(__name__)

ATTACKER: Final = "127.0.0.2"
"""The address that attackers come from, so that limits for an address leave the honest client alone."""

IP_BIND_ADDRESS_NO_PORT: Final = 24
"""Linux's option (socket names it from Python 3.12 on). A port that bind() chose is taken from every other address until its connection is
forgotten, which is a minute: attackers would soon find no port, nor would the honest."""

SETTINGS: Final = {
    "max.connections.per.ip": "300",
    "connections.max.idle.ms": "5000",
    "queued.max.request.bytes": str(64 * MIB),
}
ATTACKERS: Final = 4
ATTACKERS_NICE: Final = 10
"""Attackers sit on machines of their own; the processor that they use here must not be what the honest miss."""

LATENCY_MAX_MS: Final = 12.0
"""A bound for the 99th percentile of what honest requests take of the node under attack, on a slow and busy machine too: it is 0.5 to 2 ms
on two processors, half a millisecond when nobody attacks."""

TIMES_MAX: Final = 2.0
"""How many times as long honest requests may take under attack, at the 99th percentile, as those of a node that nobody attacks."""

JUDGED_REQUESTS_MIN: Final = 1_000
"""Of a phase whose latencies are judged: the 99th percentile of fewer is what happened once or twice."""

PREPARED: Final = b"prepared for requests of every kind"
"""What a node logs when it has made what the first request of a kind would make: that is done once, and is no attack's doing."""

PREPARED_WITHIN_S: Final = 120.0
KAFKA_WARM_UP_S: Final = 20.0
KAFKA_SETTINGS: Final = {"queued.max.request.bytes": str(100 * MIB)}
"""Kafka allows no less than one request may have."""

CALM_S: Final = 5.0
CLOSED_WITHIN_S: Final = 60.0
"""After the attacks: idle connections are ended within 7.5 s, those that somebody has let go of at once."""

BOMB_BYTES: Final = 64 * MIB
LEGITIMATE: Final = {ApiKey.UNREGISTER_BROKER}
"""What may be asked for by everybody, as long as nobody is asked who they are, and ends the service of this node."""

KINDS: Final = {
    "spoilt requests": 12,
    "garbage": 4,
    "half a request": 4,
    "a large request, slowly": 3,
    "answers that nobody takes": 3,
    "very many elements": 3,
    "flood of connections": 2,
    "bomb": 2,
}
"""How often each kind of attack comes when all come at once."""

ALONE_SHARE: Final = 0.5
"""Of the time, in which one kind of attack comes after the other; in the rest all come at once."""

ELEMENTS: Final = 5_000

SERVED: Final = tuple(api for key, api in SERVED_ON[ListenerKind.BROKER].items() if key not in LEGITIMATE)


class Attacker:
    """One after another, by seed.

    Args:
        node: the victim.
        rng: of this attacker alone.
    """

    def __init__(self, node: NodeProcess, rng: random.Random) -> None:
        self._node = node
        self._rng = rng
        self.tallies: dict[str, Tally] = {name: Tally() for name in KINDS}
        """What it has done, by kind of attack."""
        self._tally = Tally()
        self._attacks: dict[str, Callable[[], None]] = {
            "spoilt requests": self._spoil,
            "garbage": self._garbage,
            "half a request": self._half,
            "a large request, slowly": self._slow_and_large,
            "answers that nobody takes": self._take_nothing,
            "very many elements": self._name_many,
            "flood of connections": self._flood,
            "bomb": self._bomb,
        }

    def run_until(self, moment: float, kinds: Mapping[str, int]) -> None:
        """Attack until the monotonic clock shows ``moment``, in kinds of these weights."""
        names, weights = list(kinds), list(kinds.values())
        while time.monotonic() < moment:
            [kind] = self._rng.choices(names, weights)
            self._tally = self.tallies[kind]
            self._tally.attacks += 1
            with suppress(OSError, EOFError):  # the node may end any of these connections
                self._attacks[kind]()

    def _connect(self) -> socket.socket:
        connection = socket.socket()
        try:
            connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            connection.bind((ATTACKER, 0))
            connection.settimeout(5)
            connection.connect((HOST, self._node.port))
        except OSError:
            connection.close()
            raise
        self._tally.connections += 1
        return connection

    def _request(self) -> bytes:
        api = self._rng.choice(SERVED)
        version = self._rng.randint(api.min_version, api.max_version)
        return frame(example(load_request_schema(api.key, version)), self._rng.randrange(1 << 31))

    def _spoil(self) -> None:
        """Requests with some of their bytes changed, sent in pieces."""
        with self._connect() as connection:
            for _ in range(self._rng.randint(1, 20)):
                data = spoil(self._request(), self._rng)
                self._tally.requests += 1
                for piece in split(data, self._rng):
                    connection.sendall(piece)
            connection.settimeout(0.05)
            with suppress(TimeoutError):
                connection.recv(65_536)

    def _garbage(self) -> None:
        with self._connect() as connection:
            connection.sendall(self._rng.randbytes(self._rng.choice((1, 4, 5, 100, 70_000))))

    def _half(self) -> None:
        """Many connections that begin a request and say no more for a while."""
        with ExitStack() as open_:
            for _ in range(self._rng.randint(1, 50)):
                data = self._request()
                self._tally.requests += 1
                open_.enter_context(self._connect()).sendall(data[: self._rng.randint(1, len(data) - 1)])
            time.sleep(self._rng.uniform(0, 0.5))  # the attack is that nothing happens

    def _slow_and_large(self) -> None:
        """Requests that say they are large, on many connections at once."""
        with ExitStack() as open_:
            victims = [open_.enter_context(self._connect()) for _ in range(self._rng.randint(1, 20))]
            size = self._rng.randint(MIB, 90 * MIB)
            self._tally.requests += len(victims)
            for connection in victims:
                connection.sendall(struct.pack(">ihhi", size, 0, 9, 1))
                connection.setblocking(False)
            for connection in itertools.islice(itertools.cycle(victims), 10 * len(victims)):
                with suppress(BlockingIOError):
                    connection.send(bytes(MIB))

    def _take_nothing(self) -> None:
        """A thousand requests, and no answer read."""
        with self._connect() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(0.5)
            request = frame(messages.metadata(), 1) + frame(messages.fetch("honest", 0), 2)
            with suppress(TimeoutError):
                connection.sendall(request * 1000)
            self._tally.requests += 2000

    def _name_many(self) -> None:
        """A request whose arrays have thousands of elements, which are decoded and answered one by one."""
        requests = many(self._rng.choice(SERVED))
        with self._connect() as connection:
            for _ in range(self._rng.randint(1, 5)):
                connection.sendall(self._rng.choice(requests))
                self._tally.requests += 1
            connection.settimeout(2)
            with suppress(TimeoutError):
                while connection.recv(1_000_000):
                    pass

    def _flood(self) -> None:
        with ExitStack() as open_:
            for _ in range(400):
                open_.enter_context(self._connect())

    def _bomb(self) -> None:
        """A batch that is small and becomes large for whoever opens it."""
        with self._connect() as connection:
            connection.sendall(frame(messages.produce("bombs", self._rng.choice(bombs())), 1))
            connection.sendall(frame(messages.list_offsets("bombs", 5), 2))
            self._tally.requests += 2
            connection.recv(65_536)


def spoil(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, repeated, cut out or put in; the length in front is mostly made to fit again."""
    spoilt = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 5))):
        place = rng.randrange(4, len(spoilt)) if len(spoilt) > 4 else len(spoilt)
        match rng.randrange(5):
            case 0:
                spoilt[place : place + 1] = bytes([rng.randrange(256)])
            case 1:
                spoilt[place : place + 4] = struct.pack(">I", rng.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)))
            case 2:
                del spoilt[place : place + rng.randint(1, 20)]
            case 3:
                spoilt[place:place] = spoilt[place : place + rng.randint(1, 50)]
            case _:
                spoilt[place:place] = rng.randbytes(rng.randint(1, 10))
    if rng.random() < 0.9:
        spoilt[:4] = struct.pack(">i", len(spoilt) - 4)
    return bytes(spoilt)


def split(data: bytes, rng: random.Random) -> Iterator[bytes]:
    """The bytes in pieces of random size."""
    position = 0
    while position < len(data):
        size = rng.choice((1, 3, 50, len(data)))
        yield data[position : position + size]
        position += size


_BOMBS: Final[list[bytes]] = []


def bombs() -> list[bytes]:
    """Batches of all codecs with far more in them than they weigh; made once."""
    if not _BOMBS:
        record = NewRecord(bytes(BOMB_BYTES))
        _BOMBS.extend(
            batch
            for codec in (1, 2, 3, 4)
            if len(batch := build_batch([record], base_offset=0, leader_epoch=-1, timestamp_ms=10, codec=codec)) < MIB
        )
        assert _BOMBS, "some codec makes little of zeros"
    return _BOMBS


@cache
def many(api: ServedApi) -> list[bytes]:
    """Requests of an API with many elements, one for each of its arrays; a plain one if it has none."""
    requests = [frame(request, 1) for request in long_requests(api.key, api.max_version, ELEMENTS)]
    return requests or [frame(example(load_request_schema(api.key, api.max_version)), 1)]


def run(directory: Path, minutes: float, seed: int, *, is_kafka: bool = False, times_max: float = TIMES_MAX) -> Report:
    """Attack a node for some time and report."""
    report = Report(seed)
    began = time.monotonic()
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    bombs()
    make_node = RealKafka if is_kafka else Node
    settings = {**SETTINGS, **(KAFKA_SETTINGS if is_kafka else {})}
    with make_node(directory / "node", settings) as node, make_node(directory / "twin", settings) as twin:
        for each in (node, twin):
            with Wire(each) as wire:
                wire.call(messages.metadata("honest", "bombs", create=True))
            wait_until_prepared(each)
        honest, control = HonestClient(node.port, node.pid), HonestClient(twin.port, twin.pid)
        report.phases.append(Phase("before the attack", time.monotonic()))
        look_at(node, report)
        time.sleep(CALM_S)  # the calm before the attack is what it is compared with
        os.nice(ATTACKERS_NICE)
        attackers = [Attacker(node, random.Random(seed * ATTACKERS + number)) for number in range(ATTACKERS)]
        alone_s = minutes * 60 * ALONE_SHARE / len(KINDS)
        for name in KINDS:
            attack(node, report, attackers, f"{name}, alone", {name: 1}, alone_s)
        attack(node, report, attackers, "all at once", KINDS, minutes * 60 * (1 - ALONE_SHARE))
        for attacker in attackers:
            for name, tally in attacker.tallies.items():
                total = report.tallies[name]
                total.attacks += tally.attacks
                total.connections += tally.connections
                total.requests += tally.requests
        try:
            latencies, unattacked = honest.end(), control.end()
        except RuntimeError as error:
            report.failures.append(f"an honest client failed: {error}")
        else:
            for latency in latencies:
                phase_of(latency, report).latencies.append(latency)
            for latency in unattacked:
                phase_of(latency, report).control.append(latency)
        report.failures += judge(node, report, times_max, is_kafka=is_kafka)
        if is_kafka:
            node.kill()  # an orderly stop may take it minutes after this
    report.seconds = time.monotonic() - began
    return report


def phase_of(latency: Latency, report: Report) -> Phase:
    """The phase that a request began in."""
    begun = [phase for phase in report.phases if phase.begun_s <= latency.begun_s]
    return begun[-1] if begun else report.phases[0]


def attack(
    node: NodeProcess,
    report: Report,
    attackers: Sequence[Attacker],
    name: str,
    kinds: Mapping[str, int],
    seconds: float,
) -> None:
    """One phase of a run: all attackers, in these kinds, for some time."""
    if not node.is_running:
        return
    report.phases.append(Phase(name, time.monotonic()))
    end = time.monotonic() + seconds
    threads = [threading.Thread(target=attacker.run_until, args=(end, kinds)) for attacker in attackers]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        threads[0].join(0.2)
        if node.is_running:
            look_at(node, report)
    for thread in threads:
        thread.join()


def look_at(node: NodeProcess, report: Report) -> None:
    """Write down what the node has taken."""
    with suppress(FileNotFoundError):  # it has just ended
        report.memory.append(node.own_memory_bytes())
        report.descriptors.append(Descriptors.of(node.pid))


def wait_until_prepared(node: NodeProcess) -> None:
    """Wait for the end of what a node does on its own after its start."""
    if isinstance(node, RealKafka):
        wait_until_warm(node)
        return
    deadline = time.monotonic() + PREPARED_WITHIN_S
    while PREPARED not in node.stderr_path.read_bytes():
        assert node.is_running, node.output
        assert time.monotonic() < deadline, f"the node is not prepared\n{node.output}"
        time.sleep(0.1)


def wait_until_warm(kafka: RealKafka) -> None:
    """Write until the new topics have leaders, and the virtual machine has compiled what serves them."""
    batch = build_batch([NewRecord(b"x")], base_offset=0, leader_epoch=-1, timestamp_ms=int(time.time() * 1000))
    deadline = time.monotonic() + KAFKA_WARM_UP_S
    with Wire(kafka) as wire:
        while time.monotonic() < deadline:
            for topic in ("honest", "bombs"):
                wire.call(messages.produce(topic, batch))


def judge(node: NodeProcess, report: Report, times_max: float, *, is_kafka: bool) -> Iterator[str]:
    """All that must not be."""
    if not node.is_running:
        report.crashes += 1
        yield f"the node ended:\n{node.output[-5000:]}"
        return
    if is_kafka:
        return
    if max(report.memory) > MEMORY_MAX_BYTES:
        yield f"the node took {max(report.memory) / MIB:.0f} MiB"
    for phase in report.phases:
        if min(len(phase.latencies), len(phase.control)) < JUDGED_REQUESTS_MIN:
            continue
        if waits_are_told() and phase.of_node_p99_ms > LATENCY_MAX_MS:
            yield f"{phase.name}: honest requests took {phase.of_node_p99_ms:.1f} ms of the node at the 99th percentile"
    for what, times in (
        ("in all", report.under_attack.times_p99),
        ("of the node", report.under_attack.times_of_node_p99),
    ):
        if times > times_max:
            yield f"honest requests took {times:.1f} times as long {what} as those of a node that nobody attacks"
    with Wire(node, 30) as wire:
        if not wire.call(messages.metadata()).cluster_id:
            yield "the node does not answer"
    deadline = time.monotonic() + CLOSED_WITHIN_S
    while Descriptors.of(node.pid).sockets >= report.descriptors[0].sockets and time.monotonic() < deadline:
        time.sleep(0.1)
    look_at(node, report)
    if report.descriptors[-1].sockets >= report.descriptors[0].sockets:  # of which one was the honest client's
        yield f"{report.descriptors[-1].sockets} sockets are open after the attacks"


def main() -> int:
    """Run from the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (default: 30)")
    parser.add_argument("--seed", type=int, default=None, help="of the attacks (default: a new one)")
    parser.add_argument(
        "--times",
        type=float,
        default=TIMES_MAX,
        help="how many times as long honest requests may take as those of a node that nobody attacks (default: %(default)s)",
    )
    parser.add_argument("--kafka", action="store_true", help="attack Kafka instead, for a comparison")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000)
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(message)s")
    with tempfile.TemporaryDirectory(prefix="esp-fuzz-") as directory:
        _LOGGER.info("seed %d", seed)
        report = run(Path(directory), options.minutes, seed, is_kafka=options.kafka, times_max=options.times)
    _LOGGER.info("%s", report)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
