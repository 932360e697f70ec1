"""TLS on real sockets: between two ends of ours, and with OpenSSL's own client, good and bad ones."""

import asyncio
import gc
import mmap
import socket
import ssl
import struct
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import NoReturn

import pytest
import uvloop
from cryptography.x509.oid import ExtendedKeyUsageOID
from OpenSSL import SSL

from esp.model.tls import TLS_1_2, TLS_1_3, ClientAuth, KeyStore, StoreType, TlsPolicy, TrustStore
from esp.ports.network import TURN_US, Address, Connection
from esp.runtime.asyncio_connection import WRITE_HIGH_BYTES
from esp.runtime.asyncio_network import AsyncioNetwork
from esp.runtime.buffer_sweeper import BufferSweeper
from esp.runtime.loop_shares import SPENT_TURN_US, LoopShares
from esp.runtime.receive_buffer import INITIAL_BYTES, RECEIVED_AT_ONCE_MAX
from esp.runtime.tls.stores import Trust
from esp.runtime.tls.tls_connection import DECRYPTED_BYTES, PIECE_BYTES, TlsConnection, TlsParts
from esp.runtime.transfer_turns import TransferTurns
from tests.models.certificates import DAY, Authority, Issued

LOOPBACK = Address("127.0.0.1", 0)
SECOND_US = 1_000_000
_LENGTH = struct.Struct(">i")
AUTHORITY, OTHER = Authority(), Authority("CN=Other CA")
FOR_SERVERS = (ExtendedKeyUsageOID.SERVER_AUTH,)
NODE, CAROL = AUTHORITY.issue("CN=node"), AUTHORITY.issue("CN=carol", hosts=())


class Host:
    boot_id = name = "test"

    def fatal(self, reason: str) -> NoReturn:
        pytest.fail(f"the node would have ended: {reason}", pytrace=True)


class Frames:
    """Takes whole frames and answers each with ``answer``'s buffers; pauses and resumes by seed if it has one."""

    def __init__(self, connection: Connection, rng: Random | None = None) -> None:
        self.connection = connection
        self.frames: list[bytes] = []
        self.certificates: list[bytes | None] = []
        self.writable: list[bool] = []
        self.arrived = asyncio.Event()
        self.closed = asyncio.Event()
        self.answer: Callable[[bytes], list] = lambda frame: [_LENGTH.pack(len(frame)), frame]
        self.rng = rng
        self.paused = False
        connection.on_secured = self.certificates.append

    def on_bytes(self, received: memoryview) -> int:
        assert not self.paused
        position = 0
        while not self.paused and len(received) - position >= 4:
            end = position + 4 + _LENGTH.unpack_from(received, position)[0]
            if end > len(received):
                self.connection.expect(end - position)
                break
            frame = bytes(received[position + 4 : end])
            self.frames.append(frame)
            self.arrived.set()
            position = end
            if answer := self.answer(frame):
                self.connection.write(answer)
            if self.rng is not None and self.rng.random() < 0.2:
                self.paused = True
                self.connection.pause_reading()
                asyncio.get_running_loop().call_later(self.rng.random() / 500, self.resume)
        return position

    def resume(self) -> None:
        self.paused = False
        self.connection.resume_reading()

    def on_closed(self) -> None:
        self.closed.set()

    def on_writable(self, writable: bool) -> None:
        self.writable.append(writable)


def policy(directory: Path, node: Issued = NODE, trusted: str = AUTHORITY.pem, **options) -> TlsPolicy:
    store = KeyStore(StoreType.PEM, key=node.key_pem(), chain=node.certificate_pem)
    return TlsPolicy("OUT", store, TrustStore(StoreType.PEM, certificates=trusted), **options)


