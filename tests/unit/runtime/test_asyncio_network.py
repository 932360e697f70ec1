"""The network on real sockets, on uvloop and on plain asyncio."""

import asyncio
import errno
import os
import resource
import select
import socket
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import NoReturn

import pytest
import uvloop

from esp.ports.network import TURN_US, Address, Connection, ConnectionOwner
from esp.runtime.asyncio_network import AsyncioNetwork
from esp.runtime.loop_shares import BURST_NS, ROUND_PIECES, SPENT_TURN_US
from esp.runtime.os_disk import OsDisk
from esp.runtime.receive_buffer import INITIAL_BYTES
from esp.runtime.unhandled import stop_on_unhandled_errors

LOOPBACK = Address("127.0.0.1", 0)
SECOND_US = 1_000_000
_LENGTH = struct.Struct(">i")

linux = pytest.mark.skipif(sys.platform != "linux", reason="only there all of 127.0.0.0/8 is this host")


class RecordingHost:
    """A host whose end is remembered instead of taken."""

    boot_id = "test"
    name = "test"

    def __init__(self) -> None:
        self.fatal_reasons: list[str] = []

    def fatal(self, reason: str) -> NoReturn:
        self.fatal_reasons.append(reason)
        raise SystemError(reason)


class Frames:
    """Takes whole length-prefixed frames and answers each with ``answer``'s buffers."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.frames: list[bytes] = []
        self.offers = 0
        self.writable: list[bool] = []
        self.arrived = asyncio.Event()
        self.closed = asyncio.Event()
        self.pause_after: int | None = None
        self.error: Exception | None = None
        self.at_frame: Callable[[], None] | None = None

    def on_bytes(self, received: memoryview) -> int:
        self.offers += 1
        if self.error is not None:
            raise self.error
        position = 0
        while len(received) - position >= 4:
            end = position + 4 + _LENGTH.unpack_from(received, position)[0]
            if end > len(received):
                self.connection.expect(end - position)
                break
            self.frames.append(bytes(received[position + 4 : end]))
            self.arrived.set()
            if self.at_frame is not None:
                self.at_frame()
            position = end
            if len(self.frames) == self.pause_after:
                self.connection.pause_reading()
                break
        return position

    def on_closed(self) -> None:
        assert not self.closed.is_set(), "closed twice"
        self.closed.set()

    def on_writable(self, writable: bool) -> None:
        self.writable.append(writable)
        self.arrived.set()


class Pair:
    """A listener whose connections have ``Frames`` as owners, and what it takes to reach it."""

    def __init__(self) -> None:
        self.host = RecordingHost()
        self.network = AsyncioNetwork(self.host)
        self.accepted: list[Frames] = []
        self.accept_error: Exception | None = None
        self.pause_at_once = False
        self.sockets: list[socket.socket] = []

    def accept(self, connection: Connection) -> ConnectionOwner:
        if self.accept_error is not None:
            raise self.accept_error
        owner = Frames(connection)
        self.accepted.append(owner)
        if self.pause_at_once:
            connection.pause_reading()
        return owner

    async def start(self) -> None:
        self.listener = await self.network.listen(LOOPBACK, self.accept)

    def raw(self) -> socket.socket:
        client = socket.create_connection(self.listener.address, timeout=5)
        client.setblocking(False)
        self.sockets.append(client)
        return client

    async def owner(self) -> Frames:
        return (await self.owners(1))[0]

    async def owners(self, count: int) -> list[Frames]:
        await until(lambda: len(self.accepted) >= count)
        return self.accepted


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until the condition holds; the test's own timeout ends a vain wait."""
    while not condition():  # noqa: ASYNC110 - the events of many owners, and of the host, in all combinations
        await asyncio.sleep(0.001)


