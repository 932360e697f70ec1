"""A connection on a transport that reads when uvloop's does: whatever its owner, its peer and its turns do, its buffer is never overrun."""

import asyncio
import socket
import struct
import time
from random import Random
from typing import NoReturn

import pytest

from esp.ports.network import Connection
from esp.runtime.asyncio_connection import AsyncioConnection
from esp.runtime.buffer_sweeper import BufferSweeper
from esp.runtime.loop_shares import BURST_NS, LoopShares
from esp.runtime.receive_buffer import INITIAL_BYTES, RECEIVED_AT_ONCE_MAX
from esp.runtime.transfer_turns import TransferTurns

_LENGTH = struct.Struct(">i")


class EndedHost:
    """A host that fails the test if it is told to end."""

    boot_id = name = "test"

    def fatal(self, reason: str) -> NoReturn:
        pytest.fail(f"the node would have ended: {reason}", pytrace=True)


class UvloopTransport(asyncio.Transport):
    """Delivers bytes while it reads. As uvloop's, it begins to when ``connection_made`` has returned, paused or not.

    Args:
        data: what the peer sends, as fast as it is taken.
        rng: says how much of it arrives in one read; all that there is room for if not given.
    """

    def __init__(self, data: bytes, rng: Random | None = None) -> None:
        super().__init__({"peername": ("127.0.0.2", 1)})
        self.left = memoryview(data)
        self.reading = self.closing = False
        self._rng = rng

    def open(self, protocol: AsyncioConnection) -> None:
        self._protocol = protocol
        protocol.connection_made(self)
        self.reading = True

    def read(self) -> None:
        """One event of the socket: libuv reads on until a read does not fill the buffer that it was given, or reading was paused."""
        while self.reading and self.left:
            room = self._protocol.get_buffer(-1)
            arrived = min(len(self.left), len(room))
            if self._rng is not None:
                arrived = min(arrived, self._rng.choice((100, 7000, INITIAL_BYTES, arrived)))
            room[:arrived] = self.left[:arrived]
            self.left = self.left[arrived:]
            self._protocol.buffer_updated(arrived)
            if arrived < len(room):
                return

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def abort(self) -> None:
        self.reading, self.closing = False, True


class MoodyOwner:
    """Takes whole frames, and pauses and resumes by seed: as it is made, in a read, and between reads."""

    def __init__(self, connection: Connection, rng: Random) -> None:
        self.connection = connection
        self.frames: list[bytes] = []
        self.paused = False
        self._rng = rng
        self.change_mood()

    def change_mood(self) -> None:
        if self._rng.random() < 0.3:
            self.paused = not self.paused
            if self.paused:
                self.connection.pause_reading()
            else:
                self.connection.resume_reading()

    def on_bytes(self, received: memoryview) -> int:
        assert not self.paused
        position = 0
        while not self.paused and len(received) - position >= _LENGTH.size:
            end = position + _LENGTH.size + _LENGTH.unpack_from(received, position)[0]
            if end > len(received):
                self.change_mood()  # as a session does that has to wait for memory
                if not self.paused:
                    self.connection.expect(end - position)
                break
            self.frames.append(bytes(received[position + _LENGTH.size : end]))
            position = end
            self.change_mood()
        return position

    def on_closed(self) -> None: ...

    def on_writable(self, writable: bool) -> None: ...


def connected(transport: UvloopTransport, rng: Random, sweeper: BufferSweeper, shares: LoopShares) -> MoodyOwner:
    owners: list[MoodyOwner] = []

    def accept(connection: Connection) -> MoodyOwner:
        owners.append(MoodyOwner(connection, rng))
        return owners[0]

    transport.open(AsyncioConnection(accept, EndedHost(), sweeper, TransferTurns(), shares))
    return owners[0]


def frames_of(sizes: list[int]) -> list[bytes]:
    return [bytes([number % 256]) * size for number, size in enumerate(sizes)]


@pytest.mark.parametrize("seed", range(100))
def test_all_arrives_in_order_whenever_the_owner_pauses_and_whoever_has_its_turn(seed: int) -> None:
    rng = Random(seed)
    sizes = [0, 16, 1000, INITIAL_BYTES - 4, INITIAL_BYTES, 70_000] + [RECEIVED_AT_ONCE_MAX + 5] * (seed % 5 == 0)
    sent = frames_of(rng.choices(sizes, k=40))

    async def body() -> None:
        sweeper, shares = BufferSweeper(), LoopShares()
        shares.enter("127.0.0.3")
        transport = UvloopTransport(b"".join(_LENGTH.pack(len(frame)) + frame for frame in sent), rng)
        owner = connected(transport, rng, sweeper, shares)
        for _ in range(20_000):
            transport.read()
            await asyncio.sleep(0)
            owner.change_mood()
            if rng.random() < 0.1:
                sweeper.sweep()
            if rng.random() < 0.1:
                _spend(shares)
            if len(owner.frames) == len(sent):
                break
        assert owner.frames == sent

    asyncio.run(asyncio.wait_for(body(), 20))