class World:
    """A network with a listener."""

    def __init__(self) -> None:
        self.network = AsyncioNetwork(Host())
        self.accepted: list[Frames] = []
        self.seed: int | None = None
        self.prepare: Callable[[Frames], None] = lambda owner: None

    async def listen(self, tls: TlsPolicy) -> Address:
        await self.network.load_tls([tls])
        self.listener = await self.network.listen(LOOPBACK, self._accept, tls)
        return self.listener.address

    def _accept(self, connection: Connection) -> Frames:
        rng = None if self.seed is None else Random(self.seed)
        self.accepted.append(Frames(connection, rng))
        self.prepare(self.accepted[-1])
        return self.accepted[-1]

    async def connect(self, address: Address, tls: TlsPolicy) -> Frames:
        await self.network.load_tls([tls])
        owners: list[Frames] = []

        def open_(connection: Connection) -> Frames:
            owners.append(Frames(connection))
            owners[0].answer = lambda frame: []
            return owners[0]

        await self.network.connect(address, open_, 5 * SECOND_US, tls)
        return owners[0]


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Callable[[World], Awaitable[None]]], None]]:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run(body: Callable[[World], Awaitable[None]]) -> None:
        async def limited() -> None:
            unhandled: list = []
            asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unhandled.append(context))
            async with asyncio.timeout(30):
                world = World()
                try:
                    await body(world)
                finally:
                    await world.listener.close()
                    for owner in world.accepted:
                        owner.connection.abort()
                    await asyncio.sleep(0.01)
                gc.collect()
                assert not unhandled, "it would end the node"

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(limited())

    return run


async def until(claim: Callable[[], object]) -> None:
    while not claim():  # noqa: ASYNC110 - what is waited for happens in many places
        await asyncio.sleep(0.002)


def openssl(address: Address, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection((address.host, address.port), 5)
    try:
        return context.wrap_socket(plain, server_hostname=address.host)
    except BaseException:
        plain.close()
        raise


def client_context(directory: Path, issued: Issued | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=AUTHORITY.pem)
    if issued is not None:
        context.load_cert_chain(issued.write_pem(directory / "client.pem"))
    return context


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_frames_of_every_size_arrive_whole_and_in_order_both_ways_whenever_the_owner_pauses(
    run, tmp_path, seed, version
):
    rng = Random(seed)
    sizes = [0, 1, 100, 4_000, 16_380, 16_384, 40_000, PIECE_BYTES, 700_000, RECEIVED_AT_ONCE_MAX + 5]
    sent = [rng.randbytes(size) for size in rng.choices(sizes, k=25)]

    async def body(world: World) -> None:
        world.seed = seed
        tls = policy(tmp_path, versions=(version,))
        client = await world.connect(await world.listen(tls), tls)
        for frame in sent:
            cut = rng.randrange(len(frame) + 1)
            client.connection.write([_LENGTH.pack(len(frame)), frame[:cut], memoryview(frame)[cut:]])
        await until(lambda: len(client.frames) == len(sent))
        assert world.accepted[0].frames == client.frames == sent

    run(body)


def test_the_owner_learns_the_certificate_before_the_first_bytes(run, tmp_path):
    async def body(world: World) -> None:
        tls = policy(tmp_path, client_auth=ClientAuth.REQUIRED)
        client = await world.connect(await world.listen(tls), policy(tmp_path, CAROL))
        assert client.certificates == [NODE.der]
        client.connection.write([_LENGTH.pack(1), b"x"])
        await until(lambda: client.frames)
        assert world.accepted[0].certificates == [CAROL.der]

    run(body)


def test_a_requested_certificate_may_be_missing(run, tmp_path):
    async def body(world: World) -> None:
        address = await world.listen(policy(tmp_path, client_auth=ClientAuth.REQUESTED))
        with await asyncio.to_thread(openssl, address, client_context(tmp_path)) as client:
            await asyncio.to_thread(client.sendall, _LENGTH.pack(2) + b"hi")
            assert await asyncio.to_thread(client.recv, 100)
        assert world.accepted[0].certificates == [None]

    run(body)


def _old(context: ssl.SSLContext) -> None:
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AES256-SHA256")  # without forward secrecy


def self_made(name: str) -> Issued:
    """A certificate that nobody but its holder has signed."""
    maker = Authority(name)
    return Issued(maker.key, maker.certificate, maker.certificate)


def _only_1_1(context: ssl.SSLContext) -> None:
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1


def _only_1_2(context: ssl.SSLContext) -> None:
    context.maximum_version = ssl.TLSVersion.TLSv1_2


def _no_trust(context: ssl.SSLContext) -> None:
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE


@pytest.mark.parametrize(
    ("options", "issued", "change", "words"),
    [
        ({"client_auth": ClientAuth.REQUIRED}, None, None, "it showed no certificate"),
        ({"client_auth": ClientAuth.REQUIRED}, OTHER.issue(), None, "its certificate is refused: "),
        ({"client_auth": ClientAuth.REQUIRED}, AUTHORITY.issue(ends=datetime.now(UTC) - DAY / 2), None, "has expired"),
        ({"client_auth": ClientAuth.REQUIRED}, AUTHORITY.issue(purposes=FOR_SERVERS), None, "purpose"),
        ({"client_auth": ClientAuth.REQUIRED}, self_made("CN=node"), None, "self"),
        ({"versions": (TLS_1_3,)}, None, _only_1_2, "ssl.enabled.protocols"),
        ({}, None, _only_1_1, "ssl.enabled.protocols"),
        ({"ciphers": ("ECDHE-ECDSA-AES256-GCM-SHA384",)}, None, _old, "no cipher suite in common"),
    ],
    ids=[
        *("no certificate", "another authority", "expired", "for another purpose", "self-made"),
        *("version", "version 1.1", "suite"),
    ],
)
def test_a_client_that_does_not_keep_the_terms_is_refused_with_one_line(
    run, tmp_path, caplog, options, issued, change, words
):
    async def body(world: World) -> None:
        address = await world.listen(policy(tmp_path, **options))
        context = client_context(tmp_path, issued)
        if change is not None:
            change(context)
        with suppress(OSError), await asyncio.to_thread(openssl, address, context) as client:
            await asyncio.to_thread(client.recv, 100)
        await until(world.accepted[0].closed.is_set)
        [line] = [record.getMessage() for record in caplog.records]
        assert words in line
        assert "refused a connection of 127.0.0.1:" in line
        assert not world.accepted[0].frames

    run(body)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"\x00\x00\x00\x20\x00\x12\x00\x03", "it sent plaintext"),
        (b"GET / HTTP/1.0\r\n\r\n", "it sent plaintext"),
        (b"\x16\x03\x01\x00\x05hello", ""),
        (b"\x16\x03\x01", "it ended the connection before"),
    ],
)
def test_what_is_not_tls_is_refused_with_one_line(run, tmp_path, caplog, sent, words):
    async def body(world: World) -> None:
        address = await world.listen(policy(tmp_path))
        _reader, writer = await asyncio.open_connection(*address)
        writer.write(sent)
        await writer.drain()
        if sent == b"\x16\x03\x01":
            writer.close()
        await until(world.accepted[0].closed.is_set)
        writer.close()
        [line] = [record.getMessage() for record in caplog.records]
        assert words in line
        assert "127.0.0.1:" in line

    run(body)


