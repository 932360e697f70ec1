"""Hostile clients, by seed, of a node that speaks TLS and asks for log-ins: strangers, and a user without rights.

The user does what the hostile clients of an open node do, within TLS and after its log-in. Strangers spoil handshakes, records and log-ins,
or begin very many of them.
"""

import base64
import random
import re
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import ClassVar, Final

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest
from kio.schema.envelope.v0.request import EnvelopeRequest
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32, i32Timedelta
from OpenSSL import SSL

from esp.protocol.enclosed import encode_principal
from esp.testing.node_process import NodeProcess
from tests.integration import messages
from tests.integration.fuzz_report import MIB
from tests.integration.hostile_clients import Attacker, split, spoil
from tests.integration.wire import frame
from tests.models.access_tokens import Provider, first_message, text_of, wall_ms
from tests.models.certificates import Authority

MALLORY: Final = ("mallory", "a password that everyone knows")
"""A user that may do nothing."""

READER: Final = ("reader", "another password that everyone knows")
"""A user that may read what there is; it is used for nothing else."""

LONG: Final = "long"
"""A topic of :data:`LONG_BYTES`, so that an answer with its records does not fit into the buffers of sockets."""
LONG_BYTES: Final = 32 * MIB

HARD_TO_CHECK: Final = "many-iterations"
"""A user whose password takes as long to check as any may."""

ANYONE: Final = "anyone"
INSIDER: Final = "insider"
SENDERS: Final = (ANYONE, MALLORY[0], INSIDER)
"""Clients of the controller's listener: one without a certificate, one whose user may do nothing, and one that may act for the cluster."""

HONEST_S: Final = encode_principal("User:honest")
MALLORY_S: Final = encode_principal(f"User:{MALLORY[0]}")

BELIEVED: Final = Provider()
"""Signs what the node believes, but for its claims: the audience is another service."""
SIGNERS: Final = (BELIEVED, Provider(serial=1))

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "x" * 300, "")


