"""Hostile clients by seed: what they send is spoilt, endless, huge, slow, or too much."""

import itertools
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import cache
from typing import ClassVar, Final

from kio.index import load_request_schema

from esp.protocol.registry import SERVED_ON, ApiKey, ListenerKind, ServedApi
from esp.records.builder import NewRecord, build_batch
from esp.testing.node_process import HOST, NodeProcess
from tests.integration import messages
from tests.integration.fuzz_report import MIB, Tally
from tests.integration.many_elements import long_requests
from tests.integration.wire import frame
from tests.unit.protocol.hostile import example

ATTACKER: Final = "127.0.0.2"
"""The address that attackers come from, so that limits for an address leave the honest client alone."""

IP_BIND_ADDRESS_NO_PORT: Final = 24
"""Linux's option (socket names it from Python 3.12 on). A port that bind() chose is taken from every other address until its connection is
forgotten, which is a minute: attackers would soon find no port, nor would the honest."""

BOMB_BYTES: Final = 64 * MIB
LEGITIMATE: Final = {ApiKey.UNREGISTER_BROKER}
"""What may be asked for by everybody, as long as nobody is asked who they are, and ends the service of this node."""

ELEMENTS: Final = 5_000

SERVED: Final = tuple(api for key, api in SERVED_ON[ListenerKind.BROKER].items() if key not in LEGITIMATE)


class Attacker:
    """One after another, by seed.

    Args:
        node: the victim.
        rng: of this attacker alone.
    """

    KINDS: ClassVar[Mapping[str, int]] = {
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

    def __init__(self, node: NodeProcess, rng: random.Random) -> None:
        self._node = node
        self._rng = rng
        self.tallies: dict[str, Tally] = {name: Tally() for name in self.KINDS}
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
        return self._connect_to(self._node.port)

    def _connect_to(self, port: int) -> socket.socket:
        connection = socket.socket()
        try:
            connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            connection.bind((ATTACKER, 0))
            connection.settimeout(5)
            connection.connect((HOST, port))
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