def test_a_look_at_the_port_leaves_no_line(run, tmp_path, caplog):
    async def body(world: World) -> None:
        _reader, writer = await asyncio.open_connection(*await world.listen(policy(tmp_path)))
        writer.close()
        await until(lambda: world.accepted and world.accepted[0].closed.is_set())
        assert not caplog.records

    run(body)


def test_a_connection_that_is_not_secure_in_time_is_ended_although_the_owner_reads_nothing(run, tmp_path, caplog):
    async def body(world: World) -> None:
        world.prepare = lambda owner: owner.connection.pause_reading()
        address = await world.listen(policy(tmp_path, handshake_timeout_ms=50))
        reader, writer = await asyncio.open_connection(*address)
        assert await reader.read() == b""
        writer.close()
        assert "it was not secure within 0.05 s" in caplog.text

    run(body)


def test_a_handshake_goes_on_while_the_owner_reads_nothing_yet(run, tmp_path):
    async def body(world: World) -> None:
        world.prepare = lambda owner: owner.connection.pause_reading()
        tls = policy(tmp_path, handshake_timeout_ms=2_000)
        client = await world.connect(await world.listen(tls), tls)
        client.connection.write([_LENGTH.pack(1), b"x"])
        await asyncio.sleep(0.02)
        assert not world.accepted[0].frames
        world.accepted[0].connection.resume_reading()
        await until(lambda: client.frames == [b"x"])

    run(body)


@pytest.mark.parametrize(
    ("node", "trusted", "words"),
    [
        (NODE, OTHER.pem, "its certificate is refused"),
        (AUTHORITY.issue(hosts=["other.example"]), AUTHORITY.pem, "IP address mismatch"),
    ],
    ids=["untrusted", "another host"],
)
def test_a_node_connects_to_no_other_than_it_believes(run, tmp_path, caplog, node, trusted, words):
    async def body(world: World) -> None:
        address = await world.listen(policy(tmp_path, node))
        with pytest.raises(ConnectionError, match=words):
            await world.connect(address, policy(tmp_path, trusted=trusted))
        assert words in caplog.text

    run(body)


