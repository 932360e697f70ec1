"""Hostile clients against a running node, by seed: what they send is spoilt, endless, huge, slow, or too much, and one client is honest.

    python -m tests.integration.fuzz --minutes 30 [--seed N]

The node must stay up and go on serving, its memory must stay below a bound, and so must what the honest client's requests take of the
node; their latencies are told for the time before and for the time under attack.
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
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kio.index import load_request_schema

from esp.protocol.registry import SERVED_ON, ApiKey, ListenerKind
from esp.records.builder import build_batch
from esp.records.record import NewRecord
from esp.testing.node import Node
from esp.testing.node_process import HOST
from tests.integration import messages
from tests.integration.honest_client import HonestClient, Latency, percentile, waits_are_told
from tests.integration.wire import Wire, frame
from tests.unit.protocol.hostile import example

_LOGGER: Final = logging.getLogger(__name__)

MIB: Final = 1024 * 1024
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
MEMORY_MAX_BYTES: Final = 600 * MIB
"""A bound for the node's resident memory under these settings."""

ATTACKERS: Final = 4
ATTACKERS_NICE: Final = 10
"""Attackers sit on machines of their own; the processor that they use here must not be what the honest miss."""

LATENCY_MAX_MS: Final = 25.0
"""A bound for the 99th percentile of what honest requests take of the node under attack, on a slow and busy machine too: it is 1 to 3 ms on
two processors, half a millisecond when nobody attacks."""

PREPARED: Final = b"prepared for requests of every kind"
"""What a node logs when it has made what the first request of a kind would make: that is done once, and is no attack's doing."""

PREPARED_WITHIN_S: Final = 120.0
CALM_S: Final = 5.0
BOMB_BYTES: Final = 64 * MIB
LEGITIMATE: Final = {ApiKey.UNREGISTER_BROKER}
"""What may be asked for by everybody, as long as nobody is asked who they are, and ends the service of this node."""

SERVED: Final = tuple(api for key, api in SERVED_ON[ListenerKind.BROKER].items() if key not in LEGITIMATE)


@dataclass
class Report:
    """What a run came to."""

    seed: int
    seconds: float = 0.0
    attacks: Counter[str] = field(default_factory=Counter)
    connections: int = 0
    peak_rss_bytes: int = 0
    calm: list[Latency] = field(default_factory=list)
    attacked: list[Latency] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        attacks = ", ".join(f"{count} x {name}" for name, count in sorted(self.attacks.items()))
        return "\n".join(
            (
                f"seed {self.seed}, {self.seconds:.0f} s, {self.connections} hostile connections; {attacks}",
                f"  memory: {self.peak_rss_bytes / MIB:.0f} MiB at most (bound {MEMORY_MAX_BYTES // MIB})",
                f"  an honest client: {len(self.calm) + len(self.attacked)} requests answered",
                f"    before the attack: {described(self.calm)}",
                f"    during the attack: {described(self.attacked)}",
                f"  failures: {len(self.failures)}",
                *(f"    {failure}" for failure in self.failures[:20]),
            )
        )


def described(latencies: Sequence[Latency]) -> str:
    """Their distribution in one line."""
    texts = []
    for name, values in (
        ("in all", [latency.ms for latency in latencies]),
        ("of the node", [latency.of_node_ms for latency in latencies]),
    ):
        p50, p99, p999 = (percentile(values, percent) for percent in (50, 99, 99.9))
        texts.append(f"{name} p50 {p50:.1f} p99 {p99:.1f} p99.9 {p999:.1f} ms")
    return "; ".join(texts)