def test_buffer_that_is_exactly_full_when_it_shrinks_holds_what_arrives_before_the_turn() -> None:
    """The peer's address waits for its turn with bytes that fill the least buffer, while its own buffer is larger, and idle for long."""
    sent = frames_of([70_000] + [INITIAL_BYTES - 4] + [16] * 2000)

    async def body() -> None:
        sweeper, shares = BufferSweeper(), LoopShares()
        shares.enter("127.0.0.3")
        large, full, *small = (_LENGTH.pack(len(frame)) + frame for frame in sent)
        transport = UvloopTransport(large)
        owner = connected(transport, _Calm(), sweeper, shares)
        while transport.left:
            transport.read()
        sweeper.sweep()  # the large frame was needed since the last one
        _spend(shares)
        transport.left = memoryview(full)
        transport.read()
        assert not transport.left
        assert len(owner.frames) == 1, "the second waits for its turn"
        sweeper.sweep()
        transport.left = memoryview(b"".join(small))
        transport.read()
        while len(owner.frames) < len(sent):
            await asyncio.sleep(0)
            transport.read()
        assert owner.frames == sent

    asyncio.run(asyncio.wait_for(body(), 20))


class Swallower:
    """Takes all that it is offered, in memory that it shares; waits for some number of bytes, pauses and resumes by seed."""

    def __init__(self, connection: AsyncioConnection, common: memoryview, rng: Random) -> None:
        connection.share_memory(common)
        self.connection = connection
        self.received = bytearray()
        self.paused = False
        self._rng = rng

    def on_bytes(self, received: memoryview) -> int:
        self.received += received
        if self._rng.random() < 0.5:
            self.connection.expect(self._rng.choice((10, 8_000, 50_000)))
        if self._rng.random() < 0.2:
            self.paused = True
            self.connection.pause_reading()
        return len(received)

    def go_on(self) -> None:
        if self.paused:
            self.paused = False
            self.connection.resume_reading()

    def on_closed(self) -> None: ...

    def on_writable(self, writable: bool) -> None: ...


@pytest.mark.parametrize("seed", range(20))
def test_connections_that_receive_into_common_memory_mix_no_bytes(seed: int) -> None:
    rng = Random(seed)
    sent = [rng.randbytes(300_000) for _ in range(3)]
    common = memoryview(bytearray(INITIAL_BYTES))

    async def body() -> None:
        sweeper, shares = BufferSweeper(), LoopShares()
        shares.enter("127.0.0.3")
        transports = [UvloopTransport(data + bytes(50_000), rng) for data in sent]  # the end may wait for more
        owners: list[Swallower] = []
        for transport in transports:

            def accept(connection: Connection) -> Swallower:
                owners.append(Swallower(connection, common, rng))
                return owners[-1]

            transport.open(AsyncioConnection(accept, EndedHost(), sweeper, TransferTurns(), shares))
        while any(len(owner.received) < len(data) for owner, data in zip(owners, sent, strict=True)):
            for transport in rng.sample(transports, 2):
                transport.read()
            await asyncio.sleep(0)
            if rng.random() < 0.1:
                sweeper.sweep()
            if rng.random() < 0.1:
                _spend(shares)
            if rng.random() < 0.5:
                owners[rng.randrange(3)].go_on()
        assert [bytes(owner.received[: len(data)]) for owner, data in zip(owners, sent, strict=True)] == sent

    asyncio.run(asyncio.wait_for(body(), 20))


class _Calm(Random):
    """Never changes the owner's mood."""

    def random(self) -> float:
        return 1.0


def _send(transport: UvloopTransport, data: bytes) -> None:
    transport.left = memoryview(data)
    while transport.reading and transport.left:
        transport.read()


def _spend(shares: LoopShares) -> None:
    """Let the peer's address have had more than its share for the next minute, however slowly the test goes on."""
    share = shares.enter("127.0.0.2")
    shares.leave(share)
    then_ns = time.perf_counter_ns() + 60_000_000_000
    share.spend(then_ns - 100 * BURST_NS, then_ns)


@pytest.mark.parametrize("end", [AsyncioConnection.abort, AsyncioConnection.close])
@pytest.mark.parametrize("is_closing", [True, False])
def test_owner_may_end_the_connection_when_it_hears_that_the_peer_takes_more(end, is_closing):
    """asyncio's own transport would report the end twice, and find no owner the second time."""
    closed = []

    class Owner:
        def __init__(self, connection: Connection) -> None:
            self.connection = connection

        def on_bytes(self, received: memoryview) -> int:
            return len(received)

        def on_closed(self) -> None:
            closed.append(True)

        def on_writable(self, writable: bool) -> None:
            if writable:
                end(self.connection)

    def take_all(peer: socket.socket) -> None:
        while peer.recv(1 << 20):
            pass

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        unhandled: list[object] = []
        loop.set_exception_handler(lambda _loop, context: unhandled.append(context))
        near, far = socket.socketpair()
        near.setblocking(False)
        parts = BufferSweeper(), TransferTurns(), LoopShares()
        _, connection = await loop.create_connection(lambda: AsyncioConnection(Owner, EndedHost(), *parts), sock=near)
        connection.write((bytes(4 << 20),))
        if is_closing:
            connection.close()
        with far:
            await asyncio.to_thread(take_all, far)
        for _ in range(3):
            await asyncio.sleep(0)
        assert (closed, unhandled) == ([True], [])

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(scenario())