def test_an_attempt_that_is_given_up_leaves_no_error_unhandled(run, tmp_path, caplog):
    async def body(world: World) -> None:
        loop = asyncio.get_running_loop()
        tls = policy(tmp_path)
        address = await world.listen(tls)
        await world.network.load_tls([tls])
        for turns in range(40):
            attempt = loop.create_task(world.network.connect(address, Frames, 5 * SECOND_US, tls))
            for _ in range(turns):
                await asyncio.sleep(0)
            attempt.cancel()
            with suppress(asyncio.CancelledError):
                (await attempt).abort()
        with pytest.raises(TimeoutError):
            await world.network.connect(address, Frames, 1, tls)
        await until(lambda: all(owner.closed.is_set() for owner in world.accepted))

    run(body)


def test_a_host_without_a_name_that_can_be_checked_is_no_reason_to_stop(run, tmp_path, caplog):
    async def body(world: World) -> None:
        tls = policy(tmp_path)
        address = await world.listen(tls)
        with pytest.raises(OSError, match=r"is no name|known|resolve"):
            await world.network.connect(Address("", address.port), Frames, SECOND_US, tls)

    run(body)


def test_host_names_are_not_checked_where_the_setting_says_so(run, tmp_path):
    async def body(world: World) -> None:
        address = await world.listen(policy(tmp_path, AUTHORITY.issue(hosts=["other.example"])))
        await world.connect(address, policy(tmp_path, checks_hosts=False))

    run(body)


def test_no_connection_comes_about_with_a_peer_that_speaks_plaintext(run, tmp_path):
    async def body(world: World) -> None:
        world.listener = await world.network.listen(LOOPBACK, world._accept)
        world.prepare = lambda owner: setattr(
            owner, "on_bytes", lambda received: owner.connection.abort() or len(received)
        )
        with pytest.raises(ConnectionError):
            await world.connect(world.listener.address, policy(tmp_path))

    run(body)