class Attacker:
    """One after another, by seed.

    Args:
        node: the victim.
        rng: of this attacker alone.
        report: counts what was done.
    """

    def __init__(self, node: Node, rng: random.Random, report: Report) -> None:
        self._node = node
        self._rng = rng
        self._report = report
        self._attacks: tuple[tuple[str, int, Callable[[], None]], ...] = (
            ("spoilt requests", 12, self._spoil),
            ("garbage", 4, self._garbage),
            ("half a request", 4, self._half),
            ("a large request, slowly", 3, self._slow_and_large),
            ("answers that nobody takes", 3, self._take_nothing),
            ("flood of connections", 2, self._flood),
            ("bomb", 2, self._bomb),
        )

    def run_until(self, moment: float) -> None:
        """Attack until the monotonic clock shows ``moment``."""
        kinds, weights, _ = zip(*self._attacks, strict=True)
        attacks = {name: attack for name, _, attack in self._attacks}
        while time.monotonic() < moment:
            [kind] = self._rng.choices(kinds, weights)
            self._report.attacks[kind] += 1
            with suppress(OSError, EOFError):  # the node may end any of these connections
                attacks[kind]()

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
        self._report.connections += 1
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
                open_.enter_context(self._connect()).sendall(data[: self._rng.randint(1, len(data) - 1)])
            time.sleep(self._rng.uniform(0, 0.5))  # the attack is that nothing happens

    def _slow_and_large(self) -> None:
        """Requests that say they are large, on many connections at once."""
        with ExitStack() as open_:
            victims = [open_.enter_context(self._connect()) for _ in range(self._rng.randint(1, 20))]
            size = self._rng.randint(MIB, 90 * MIB)
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

    def _flood(self) -> None:
        with ExitStack() as open_:
            for _ in range(400):
                open_.enter_context(self._connect())

    def _bomb(self) -> None:
        """A batch that is small and becomes large for whoever opens it."""
        with self._connect() as connection:
            connection.sendall(frame(messages.produce("bombs", self._rng.choice(bombs())), 1))
            connection.sendall(frame(messages.list_offsets("bombs", 5), 2))
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


def run(directory: Path, minutes: float, seed: int) -> Report:
    """Attack a node for some time and report."""
    report = Report(seed)
    began = time.monotonic()
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    bombs()
    with Node(directory, SETTINGS) as node:
        with Wire(node) as wire:
            wire.call(messages.metadata("honest", "bombs", create=True))
        wait_until_prepared(node)
        honest = HonestClient(node.port, node.pid)
        time.sleep(CALM_S)  # the calm before the attack is what it is compared with
        os.nice(ATTACKERS_NICE)
        attack_s = time.monotonic()
        end = time.monotonic() + minutes * 60
        attackers = [
            threading.Thread(
                target=Attacker(node, random.Random(seed * ATTACKERS + number), report).run_until, args=(end,)
            )
            for number in range(ATTACKERS)
        ]
        for attacker in attackers:
            attacker.start()
        while any(attacker.is_alive() for attacker in attackers):
            attackers[0].join(0.2)
            if not node.is_running:
                break
            report.peak_rss_bytes = max(report.peak_rss_bytes, node.rss_bytes())
        for attacker in attackers:
            attacker.join()
        try:
            latencies = honest.end()
        except RuntimeError as error:
            report.failures.append(f"the honest client failed: {error}")
        else:
            report.calm = [latency for latency in latencies if latency.begun_s < attack_s]
            report.attacked = [latency for latency in latencies if latency.begun_s >= attack_s]
        report.failures += judge(node, report)
    report.seconds = time.monotonic() - began
    return report


def wait_until_prepared(node: Node) -> None:
    """Wait for the end of what a node does on its own after its start."""
    deadline = time.monotonic() + PREPARED_WITHIN_S
    while PREPARED not in node.stderr_path.read_bytes():
        assert node.is_running, node.output
        assert time.monotonic() < deadline, f"the node is not prepared\n{node.output}"
        time.sleep(0.1)


def judge(node: Node, report: Report) -> Iterator[str]:
    """All that must not be."""
    if not node.is_running:
        yield f"the node ended:\n{node.output[-5000:]}"
        return
    if report.peak_rss_bytes > MEMORY_MAX_BYTES:
        yield f"the node took {report.peak_rss_bytes / MIB:.0f} MiB"
    of_node_ms = percentile([latency.of_node_ms for latency in report.attacked], 99)
    if waits_are_told() and of_node_ms > LATENCY_MAX_MS:
        yield f"honest requests took {of_node_ms:.1f} ms of the node at the 99th percentile"
    with Wire(node, 30) as wire:
        if not wire.call(messages.metadata()).cluster_id:
            yield "the node does not answer"


def main() -> int:
    """Run from the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (default: 30)")
    parser.add_argument("--seed", type=int, default=None, help="of the attacks (default: a new one)")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000)
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(message)s")
    with tempfile.TemporaryDirectory(prefix="esp-fuzz-") as directory:
        _LOGGER.info("seed %d", seed)
        report = run(Path(directory), options.minutes, seed)
    _LOGGER.info("%s", report)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