def _trusting() -> ssl.SSLContext:
    """Attackers do not care whom they attack."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Stranger(Attacker):
    """One of many; see :class:`tests.integration.hostile_clients.Attacker`."""

    KINDS: ClassVar[Mapping[str, int]] = {
        "spoilt requests": 6,
        "answers that nobody takes": 3,
        "very many elements": 3,
        "bomb": 1,
        "plaintext": 2,
        "spoilt handshakes": 6,
        "half a handshake": 4,
        "a handshake, slowly": 2,
        "handshakes": 4,
        "large certificates": 2,
        "other handshakes on the same connection": 2,
        "spoilt records": 6,
        "spoilt log-ins": 8,
        "wrong passwords": 4,
        "forged tokens": 4,
        "envelopes": 4,
        "denied requests": 4,
        "answers taken slowly": 3,
        "records taken slowly": 3,
        "hard log-ins": 4,
    }

    def __init__(self, node: NodeProcess, rng: random.Random) -> None:
        super().__init__(node, rng)
        self._tls = _trusting()
        more: dict[str, Callable[[], None]] = {
            "plaintext": self._garbage_in_plaintext,
            "spoilt handshakes": self._spoil_handshake,
            "half a handshake": self._half_handshake,
            "a handshake, slowly": self._shake_slowly,
            "handshakes": self._shake_often,
            "large certificates": self._show_much,
            "other handshakes on the same connection": self._renegotiate,
            "spoilt records": self._spoil_records,
            "spoilt log-ins": self._spoil_log_in,
            "wrong passwords": self._guess,
            "forged tokens": self._forge,
            "envelopes": self._enclose,
            "denied requests": self._ask_what_is_denied,
            "answers taken slowly": self._take_slowly,
            "records taken slowly": self._read_slowly,
            "hard log-ins": self._guess_hard,
        }
        self._attacks |= more

    def _connect(self) -> socket.socket:
        """The user without rights has logged in."""
        return self._logged_in(MALLORY)

    def _logged_in(self, user: tuple[str, str]) -> ssl.SSLSocket:
        connection = self._secured()
        try:
            connection.sendall(frame(SaslHandshakeRequest(mechanism="PLAIN"), 1))
            connection.recv(65_536)
            name, password = user
            connection.sendall(frame(SaslAuthenticateRequest(auth_bytes=f"\0{name}\0{password}".encode()), 2))
            connection.recv(65_536)
        except OSError:
            connection.close()
            raise
        return connection

    def _secured(self, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        """A connection whose handshake is done."""
        connection = super()._connect()
        try:
            return (context or self._tls).wrap_socket(connection)
        except OSError:
            connection.close()
            raise

    def _garbage_in_plaintext(self) -> None:
        """A client that does not know of TLS, or that speaks something else."""
        with super()._connect() as connection:
            other = b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n"
            connection.sendall(self._rng.choice((frame(messages.metadata(), 1), other, self._rng.randbytes(20_000))))
            connection.recv(65_536)

    def _hello(self) -> bytes:
        """The first message of a handshake."""
        arrived, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        with suppress(ssl.SSLWantReadError):
            self._tls.wrap_bio(arrived, leaving).do_handshake()
        return leaving.read()

    def _spoil_handshake(self) -> None:
        with super()._connect() as connection:
            for piece in split(spoil(self._hello(), self._rng), self._rng):
                connection.sendall(piece)
            connection.settimeout(0.05)
            with suppress(TimeoutError):
                connection.recv(65_536)

    def _half_handshake(self) -> None:
        """Many connections that begin a handshake and say no more for a while."""
        with ExitStack() as open_:
            for _ in range(self._rng.randint(1, 50)):
                hello = self._hello()
                connection = open_.enter_context(super()._connect())
                connection.sendall(hello[: self._rng.randint(1, len(hello))])
            time.sleep(self._rng.uniform(0, 0.5))  # the attack is that nothing happens

    def _shake_slowly(self) -> None:
        with super()._connect() as connection:
            for byte in self._hello():
                connection.sendall(bytes([byte]))

    def _shake_often(self) -> None:
        """Handshakes, each of which costs the node a signature."""
        for _ in range(self._rng.randint(1, 30)):
            with self._secured():
                pass

    def _show_much(self) -> None:
        """Certificates as large as handshakes may have."""
        with self._secured(large_certificate()) as connection:
            connection.settimeout(0.5)
            connection.sendall(frame(messages.api_versions(), 1))
            with suppress(TimeoutError):
                connection.recv(65_536)

    def _renegotiate(self) -> None:
        """TLS 1.2 lets a client ask for another handshake, again and again, which servers must refuse."""
        context = SSL.Context(SSL.TLSv1_2_METHOD)
        with super()._connect() as below:
            below.setblocking(True)
            connection = SSL.Connection(context, below)
            connection.set_connect_state()
            with suppress(SSL.Error):
                connection.do_handshake()
                for _ in range(20):
                    connection.renegotiate()
                    connection.do_handshake()

    def _spoil_records(self) -> None:
        """Records that are cut, changed, repeated, or no records at all, on a connection that was secure."""
        with self._in_memory() as (connection, engine, leaving):
            for _ in range(self._rng.randint(1, 5)):
                engine.write(self._request())
                for piece in split(spoil(leaving.read(), self._rng), self._rng):
                    connection.sendall(piece)
            connection.settimeout(0.05)
            with suppress(TimeoutError):
                connection.recv(65_536)

    @contextmanager
    def _in_memory(self) -> Iterator[tuple[socket.socket, ssl.SSLObject, ssl.MemoryBIO]]:
        """A secure connection whose records leave by hand."""
        arrived, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        engine = self._tls.wrap_bio(arrived, leaving)
        with super()._connect() as connection:
            while True:
                try:
                    engine.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    connection.sendall(leaving.read())
                    received = connection.recv(65_536)
                    if not received:
                        raise EOFError("the node ended the handshake") from None
                    arrived.write(received)
            connection.sendall(leaving.read())
            yield connection, engine, leaving

    def _spoil_log_in(self) -> None:
        """Messages of a log-in that are changed, repeated or out of order."""
        with self._secured() as connection:
            asked = frame(SaslHandshakeRequest(mechanism=self._rng.choice(MECHANISMS)), 1)
            said = [asked, *(self._said() for _ in range(self._rng.randint(1, 4)))]
            if self._rng.random() < 0.2:
                self._rng.shuffle(said)
            for data in said:
                whole = spoil(data, self._rng) if self._rng.random() < 0.5 else data
                for piece in split(whole, self._rng):
                    connection.sendall(piece)
                self._tally.requests += 1
            connection.settimeout(0.05)
            with suppress(TimeoutError):
                connection.recv(65_536)

    def _said(self) -> bytes:
        """A message of some mechanism, for a client that has not said so, or with bytes that no mechanism knows."""
        token = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=")
        said = self._rng.choice(
            (
                b"\0mallory\0" + bytes(self._rng.randint(0, 3)),
                b"\0" * self._rng.randint(0, 500),
                b"n,,n=mallory,r=" + b"r" * self._rng.choice((0, 5, 300, 60_000)),
                b"p=tls-unique,a=honest,n=honest,r=abc",
                b"c=biws,r=abc,p=" + base64.b64encode(self._rng.randbytes(self._rng.choice((0, 20, 32, 64)))),
                b"n,a=honest,\x01auth=Bearer " + token + b"." + token + b"." + b"\x01\x01",
                self._rng.randbytes(self._rng.choice((1, 100, 60_000))),
            )
        )
        return frame(SaslAuthenticateRequest(auth_bytes=said), 2)

    def _guess(self) -> None:
        """Passwords of a user whose password takes long to check, and of others; no guess waits to hear that it was wrong."""
        for _ in range(self._rng.randint(1, 20)):
            with self._secured() as connection:
                mechanism = self._rng.choice(("PLAIN", "SCRAM-SHA-512"))
                connection.sendall(frame(SaslHandshakeRequest(mechanism=mechanism), 1))
                connection.recv(65_536)
                user = self._rng.choice((HARD_TO_CHECK, "honest", "nobody"))
                first = f"\0{user}\0guess" if mechanism == "PLAIN" else f"n,,n={user},r=0123456789"
                connection.sendall(frame(SaslAuthenticateRequest(auth_bytes=first.encode()), 2))
                if mechanism != "PLAIN":
                    nonce = re.search(rb"r=([^,]+)", connection.recv(65_536))
                    assert nonce is not None, "each user gets a salt, those that are not there too"
                    last = b"c=biws,r=" + nonce[1] + b",p=" + base64.b64encode(bytes(64))
                    connection.sendall(frame(SaslAuthenticateRequest(auth_bytes=last), 3))
                self._tally.requests += 1
                connection.settimeout(0.02)
                with suppress(TimeoutError):
                    connection.recv(65_536)

    def _forge(self) -> None:
        """Access tokens of every fault, large ones too, in messages that may be spoilt; refusals are answered by anything."""
        for _ in range(self._rng.randint(1, 20)):
            with self._secured() as connection:
                connection.sendall(frame(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1))
                connection.recv(65_536)
                said = first_message(self._forged())
                if self._rng.random() < 0.3:
                    said = spoil(said, self._rng)
                connection.sendall(frame(SaslAuthenticateRequest(auth_bytes=said), 2))
                self._tally.requests += 1
                connection.settimeout(0.05)
                with suppress(TimeoutError):
                    connection.recv(65_536)
                    again = self._rng.choice((b"\x01", said, b""))
                    connection.sendall(frame(SaslAuthenticateRequest(auth_bytes=again), 3))
                    connection.recv(65_536)

    def _forged(self) -> str:
        rng, signer = self._rng, self._rng.choice(SIGNERS)
        claims = signer.claims(
            wall_ms(), **rng.choice(({}, {"exp": 0}, {"aud": "x"}, {"iss": None}, {"sub": "x" * 5000}))
        )
        if rng.random() < 0.1:
            claims["groups"] = ["g" * 10] * rng.choice((10, 4000))
        nested = "[" * rng.choice((10, 5000))
        return rng.choice(
            (
                lambda: signer.sign(claims),
                lambda: signer.sign(claims, {"kid": f"made-up-{rng.random()}"}),
                lambda: signer.sign(claims, {"kid": None, "crit": ["x"]}),
                lambda: signer.sign(claims, {"pad": "x" * rng.choice((100, 60_000))}),
                signer.unsigned,
                signer.signed_by_public_key,
                lambda: f"{text_of(nested.encode())}.{text_of(nested.encode())}.AAAA",
                lambda: signer.token(wall_ms())[: -rng.randint(1, 300)],
                lambda: "." * rng.choice((2, 60_000)),
            )
        )()

    def _enclose(self) -> None:
        """Requests in the name of another, which only nodes may send, and only to controllers."""
        for _ in range(10):
            with suppress(OSError, EOFError):
                self.enclose(self._rng.choice((None, *SENDERS)))

    def enclose(self, sender: str | None) -> bytes:
        """Send one of them, and return what comes.

        Args:
            sender: one of :data:`SENDERS`, to the controller's listener; None: the user without rights, to the broker's.
        """
        is_node = sender == INSIDER
        with self._connect() if sender is None else self._at_controller(sender) as connection:
            principals = (None, b"", HONEST_S, b"\xff" * 100)
            if is_node:  # what it asks for is done: not in the name of the honest one
                principals = (b"", b"\xff" * 100, MALLORY_S, MALLORY_S, spoil(MALLORY_S, self._rng))
            request = EnvelopeRequest(
                request_data=spoil(self._request(), self._rng)[4:],
                request_principal=self._rng.choice(principals),
                client_host_address=self._rng.choice((b"", b"\x7f\0\0\1", b"\x7f\0\0\1", b"\0" * 16, b"\1" * 5)),
            )
            enclosed = frame(request, 1)
            connection.sendall(enclosed if is_node or self._rng.random() < 0.5 else spoil(enclosed, self._rng))
            self._tally.requests += 1
            connection.settimeout(0.5 if is_node else 0.05)
            with suppress(TimeoutError):
                return connection.recv(65_536)
            return b""

    def _at_controller(self, sender: str) -> ssl.SSLSocket:
        """A connection to the controller's listener, which takes certificates, and needs none."""
        places = dict(each.split("://") for each in self._node.settings["listeners"].split(","))
        context = _trusting()
        if sender != ANYONE:
            context.load_cert_chain(certificate_path(self._node.data_dir.parent, sender))
        connection = self._connect_to(int(places["CONTROLLER"].rpartition(":")[2]))
        try:
            return context.wrap_socket(connection)
        except OSError:
            connection.close()
            raise

    def _ask_what_is_denied(self) -> None:
        """A user without rights asks for one thing after another, each under a name of its own, and hears that it may not."""
        with self._connect() as connection:
            connection.settimeout(2)
            for _ in range(self._rng.randint(1, 20)):
                asked = b"".join(frame(self._denied(), number) for number in range(50))
                self._tally.requests += 50
                connection.sendall(asked)
                left = 50
                received = b""
                while left:
                    more = connection.recv(65_536)
                    if not more:
                        return
                    received += more
                    while len(received) >= 4 and len(received) >= 4 + int.from_bytes(received[:4], "big"):
                        received = received[4 + int.from_bytes(received[:4], "big") :]
                        left -= 1

    def _denied(self) -> object:
        name, soon = f"not-mine-{self._rng.randrange(1 << 30)}", i32Timedelta.parse(timedelta(seconds=1))
        topic = CreatableTopic(
            name=TopicName(name), num_partitions=i32(1), replication_factor=i16(1), assignments=(), configs=()
        )
        return self._rng.choice(
            (
                messages.produce(self._rng.choice((name, "honest")), b"x" * 100),
                messages.fetch("honest", 0),
                messages.list_offsets("honest", 5),
                messages.metadata(name, "honest"),
                CreateTopicsRequest(topics=(topic,), timeout=soon, validate_only=False),
                DeleteTopicsRequest(topic_names=(TopicName(name), TopicName("honest")), timeout=soon),
            )
        )

    def _take_slowly(self) -> None:
        """Long answers within TLS, of which a few bytes are taken at a time: the rest waits with the node, and must not be much."""
        with ExitStack() as open_:
            slow = [open_.enter_context(self._connect()) for _ in range(self._rng.randint(1, 10))]
            self._ask_and_take_slowly(slow, frame(messages.api_versions(), 1) * 200, requests=200)

    def _read_slowly(self) -> None:
        """The same with records, of which an answer has up to 32 MiB: mapped files, encrypted as the client takes them."""
        with ExitStack() as open_:
            slow = [open_.enter_context(self._logged_in(READER)) for _ in range(self._rng.randint(1, 10))]
            size = self._rng.choice((100_000, MIB, LONG_BYTES))
            asked = frame(messages.fetch(LONG, 0, partition_max_bytes=size), 1)
            self._ask_and_take_slowly(slow, asked * 5, requests=5)

    def _ask_and_take_slowly(self, slow: Sequence[socket.socket], asked: bytes, requests: int) -> None:
        for connection in slow:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(0.2)
            with suppress(TimeoutError):
                connection.sendall(asked)
            self._tally.requests += requests
        for _ in range(20):
            for connection in slow:
                with suppress(TimeoutError):
                    connection.recv(100)
            time.sleep(0.05)  # the attack is that little happens

    def _guess_hard(self) -> None:
        """Wrong passwords of the user whose password takes longest to check, one after another and side by side."""
        with ExitStack() as open_:
            for _ in range(self._rng.randint(1, 20)):
                connection = open_.enter_context(self._secured())
                connection.sendall(frame(SaslHandshakeRequest(mechanism="PLAIN"), 1))
                connection.recv(65_536)
                said = f"\0{HARD_TO_CHECK}\0guess {self._rng.random()}".encode()
                connection.sendall(frame(SaslAuthenticateRequest(auth_bytes=said), 2))
                self._tally.requests += 1
            time.sleep(0.1)  # as long as a dozen checks take


def certificate_path(directory: Path, sender: str) -> Path:
    """The key and certificate of an attacker, beside the node's directory."""
    return directory / f"{sender}.pem"


@cache
def large_certificate() -> ssl.SSLContext:
    """A client's terms, with a certificate of 4,000 names."""

    names = [f"host-{number}.example" for number in range(4_000)]
    with tempfile.TemporaryDirectory() as directory:
        store = Authority("CN=Unknown").issue("CN=mallory", hosts=names).write_pem(Path(directory) / "store.pem")
        context = _trusting()
        context.load_cert_chain(store)
    return context