def frame(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


Body = Callable[[Pair], Awaitable[None]]


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Callable[[Body], RecordingHost]:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run_body(body: Body) -> RecordingHost:
        async def with_pair() -> RecordingHost:
            pair = Pair()
            stop_on_unhandled_errors(asyncio.get_running_loop(), pair.host)
            await pair.start()
            try:
                async with asyncio.timeout(20):
                    await body(pair)
            finally:
                await pair.listener.close()
                for client in pair.sockets:
                    client.close()
            for owner in pair.accepted:
                owner.connection.abort()
                await owner.closed.wait()
            return pair.host

        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(with_pair())

    return run_body


Run = Callable[[Body], RecordingHost]


def test_frames_arrive_whole_however_they_were_cut(run: Run) -> None:
    async def body(pair: Pair) -> None:
        sent = [bytes([i]) * size for i, size in enumerate((0, 1, 100, 70_000, 3, 1_000_000, 5, INITIAL_BYTES))]
        stream = b"".join(map(frame, sent))
        client = pair.raw()
        loop = asyncio.get_running_loop()
        for piece in (stream[:1], stream[1:6], stream[6:90_000], stream[90_000:]):
            await loop.sock_sendall(client, piece)
            await asyncio.sleep(0.001)
        owner = await pair.owner()
        await until(lambda: len(owner.frames) == len(sent))
        assert owner.frames == sent
        client.close()
        await owner.closed.wait()

    assert run(body).fatal_reasons == []


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_buffers_of_every_kind_arrive_in_order(run: Run, kind: Callable[[bytes], bytes]) -> None:
    async def body(pair: Pair) -> None:
        client = await pair.network.connect(pair.listener.address, Frames, SECOND_US)
        client.write([kind(frame(b"one")), kind(_LENGTH.pack(3)), kind(b"two")])
        client.write([kind(frame(b"x" * 2_000_000))])
        client.write([])
        client.write([kind(b""), kind(frame(b"end"))])
        owner = await pair.owner()
        await until(lambda: len(owner.frames) == 4)
        assert owner.frames == [b"one", b"two", b"x" * 2_000_000, b"end"]
        client.close()

    assert run(body).fatal_reasons == []


def test_connections_know_their_peers_and_do_not_delay_small_writes(run: Run) -> None:
    async def body(pair: Pair) -> None:
        assert pair.listener.address.port > 0
        client = await pair.network.connect(pair.listener.address, Frames, SECOND_US)
        assert client.peer == pair.listener.address
        owner = await pair.owner()
        assert owner.connection.peer.host == "127.0.0.1"
        for connection in (client, owner.connection):
            sock = connection._transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        client.close()

    assert run(body).fatal_reasons == []


def test_large_frames_of_many_connections_arrive_whole(run: Run) -> None:
    async def body(pair: Pair) -> None:
        frames = [bytes([number]) * 1_500_000 for number in range(8)]
        clients = [pair.raw() for _ in frames]
        owners = await pair.owners(len(frames))
        loop = asyncio.get_running_loop()
        await asyncio.gather(
            *(
                loop.sock_sendall(client, frame(data) + frame(b"next"))
                for client, data in zip(clients, frames, strict=True)
            )
        )
        await until(lambda: all(len(owner.frames) == 2 for owner in owners))
        assert sorted(owner.frames[0] for owner in owners) == frames

    assert run(body).fatal_reasons == []


class Addresses:
    """Two addresses with a connection each, of which the first has had more than its share of the loop."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair

    async def connect(self) -> None:
        pair = self.pair
        for host in ("127.0.0.2", "127.0.0.3"):
            client = socket.create_connection(pair.listener.address, timeout=5, source_address=(host, 0))
            client.setblocking(False)
            pair.sockets.append(client)
        self.greedy, self.modest = pair.sockets
        owners = await pair.owners(2)
        by_host = {owner.connection.peer.host: owner for owner in owners}
        self.greedy_owner, self.modest_owner = by_host["127.0.0.2"], by_host["127.0.0.3"]
        self.share = self.greedy_owner.connection.share  # type: ignore[attr-defined]
        await asyncio.sleep(0.001)  # a turn of the loop: libuv registers a new socket when it polls next

    def spend(self) -> None:
        """Let it have had more than its share for the next minute, however slowly the test goes on."""
        then_ns = time.perf_counter_ns() + 60_000_000_000
        self.share.spend(then_ns - 100 * BURST_NS, then_ns)

    def send_at_once(self) -> None:
        """Let a frame of each arrive before the loop looks.

        The loop's own epoll is asked: the kernel shows a socket as readable a moment before the epoll has it, and the loop would then see
        one of the two frames alone.
        """
        self.greedy.sendall(frame(b"much"))
        self.modest.sendall(frame(b"little"))
        transports = [owner.connection._transport for owner in (self.greedy_owner, self.modest_owner)]  # type: ignore[attr-defined]
        awaited = {transport.get_extra_info("socket").fileno() for transport in transports}
        with select.epoll.fromfd(os.dup(_epoll_of(asyncio.get_running_loop()))) as epoll:
            while not awaited <= {descriptor for descriptor, _ in epoll.poll(1)}:
                pass


def _epoll_of(loop: asyncio.AbstractEventLoop) -> int:
    """The descriptor of the epoll on which the loop waits."""
    return loop._get_backend_id() if isinstance(loop, uvloop.Loop) else loop._selector.fileno()  # type: ignore[attr-defined, no-any-return]


@linux
def test_who_has_had_more_than_its_share_is_served_after_others(run: Run) -> None:
    async def body(pair: Pair) -> None:
        both = Addresses(pair)
        await both.connect()
        order: list[str] = []
        for name, owner in (("greedy", both.greedy_owner), ("modest", both.modest_owner)):
            owner.at_frame = lambda name=name: order.append(name)  # type: ignore[misc]
        for _ in range(10):
            order.clear()
            both.spend()
            both.send_at_once()
            await until(lambda: len(order) == 2)
            assert order == ["modest", "greedy"]

    assert run(body).fatal_reasons == []


@linux
def test_who_has_had_more_than_its_share_goes_on_for_less_time(run: Run) -> None:
    async def body(pair: Pair) -> None:
        both = Addresses(pair)
        await both.connect()
        turns: dict[str, int] = {}
        for name, owner in (("greedy", both.greedy_owner), ("modest", both.modest_owner)):
            owner.at_frame = lambda name=name, owner=owner: turns.update({name: owner.connection.turn_us})  # type: ignore[misc]
        both.spend()
        both.send_at_once()
        await until(lambda: len(turns) == 2)
        assert turns == {"greedy": SPENT_TURN_US, "modest": TURN_US}
        assert both.greedy_owner.connection.turn_us == TURN_US

    assert run(body).fatal_reasons == []


@linux
def test_all_that_a_spent_address_sends_arrives_in_order(run: Run) -> None:
    async def body(pair: Pair) -> None:
        both = Addresses(pair)
        await both.connect()
        both.greedy_owner.pause_after = 7
        sent = [bytes([number]) * (1 + 40_000 * (number % 3)) for number in range(60)]

        async def send() -> None:
            for data in sent:
                both.spend()
                await asyncio.get_running_loop().sock_sendall(both.greedy, frame(data))

        sending = asyncio.ensure_future(send())
        await until(lambda: len(both.greedy_owner.frames) == 7)
        both.greedy_owner.connection.resume_reading()
        await sending
        await until(lambda: len(both.greedy_owner.frames) == len(sent))
        assert both.greedy_owner.frames == sent

    assert run(body).fatal_reasons == []


@linux
def test_connections_of_an_address_that_end_at_once_end_a_few_in_a_round(run: Run) -> None:
    async def body(pair: Pair) -> None:
        both = Addresses(pair)
        await both.connect()
        count = 5 * ROUND_PIECES
        more = [
            socket.create_connection(pair.listener.address, timeout=5, source_address=("127.0.0.2", 0))
            for _ in range(count)
        ]
        owners = (await pair.owners(2 + count))[2:]
        for client in more:
            client.close()
        at_once = [0]
        ended = 0
        while ended < count:
            await asyncio.sleep(0)
            before, ended = ended, sum(owner.closed.is_set() for owner in owners)
            at_once.append(ended - before)
        assert max(at_once) <= ROUND_PIECES
        assert not both.modest_owner.closed.is_set()

    assert run(body).fatal_reasons == []


@linux
def test_all_that_was_sent_before_the_end_is_taken_before_the_connection_ends(run: Run) -> None:
    async def body(pair: Pair) -> None:
        both = Addresses(pair)
        await both.connect()
        owner = both.greedy_owner
        owner.pause_after = 1
        both.spend()
        both.greedy.sendall(frame(b"one") + frame(b"two") + frame(b"three"))
        both.greedy.close()
        await until(lambda: owner.frames == [b"one"])
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not owner.closed.is_set()
        owner.connection.resume_reading()
        await owner.closed.wait()
        assert owner.frames == [b"one", b"two", b"three"]

    assert run(body).fatal_reasons == []


@linux
def test_a_spent_connection_that_is_aborted_while_it_waits_is_offered_nothing(run: Run) -> None:
    async def body(pair: Pair) -> None:
        both = Addresses(pair)
        await both.connect()
        both.share.waiting.append(lambda: None)  # somebody of its address waits, for ever
        both.spend()
        both.greedy.sendall(frame(b"late"))
        await until(lambda: len(both.share.waiting) == 2)
        both.greedy_owner.connection.abort()
        await both.greedy_owner.closed.wait()
        both.share.waiting[1]()
        both.share.waiting.clear()
        assert both.greedy_owner.frames == []

    assert run(body).fatal_reasons == []


def test_owner_that_pauses_amid_a_large_frame_is_left_alone_until_it_resumes(run: Run) -> None:
    async def body(pair: Pair) -> None:
        client = pair.raw()
        owner = await pair.owner()
        data = bytes(3_000_000)
        sending = asyncio.ensure_future(asyncio.get_running_loop().sock_sendall(client, frame(data)))
        await until(lambda: owner.offers > 0)
        owner.connection.pause_reading()
        for _ in range(20):
            await asyncio.sleep(0)
        assert owner.frames == []
        owner.connection.resume_reading()
        await sending
        await until(lambda: owner.frames == [data])

    assert run(body).fatal_reasons == []


def test_frame_for_which_there_is_no_memory_ends_its_connection_only(run: Run) -> None:
    async def body(pair: Pair) -> None:
        client, other = pair.raw(), pair.raw()
        owners = await pair.owners(2)
        first = owners[0]
        first.connection.expect(1 << 50)
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            await loop.sock_sendall(client, bytes(2_000_000))
        await first.closed.wait()
        await loop.sock_sendall(other, frame(b"fine"))
        await owners[1].arrived.wait()

    assert run(body).fatal_reasons == []


def test_paused_owner_gets_nothing_until_it_resumes_and_then_all(run: Run) -> None:
    async def body(pair: Pair) -> None:
        client = pair.raw()
        loop = asyncio.get_running_loop()
        owner = await pair.owner()
        owner.pause_after = 1
        await loop.sock_sendall(client, frame(b"1") + frame(b"2") + frame(b"3")[:5])
        await owner.arrived.wait()
        offers = owner.offers
        await loop.sock_sendall(client, frame(b"3")[5:] + frame(b"4"))
        await asyncio.sleep(0.02)
        assert owner.frames == [b"1"]
        assert owner.offers == offers
        owner.connection.resume_reading()
        owner.connection.resume_reading()
        await until(lambda: len(owner.frames) == 4)
        assert owner.frames == [b"1", b"2", b"3", b"4"]
        client.close()

    assert run(body).fatal_reasons == []


def test_owner_that_pauses_as_it_is_made_leaves_what_arrives_to_the_kernel(run: Run) -> None:
    """As all do that come before the node serves: what a peer sends meanwhile must neither fill the receive buffer nor the memory."""

    async def body(pair: Pair) -> None:
        pair.pause_at_once = True
        client = pair.raw()
        owner = await pair.owner()
        sent = [bytes([number % 256]) * 20 for number in range(3000)] + [bytes(1_000_000)] * 20
        sending = asyncio.ensure_future(asyncio.get_running_loop().sock_sendall(client, b"".join(map(frame, sent))))
        for _ in range(50):
            await asyncio.sleep(0.001)
            assert pair.host.fatal_reasons == []
        assert owner.offers == 0
        assert not sending.done(), "more than the kernel holds was taken off it"
        owner.connection.resume_reading()
        await sending
        await until(lambda: len(owner.frames) == len(sent))
        assert owner.frames == sent

    assert run(body).fatal_reasons == []


def test_slow_reader_is_told_to_the_owner_and_its_catching_up_too(run: Run) -> None:
    async def body(pair: Pair) -> None:
        client = pair.raw()
        loop = asyncio.get_running_loop()
        owner = await pair.owner()
        written = 0
        while not owner.writable:
            owner.connection.write([b"x" * 500_000])
            written += 500_000
            await asyncio.sleep(0)
        assert owner.writable == [False]
        received = 0
        while received < written:
            received += len(await loop.sock_recv(client, 1_000_000))
        await until(lambda: len(owner.writable) == 2)
        assert owner.writable == [False, True]
        client.close()

    assert run(body).fatal_reasons == []


def test_a_connection_that_has_ended_after_what_was_written_may_be_aborted_all_the_same(run: Run) -> None:
    async def body(pair: Pair) -> None:
        client = pair.raw()
        loop = asyncio.get_running_loop()
        owner = await pair.owner()
        while not owner.writable:
            owner.connection.write([b"x" * 500_000])
            await asyncio.sleep(0)
        owner.connection.close()
        while await loop.sock_recv(client, 1_000_000):
            pass
        await owner.closed.wait()
        owner.connection.abort()
        owner.connection.close()
        client.close()

    assert run(body).fatal_reasons == []


def test_close_sends_what_was_written_before(run: Run) -> None:
    async def body(pair: Pair) -> None:
        client = pair.raw()
        owner = await pair.owner()
        owner.connection.write([b"x" * 3_000_000])
        owner.connection.close()
        owner.connection.write([b"too late"])
        received = bytearray()
        while chunk := await asyncio.get_running_loop().sock_recv(client, 1_000_000):
            received += chunk
        assert received == b"x" * 3_000_000
        await owner.closed.wait()
        for call in (owner.connection.close, owner.connection.abort, owner.connection.pause_reading):
            call()
        owner.connection.resume_reading()
        client.close()

    assert run(body).fatal_reasons == []


def test_view_of_a_file_arrives_as_it_was_though_the_file_is_cut_meanwhile(run: Run, tmp_path: Path) -> None:
    data = Random(1).randbytes(7_000_000)

    async def body(pair: Pair) -> None:
        file = OsDisk().open(str(tmp_path / "a"), create=True)
        file.append([data])
        client = pair.raw()
        owner = await pair.owner()
        view = file.read_cached(0, len(data))
        assert isinstance(view, memoryview)
        owner.connection.write([view[:10], view[10:]])
        del view
        file.truncate(0)
        file.append([b"other bytes"])
        received = bytearray()
        while len(received) < len(data):
            received += await asyncio.get_running_loop().sock_recv(client, 1_000_000)
        assert received == data

    assert run(body).fatal_reasons == []


def test_half_closed_connection_is_closed(run: Run) -> None:
    async def body(pair: Pair) -> None:
        client = pair.raw()
        owner = await pair.owner()
        await asyncio.get_running_loop().sock_sendall(client, frame(b"last") + b"\0\0")
        client.shutdown(socket.SHUT_WR)
        await owner.closed.wait()
        assert owner.frames == [b"last"]
        assert await asyncio.get_running_loop().sock_recv(client, 10) == b""
        client.close()

    assert run(body).fatal_reasons == []


def test_reset_connection_is_closed_and_nothing_else(run: Run) -> None:
    async def body(pair: Pair) -> None:
        client, other = pair.raw(), pair.raw()
        owners = await pair.owners(2)
        owners[0].connection.write([b"x" * 3_000_000])
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        await owners[0].closed.wait()
        await asyncio.get_running_loop().sock_sendall(other, frame(b"fine"))
        await owners[1].arrived.wait()
        assert owners[1].frames == [b"fine"]
        other.close()

    assert run(body).fatal_reasons == []


def test_connection_aborted_error_ends_that_connection_only(run: Run) -> None:
    async def body(pair: Pair) -> None:
        client, other = pair.raw(), pair.raw()
        owners = await pair.owners(2)
        owners[0].error = ConnectionAbortedError("these are not frames")
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, b"rubbish")
        await loop.sock_sendall(other, frame(b"fine"))
        await owners[0].closed.wait()
        await owners[1].arrived.wait()
        client.close()
        other.close()

    assert run(body).fatal_reasons == []


def test_any_other_error_of_an_owner_stops_the_node(run: Run) -> None:
    async def body(pair: Pair) -> None:
        client = pair.raw()
        owner = await pair.owner()
        owner.error = KeyError("our bug")
        await asyncio.get_running_loop().sock_sendall(client, b"anything")
        await until(lambda: bool(pair.host.fatal_reasons))
        client.close()

    assert "unexpected error" in run(body).fatal_reasons[0]


def test_accept_can_refuse_a_connection(run: Run) -> None:
    async def body(pair: Pair) -> None:
        pair.accept_error = ConnectionAbortedError("too many")
        refused = pair.raw()
        assert await asyncio.get_running_loop().sock_recv(refused, 10) == b""
        pair.accept_error = None
        client = pair.raw()
        await pair.owner()
        refused.close()
        client.close()

    assert run(body).fatal_reasons == []


def test_closed_listener_refuses_while_its_connections_go_on(run: Run) -> None:
    async def body(pair: Pair) -> None:
        client = pair.raw()
        owner = await pair.owner()
        await pair.listener.close()
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await pair.network.connect(pair.listener.address, Frames, SECOND_US)
        await asyncio.get_running_loop().sock_sendall(client, frame(b"still here"))
        await owner.arrived.wait()
        client.close()

    assert run(body).fatal_reasons == []


def test_bound_address_cannot_be_bound_again(run: Run) -> None:
    async def body(pair: Pair) -> None:
        with pytest.raises(OSError) as caught:  # noqa: PT011 - the errno is looked at
            await pair.network.listen(pair.listener.address, pair.accept)
        assert caught.value.errno == errno.EADDRINUSE

    assert run(body).fatal_reasons == []


def test_connect_gives_up_in_time(run: Run) -> None:
    async def body(pair: Pair) -> None:
        with socket.socket() as full:
            full.bind(LOOPBACK)
            full.listen(0)
            address = Address(*full.getsockname())
            waiting = [socket.create_connection(address), socket.socket()]
            waiting[1].setblocking(False)
            waiting[1].connect_ex(address)
            with pytest.raises(TimeoutError):
                await pair.network.connect(address, Frames, 50_000)
            for client in waiting:
                client.close()

    assert run(body).fatal_reasons == []


@pytest.mark.parametrize(
    ("second", "expected"), [(errno.ECONNREFUSED, ConnectionRefusedError), (errno.EHOSTUNREACH, OSError)]
)
def test_a_name_with_two_addresses_refuses_only_if_both_do(run: Run, second: int, expected: type[OSError]) -> None:
    async def body(pair: Pair) -> None:
        async def fail(*_arguments: object) -> NoReturn:
            raise OSError(
                f"Multiple exceptions: [Errno {errno.ECONNREFUSED}] ('::1', 1), [Errno {second}] ('127.0.0.1', 1)"
            )

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio, "get_running_loop", lambda: SimpleNamespace(create_connection=fail))
            with pytest.raises(OSError, match=r"refused|Multiple") as caught:
                await pair.network.connect(Address("two", 1), Frames, SECOND_US)
        assert type(caught.value) is expected

    assert run(body).fatal_reasons == []


def test_flood_of_connections_is_served(run: Run) -> None:
    async def body(pair: Pair) -> None:
        clients = [await pair.network.connect(pair.listener.address, Frames, SECOND_US) for _ in range(200)]
        for client in clients:
            client.write([frame(b"hello")])
        owners = await pair.owners(200)
        await until(lambda: all(owner.frames == [b"hello"] for owner in owners))
        for client in clients:
            client.abort()
        await until(lambda: all(owner.closed.is_set() for owner in owners))

    assert run(body).fatal_reasons == []


@contextmanager
def few_descriptors(spare: int) -> Iterator[None]:
    with socket.socket() as probe:
        used = probe.fileno()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + spare, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    "run", ["uvloop"], indirect=True
)  # asyncio of CPython 3.11 goes on with a closed listener's timers
def test_node_survives_running_out_of_descriptors(run: Run) -> None:
    async def body(pair: Pair) -> None:
        clients = [socket.socket() for _ in range(8)]
        pair.sockets += clients
        with few_descriptors(5):  # of which the loop may want one
            for client in clients:
                client.connect(pair.listener.address)
            await pair.owners(4)
            await asyncio.sleep(0.02)
            assert len(pair.accepted) <= 5
            for client in clients:
                client.close()
            await until(lambda: all(owner.closed.is_set() for owner in pair.accepted))
        client = pair.raw()
        await asyncio.get_running_loop().sock_sendall(client, frame(b"alive"))
        await until(lambda: any(owner.frames == [b"alive"] for owner in pair.accepted))
        client.close()

    assert run(body).fatal_reasons == []