def test_a_large_answer_from_a_mapped_file_is_encrypted_in_pieces_with_turns_between(run, tmp_path):
    size = 40 * PIECE_BYTES
    with mmap.mmap(-1, size) as mapped:
        mapped[:] = bytes(range(256)) * (size // 256)
        view = memoryview(mapped)

        async def body(world: World) -> None:
            tls = policy(tmp_path)
            address = await world.listen(tls)
            world.prepare = lambda owner: setattr(owner, "answer", lambda frame: [_LENGTH.pack(size), view])
            client = await world.connect(address, tls)
            turns = 0

            def count() -> None:
                nonlocal turns
                turns += 1
                if not client.frames:
                    asyncio.get_running_loop().call_soon(count)

            client.connection.write([_LENGTH.pack(0)])
            count()
            await until(lambda: client.frames)
            assert client.frames[0] == mapped[:]
            assert turns >= size // PIECE_BYTES

        run(body)
        view.release()


def test_a_peer_that_takes_nothing_stops_its_owner_and_encryption(run, tmp_path):
    size = 20 * 1024 * 1024

    async def body(world: World) -> None:
        address = await world.listen(policy(tmp_path))
        world.prepare = lambda owner: setattr(owner, "answer", lambda frame: [_LENGTH.pack(size), bytes(size)])
        client = await asyncio.to_thread(openssl, address, client_context(tmp_path))
        await asyncio.to_thread(client.sendall, _LENGTH.pack(0))
        await until(lambda: world.accepted and world.accepted[0].writable)
        owner = world.accepted[0]
        await asyncio.sleep(0.1)
        assert owner.writable == [False]
        waiting = owner.connection._below._transport.get_write_buffer_size()
        assert waiting <= WRITE_HIGH_BYTES + 2 * PIECE_BYTES

        def take_all() -> int:
            taken = 0
            while taken < size + 4:
                taken += len(client.recv(1 << 20))
            return taken

        assert await asyncio.to_thread(take_all) == size + 4
        await until(lambda: owner.writable[-1])
        # The last bytes that wait here may fill the transport once more, where the peer is slow.
        assert owner.writable == [False, True] * (len(owner.writable) // 2)
        client.close()

    run(body)


def test_what_was_written_before_the_end_still_arrives_and_the_goodbye_behind_it(run, tmp_path):
    size = 3_000_000

    async def body(world: World) -> None:
        address = await world.listen(policy(tmp_path))

        def answer(_frame: bytes) -> list:
            asyncio.get_running_loop().call_soon(world.accepted[0].connection.close)
            return [bytes(size)]

        world.prepare = lambda owner: setattr(owner, "answer", answer)
        client = await asyncio.to_thread(openssl, address, client_context(tmp_path))
        await asyncio.to_thread(client.sendall, _LENGTH.pack(0))

        def take_all() -> int:
            client.suppress_ragged_eofs = False  # so that an end without goodbye is an error
            taken = 0
            while data := client.recv(1 << 20):
                taken += len(data)
            return taken

        assert await asyncio.to_thread(take_all) == size
        client.close()

    run(body)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_where_clients_show_certificates_they_get_no_ticket_that_would_spare_them_the_next_time(run, tmp_path, version):
    async def body(world: World) -> None:
        address = await world.listen(policy(tmp_path, client_auth=ClientAuth.REQUIRED))
        context = client_context(tmp_path, CAROL)
        context.maximum_version = version
        with await asyncio.to_thread(openssl, address, context) as client:
            await asyncio.to_thread(client.sendall, _LENGTH.pack(2) + b"hi")
            await asyncio.to_thread(client.recv, 100)
            assert client.session is None or not client.session.has_ticket

    run(body)


def test_a_session_that_is_resumed_is_judged_like_a_new_one(run, tmp_path, caplog):
    """A client of TLS 1.2 resumes by an id, and shows no certificate again."""
    between = AUTHORITY.issue_authority("CN=Between")
    carol = between.issue("CN=carol", hosts=())

    async def body(world: World) -> None:
        tls = policy(tmp_path, client_auth=ClientAuth.REQUIRED)
        address = await world.listen(tls)
        context = client_context(tmp_path)
        path = tmp_path / "carol.pem"
        path.write_text(carol.key_pem() + carol.certificate_pem + between.pem)
        context.load_cert_chain(path)
        context.maximum_version = ssl.TLSVersion.TLSv1_2

        def ask(session: ssl.SSLSession | None) -> tuple[bytes, bool, ssl.SSLSession | None]:
            with (
                socket.create_connection((address.host, address.port), 5) as plain,
                context.wrap_socket(plain, server_hostname=address.host, session=session) as client,
            ):
                client.sendall(_LENGTH.pack(2) + b"hi")
                with suppress(ConnectionError):
                    return client.recv(100), client.session_reused, client.session
                return b"", client.session_reused, None

        endpoint = world.network._endpoints[tls]
        answer, is_resumed, session = await asyncio.to_thread(ask, None)
        assert (answer, is_resumed) == (_LENGTH.pack(2) + b"hi", False)
        answer, is_resumed, _ = await asyncio.to_thread(ask, session)
        assert (answer, is_resumed) == (_LENGTH.pack(2) + b"hi", True)
        assert world.accepted[1].certificates == [carol.der]
        endpoint.contexts = endpoint.contexts._replace(trust=Trust(OTHER.pem.encode(), has_revocations=False))
        answer, is_resumed, _ = await asyncio.to_thread(ask, session)
        assert (answer, is_resumed) == (b"", True)
        assert world.accepted[2].certificates == []
        assert "refused a connection of" in caplog.text
        assert "its certificate is refused: unable to get local issuer certificate" in caplog.text

    run(body)


def test_a_client_that_wants_another_handshake_is_refused(run, tmp_path):
    """Renegotiation, which TLS 1.2 has, is work for the node as often as a client wants."""

    def renegotiate(address: Address) -> str:
        with socket.create_connection((address.host, address.port), 5) as plain:
            plain.setblocking(True)
            client = SSL.Connection(SSL.Context(SSL.TLSv1_2_METHOD), plain)
            client.set_connect_state()
            client.do_handshake()
            client.sendall(_LENGTH.pack(2) + b"hi")
            assert client.recv(100)
            assert client.renegotiate()
            with pytest.raises(SSL.Error) as refused:
                client.do_handshake()
            return str(refused.value)

    async def body(world: World) -> None:
        address = await world.listen(policy(tmp_path))
        assert "no renegotiation" in await asyncio.to_thread(renegotiate, address)
        await until(world.accepted[0].closed.is_set)

    run(body)


def test_bytes_that_were_changed_on_the_way_end_the_connection(run, tmp_path, caplog):
    async def body(world: World) -> None:
        address = await world.listen(policy(tmp_path))
        client = await asyncio.to_thread(openssl, address, client_context(tmp_path))
        await asyncio.to_thread(client.sendall, _LENGTH.pack(2) + b"hi")
        await until(lambda: world.accepted[0].frames)
        with socket.socket(fileno=client.detach()) as plain:
            plain.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
            await until(world.accepted[0].closed.is_set)
        assert "cannot be decrypted" in caplog.text

    run(body)


@pytest.mark.parametrize(
    "spoiling",
    [b"\x17\x03\x03\x00\x20" + bytes(32), b"\x15\x03\x03\x00\x02\x02\x28", b"GET / HTTP/1.1\r\n\r\n"],
    ids=["changed", "alert", "plaintext"],
)
def test_a_peer_that_spoils_the_connection_while_much_is_on_its_way_to_it_ends_it(run, tmp_path, spoiling):
    size = 60 * 1024 * 1024  # more than the kernel takes for a peer that takes nothing

    def take_all(plain: socket.socket) -> int:
        taken = 0
        with suppress(ConnectionResetError):
            while data := plain.recv(1 << 20):
                taken += len(data)
        return taken

    async def body(world: World) -> None:
        address = await world.listen(policy(tmp_path))
        world.prepare = lambda owner: setattr(owner, "answer", lambda frame: [_LENGTH.pack(size), bytes(size)])
        client = await asyncio.to_thread(openssl, address, client_context(tmp_path))
        await asyncio.to_thread(client.sendall, _LENGTH.pack(0))
        with socket.socket(fileno=client.detach()) as plain:
            plain.settimeout(30)
            await until(lambda: world.accepted and world.accepted[0].writable)
            owner = world.accepted[0]
            plain.sendall(spoiling)
            await until(owner.connection._below._transport.is_closing)
            assert await asyncio.to_thread(take_all, plain) < size
            await owner.closed.wait()

    run(body)


class PlayedBelow:
    """A connection of ciphertext that notes what is done with it."""

    peer = Address("127.0.0.1", 5)

    def __init__(self) -> None:
        self.aborted = False
        self.shared: list[int] = []
        """The sizes of the memories that it was told to receive into."""
        self.turns_left = 0
        """The number of times that it let others receive."""

    def abort(self) -> None:
        self.aborted = True

    def share_memory(self, common: memoryview) -> None:
        self.shared.append(len(common))

    def let_others_receive(self) -> None:
        self.turns_left += 1

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def write(self, buffers: list) -> None: ...


class PlayedTransfer(PlayedBelow):
    """A connection of ciphertext that keeps what is written, and takes nothing after it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, buffers: list) -> None:
        assert not self.closed, "a closed connection takes nothing more"
        self.written.extend(bytes(buffer) for buffer in buffers)

    def close(self) -> None:
        self.closed = True


class PlayedEngine:
    """Agrees at once, has nothing to say, and takes all that it is to encrypt."""

    def __init__(self) -> None:
        self.taken = 0

    def do_handshake(self) -> None: ...

    def getpeercert(self, *, binary_form: bool) -> None: ...

    def read(self, length: int, buffer: memoryview) -> NoReturn:
        raise ssl.SSLWantReadError

    def write(self, data: bytes) -> int:
        self.taken += len(data)
        return len(data)


class PlayedShare:
    """The share of an address."""

    def __init__(self) -> None:
        self.pieces = 0
        self.has_had_enough = False

    def spend(self, began_ns: int, now_ns: int) -> None:
        assert 0 < began_ns <= now_ns
        self.pieces += 1

    def is_spent(self, now_ns: int) -> bool:
        return self.has_had_enough


class PlayedShares:
    """Those of a loop with several addresses; who waits goes on when the test says so."""

    is_shared = True

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def wait(self, share: PlayedShare, go_on: Callable[[], None]) -> None:
        self.waiting.append(go_on)


async def test_handshakes_and_encryption_count_and_an_address_that_has_had_its_share_waits_with_its_pieces():
    below, shares, engine, owners = PlayedBelow(), PlayedShares(), PlayedEngine(), []
    share = below.share = PlayedShare()

    def accept(connection: Connection) -> Frames:
        owners.append(Frames(connection))
        return owners[0]

    parts = TlsParts(BufferSweeper(), TransferTurns())
    connection = TlsConnection(
        below,
        lambda *memories: engine,
        parts,
        shares,
        accept,
        pytest.fail,
        lambda connection, engine: lambda: None,
        5,
        is_server=True,
    )
    connection.on_bytes(memoryview(b"\x16"))
    await until(lambda: owners[0].certificates)
    assert share.pieces == 1, "the end of a handshake is work of its address, counted once"
    connection.write([bytes(PIECE_BYTES)])
    assert (engine.taken, share.pieces) == (PIECE_BYTES, 1), (
        "what is written in an answer is counted by the connection below"
    )
    connection.write([bytes(5 * PIECE_BYTES)])
    assert (engine.taken, share.pieces) == (2 * PIECE_BYTES, 2)
    share.has_had_enough = True
    await until(lambda: engine.taken == 3 * PIECE_BYTES)  # it was in turn already
    for pieces in (4, 5, 6):
        for _ in range(20):
            await asyncio.sleep(0)
        assert (engine.taken, share.pieces) == ((pieces - 1) * PIECE_BYTES, pieces - 1)
        (go_on,) = shares.waiting
        shares.waiting.clear()
        go_on()
    assert (engine.taken, shares.waiting) == (6 * PIECE_BYTES, [])
    connection.on_closed()


class TalkingEngine(PlayedEngine):
    """Each time that it is asked, one more frame has arrived."""

    has_told = False

    def read(self, length: int, buffer: memoryview) -> int:
        self.has_told = not self.has_told
        if not self.has_told:
            raise ssl.SSLWantReadError
        frame = _LENGTH.pack(4) + b"asks"
        buffer[: len(frame)] = frame
        return len(frame)


async def test_an_address_that_has_had_its_share_waits_with_requests_that_arrived_with_earlier_ones():
    below, shares, owners = PlayedBelow(), PlayedShares(), []
    share = below.share = PlayedShare()
    below.turn_us = TURN_US
    turns_us: list[int] = []

    class Resting(Frames):
        """Rests after each request."""

        def on_bytes(self, received: memoryview) -> int:
            taken = super().on_bytes(received)
            turns_us.append(self.connection.turn_us)
            self.connection.pause_reading()
            self.connection.resume_reading()
            return taken

    def accept(connection: Connection) -> Resting:
        owners.append(Resting(connection))
        owners[0].answer = lambda frame: []
        return owners[0]

    connection = TlsConnection(
        below,
        lambda *memories: TalkingEngine(),
        TlsParts(BufferSweeper(), TransferTurns()),
        shares,
        accept,
        pytest.fail,
        lambda connection, engine: lambda: None,
        5,
        is_server=True,
    )
    connection.on_bytes(memoryview(b"\x16"))
    await until(lambda: len(owners[0].frames) >= 3)
    share.has_had_enough = True
    await asyncio.wait_for(until(lambda: shares.waiting), 10)
    for _ in range(3):
        before = len(owners[0].frames)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(owners[0].frames) == before
        (go_on,) = shares.waiting
        shares.waiting.clear()
        go_on()
        assert len(owners[0].frames) == before + 1
        await until(lambda: shares.waiting)
    assert turns_us[-3:] == [SPENT_TURN_US] * 3
    assert below.turn_us == TURN_US
    connection.on_closed()
    shares.waiting.pop()()
    assert len(owners[0].frames) == before + 1, "nothing is offered after the end"


async def test_a_peer_that_sends_much_lets_others_receive_and_little_memory_is_its_own_before_it_is_secure():
    below, owners = PlayedBelow(), []

    def accept(connection: Connection) -> Frames:
        owners.append(Frames(connection))
        return owners[0]

    parts = TlsParts(BufferSweeper(), TransferTurns())
    connection = TlsConnection(
        below,
        lambda *memories: PlayedEngine(),
        parts,
        LoopShares(),
        accept,
        pytest.fail,
        lambda connection, engine: lambda: None,
        5,
        is_server=True,
    )
    assert below.shared == [INITIAL_BYTES]
    connection.on_bytes(memoryview(b"\x16"))
    await until(lambda: owners[0].certificates)
    assert below.shared == [INITIAL_BYTES, DECRYPTED_BYTES]
    much, little = memoryview(bytes(DECRYPTED_BYTES)), memoryview(bytes(100))
    turns_left = []
    for received in (much, much, much, little, much, much):  # a read of little has found no more
        connection.on_bytes(received)
        turns_left.append(below.turns_left)
    assert turns_left == [0, 1, 1, 1, 1, 2]
    connection.on_closed()


class BrokenEngine(PlayedEngine):
    """Agrees at once, and then writes nothing any more."""

    def write(self, data: bytes) -> NoReturn:
        error = ssl.SSLError(1, "no more")
        error.reason = "NO_MORE"
        raise error


async def test_a_connection_that_openssl_cannot_write_to_any_more_is_ended(caplog):
    below, owners = PlayedBelow(), []

    def accept(connection: Connection) -> Frames:
        owners.append(Frames(connection))
        return owners[0]

    parts = TlsParts(BufferSweeper(), TransferTurns())
    connection = TlsConnection(
        below,
        lambda *memories: BrokenEngine(),
        parts,
        LoopShares(),
        accept,
        pytest.fail,
        lambda connection, engine: lambda: None,
        5,
        is_server=True,
    )
    connection.on_bytes(memoryview(b"\x16"))
    await until(lambda: owners[0].certificates)
    connection.write([b"answer"])
    assert below.aborted
    assert "nothing can be sent to it" in caplog.text
    connection.on_closed()


@pytest.mark.parametrize("takes", [True, False], ids=["peer takes more", "peer takes nothing"])
@pytest.mark.parametrize("ends", ["goodbye", "broken record"])
async def test_what_waits_for_a_peer_that_has_ended_the_connection_is_neither_encrypted_nor_held(tmp_path, ends, takes):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(NODE.write_pem(tmp_path / "node.pem"))
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(tmp_path).wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    below, owners = PlayedTransfer(), []

    def accept(connection: Connection) -> Frames:
        owners.append(Frames(connection))
        return owners[0]

    turns = TransferTurns()
    connection = TlsConnection(
        below,
        lambda *memories: context.wrap_bio(*memories, server_side=True),
        TlsParts(BufferSweeper(), turns),
        LoopShares(),
        accept,
        pytest.fail,
        lambda connection, engine: lambda: None,
        30,
        is_server=True,
    )
    while not owners[0].certificates:
        with suppress(ssl.SSLWantReadError):
            client.do_handshake()
        if arrived := to_server.read():
            connection.on_bytes(memoryview(arrived))
        await until(lambda: below.written or owners[0].certificates)
        to_client.write(b"".join(below.written))
        below.written.clear()
    connection.write([bytes(20 * PIECE_BYTES)])
    if not takes:
        connection.on_writable(False)
    if ends == "goodbye":
        with suppress(ssl.SSLWantReadError):
            client.unwrap()
        connection.on_bytes(memoryview(to_server.read()))
    else:
        connection.on_bytes(memoryview(b"\x17\x03\x03\x00\x20" + bytes(32)))
    assert below.closed
    assert not connection._outgoing
    below.written.clear()
    connection.on_writable(True)
    await until(lambda: not turns._waiting)
    assert (below.written, below.aborted) == ([], False), "what was encrypted before may still leave"
    connection.on_closed()


PACKET_BYTES = 45 * 1448
"""The most that the kernel hands to a network card at once: whole segments of an Ethernet frame's size, 64 KiB at most."""


@pytest.mark.parametrize("heads", [0, 1, 3], ids=str)
def test_a_piece_with_what_tls_adds_fits_into_two_packets(tmp_path: Path, heads: int) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(NODE.write_pem(tmp_path / "node.pem"))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    client = ssl.create_default_context(cadata=AUTHORITY.pem).wrap_bio(
        to_client, to_server, server_hostname="127.0.0.1"
    )
    for side in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    to_client.read()
    sizes = [*[60] * heads, PIECE_BYTES - 60 * heads]  # what is around an answer's records is encrypted alone
    for size in sizes:
        server.write(bytes(size))
    assert to_client.pending <= 2 * PACKET_BYTES
    server.write(bytes(1024))
    assert to_client.pending > 2 * PACKET_BYTES, "and fills them"
