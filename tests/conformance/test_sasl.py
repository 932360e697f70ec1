"""A log-in goes as with Apache Kafka, message by message, but for what is answered better for a reason."""

import contextlib
import secrets
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from esp.authentication.scram import ScramClient
from esp.model.scram import ScramMechanism
from esp.protocol.headers import read_response_header
from esp.protocol.messages import decode_response, encode_request, load_class
from esp.protocol.registry import SERVED, ApiKey
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import NodeProcess
from esp.testing.ports import free_port
from esp.testing.real_kafka import RealKafka
from tests.integration.conftest import eventually

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOGIN, WRONG = b"\0alice\0alice-secret", b"\0alice\0wrong"
RENEWED_S = 3

Seen = tuple[object, ...]


class Stranger:
    """A connection whose every step is noted: the answer's code, text and bytes, or the end of the connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.seen: list[Seen] = []
        self._next_id = 0

    def send(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # the end is noted where an answer is read
            self.socket.sendall(data)

    def frame(self) -> bytes | None:
        """The next frame; None if the connection ends instead."""
        try:
            length = self._receive(4)
            return None if length is None else self._receive(struct.unpack(">i", length)[0])
        except ConnectionError:
            return None

    def _receive(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                return None
            data += piece
        return data

    def call(self, key: ApiKey, version: int, **content: Any) -> Any:
        """Send a request, and return the answer; None if the connection ends instead."""
        self._next_id += 1
        api = SERVED[key]
        message = load_class(api, api.request_model(version), "request")(**content)
        self.send(encode_request(key, version, self._next_id, "stranger", message))
        frame = self.frame()
        if frame is None:
            return None
        _, position = read_response_header(frame, key, version)
        return decode_response(key, version, frame[position:])

    def versions(self, version: int = 3) -> None:
        answer = self.call(ApiKey.API_VERSIONS, version, client_software_name="a", client_software_version="1")
        self.note("versions", answer, lambda: (bool(answer.api_keys),))

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> None:
        answer = self.call(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)
        self.note("handshake", answer, lambda: (sorted(answer.mechanisms),))

    def authenticate(self, data: bytes = LOGIN, version: int = 2) -> bytes:
        answer = self.call(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=data)
        self.note(
            "authenticate", answer, lambda: (answer.error_message, int(answer.session_lifetime.total_seconds() * 1000))
        )
        return b"" if answer is None else answer.auth_bytes

    def metadata(self) -> None:
        answer = self.call(
            ApiKey.METADATA,
            12,
            topics=(),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        self.note("metadata", answer, lambda: (), code=0)

    def token(self, data: bytes) -> bytes | None:
        self.send(struct.pack(">i", len(data)) + data)
        frame = self.frame()
        self.seen.append(("token", None if frame is None else frame == b""))
        return frame

    def note(self, name: str, answer: Any, rest: Callable[[], Seen], code: int | None = None) -> None:
        if answer is None:
            self.seen.append((name, "closed"))
        else:
            self.seen.append((name, int(answer.error_code) if code is None else code, *rest()))

    def scram(self, mechanism: str, user: str = "alice", password: str = "alice-secret") -> None:
        kind = ScramMechanism[mechanism.replace("-", "_")]
        client = ScramClient(kind, user, password, secrets.token_hex(16))
        self.handshake(mechanism)
        challenge = self.authenticate(client.first_message())
        if challenge:
            final = self.authenticate(client.on_server_first(challenge))
            if final:
                client.on_server_final(final)

    def scram_altered(self, alter: Callable[[bytes], bytes]) -> None:
        """Log in by SCRAM with the right password, and with a last message that is changed on its way."""
        client = ScramClient(ScramMechanism.SCRAM_SHA_256, "alice", "alice-secret", secrets.token_hex(16))
        self.handshake("SCRAM-SHA-256")
        challenge = self.authenticate(client.first_message())
        self.authenticate(alter(client.on_server_first(challenge)))

    def scram_replayed(self) -> None:
        """Send the messages of a log-in that succeeds, and the same again in another session."""
        client = ScramClient(ScramMechanism.SCRAM_SHA_256, "alice", "alice-secret", secrets.token_hex(16))
        self.handshake("SCRAM-SHA-256")
        final = client.on_server_first(self.authenticate(client.first_message()))
        self.authenticate(final)
        again = Stranger(self.socket.getpeername()[1])
        again.handshake("SCRAM-SHA-256")
        again.authenticate(client.first_message())
        again.authenticate(final)
        again.is_closed()
        again.socket.close()
        self.seen += again.seen

    def unreadable(self) -> None:
        """Send a SaslAuthenticate request whose body says that more bytes follow than do."""
        frame = struct.pack(">hhih", ApiKey.SASL_AUTHENTICATE, 1, 7, -1) + struct.pack(">i", 1_000)
        self.send(struct.pack(">i", len(frame)) + frame)
        answer = self.frame()
        self.seen.append(("unreadable", "closed" if answer is None else struct.unpack_from(">ih", answer)))

    def is_closed(self) -> None:
        """Note whether the connection ends."""
        self.socket.settimeout(2)
        try:
            self.seen.append(("ends", self.socket.recv(1) == b""))
        except TimeoutError:
            self.seen.append(("ends", False))
        except ConnectionError:
            self.seen.append(("ends", True))


def raw(data: bytes) -> Callable[[Stranger], None]:
    def play(stranger: Stranger) -> None:
        stranger.send(data)
        stranger.is_closed()

    return play


def plays(*steps: Callable[[Stranger], object]) -> Callable[[Stranger], None]:
    def play(stranger: Stranger) -> None:
        for step in steps:
            step(stranger)

    return play


S = Stranger
CASES: dict[str, Callable[[Stranger], None]] = {
    "log-in by PLAIN": plays(S.versions, S.handshake, S.authenticate, S.metadata, S.versions, S.versions),
    "log-in in old versions": plays(
        lambda s: s.versions(0), S.handshake, lambda s: s.authenticate(LOGIN, 0), S.metadata
    ),
    "log-in without versions": plays(S.handshake, lambda s: s.authenticate(LOGIN, 1), S.metadata),
    "versions twice": plays(S.versions, S.versions),
    "another API": plays(S.metadata),
    "another API after versions": plays(S.versions, S.metadata),
    "authenticate first": plays(S.authenticate),
    "versions after the handshake": plays(S.handshake, S.versions, S.is_closed),
    "handshake twice": plays(S.handshake, S.handshake, S.is_closed),
    "mechanism not enabled": plays(lambda s: s.handshake("GSSAPI"), S.is_closed),
    "mechanism in small letters": plays(lambda s: s.handshake("plain"), S.is_closed),
    "handshake when known": plays(S.handshake, S.authenticate, lambda s: s.handshake("SCRAM-SHA-256")),
    "authenticate when known": plays(S.handshake, S.authenticate, S.authenticate, S.metadata),
    "wrong password": plays(S.handshake, lambda s: s.authenticate(WRONG), S.is_closed),
    "wrong password in version 0": plays(S.handshake, lambda s: s.authenticate(WRONG, 0), S.is_closed),
    "unknown user": plays(S.handshake, lambda s: s.authenticate(b"\0nobody\0x"), S.is_closed),
    "no message": plays(S.handshake, lambda s: s.authenticate(b""), S.is_closed),
    "two parts": plays(S.handshake, lambda s: s.authenticate(b"alice\0x"), S.is_closed),
    "five parts": plays(S.handshake, lambda s: s.authenticate(b"\0\0\0\0"), S.is_closed),
    "no user": plays(S.handshake, lambda s: s.authenticate(b"\0\0x"), S.is_closed),
    "no password": plays(S.handshake, lambda s: s.authenticate(b"\0alice\0"), S.is_closed),
    "another user's id": plays(S.handshake, lambda s: s.authenticate(b"bob" + LOGIN), S.is_closed),
    "own id": plays(S.handshake, lambda s: s.authenticate(b"alice" + LOGIN), S.metadata),
    "token": plays(lambda s: s.handshake("PLAIN", 0), lambda s: s.token(LOGIN), S.metadata),
    "wrong token": plays(lambda s: s.handshake("PLAIN", 0), lambda s: s.token(WRONG)),
    "empty token": plays(lambda s: s.handshake("PLAIN", 0), lambda s: s.token(b"")),
    "SCRAM-SHA-256": plays(lambda s: s.scram("SCRAM-SHA-256"), S.metadata),
    "SCRAM-SHA-512": plays(lambda s: s.scram("SCRAM-SHA-512"), S.metadata),
    "wrong password of SCRAM": plays(lambda s: s.scram("SCRAM-SHA-256", "alice", "wrong"), S.is_closed),
    **{
        f"SCRAM begins with {message[:30]!r}": plays(
            lambda s: s.handshake("SCRAM-SHA-256"), lambda s, message=message: s.authenticate(message), S.is_closed
        )
        for message in (
            *(b"", b"garbage", b"\xff\xfe", b"y,,n=alice,r=abc", b"p=tls-unique,,n=alice,r=abc", b"n,,n=alice,r="),
            *(b"n,,n=alice", b"n,,n=al=xbice,r=abc", b"n,a=bob,n=alice,r=abc", b"n,,r=abc,n=alice"),
        )
    },
    **{
        f"SCRAM's last message with {name}": plays(lambda s, alter=alter: s.scram_altered(alter), S.is_closed)
        for name, alter in {
            "another nonce": lambda message: message.replace(b"r=", b"r=a", 1),
            "a text before the nonce": lambda message: message.replace(b"r=", b"r=" + b"a" * 30, 1),
            "a text behind the nonce": lambda message: message.replace(b",p=", b"a,p=", 1),
            "a channel binding": lambda message: message.replace(b"c=biws", b"c=eSws", 1),
            "no channel": lambda message: message.removeprefix(b"c=biws,"),
            "no proof": lambda message: message.partition(b",p=")[0],
            "another proof": lambda message: message[:-8] + b"AAAAAAA=",
            "bytes behind it": lambda message: message + b"\0",
        }.items()
    },
    "SCRAM replayed": plays(S.scram_replayed),
    **{f"frame of {size} bytes": raw(struct.pack(">i", size) + b"x" * 10) for size in (-1, 0, 3, 524_289, 2**31 - 1)},
}

BETTER = {
    "an extension that must be understood": plays(
        lambda s: s.handshake("SCRAM-SHA-256"), lambda s: s.authenticate(b"n,,m=x,n=alice,r=abc")
    ),
    "a user of SCRAM that does not exist": plays(lambda s: s.scram("SCRAM-SHA-256", "nobody")),
    "a nonce twice": plays(
        lambda s: s.scram_altered(lambda message: message.replace(b",p=", b"," + message.split(b",")[1] + b",p=", 1))
    ),
    "half a proof": plays(lambda s: s.scram_altered(lambda message: message[:-20])),
    "a nonce of 5,000 characters": plays(
        lambda s: s.handshake("SCRAM-SHA-256"), lambda s: s.authenticate(b"n,,n=alice,r=" + b"x" * 5000)
    ),
}
"""What is answered otherwise."""


class Pair:
    """A node of ours and one of Kafka's, each with a listener whose log-ins count for ever, and one where they count for seconds."""

    def __init__(self, directory: Path, tools: KafkaTools) -> None:
        self.nodes: list[NodeProcess] = []
        self.ports: list[dict[str, int]] = []
        for name in ("ours", "kafka"):
            ports = {listener: free_port() for listener in ("PLAINTEXT", "LASTING", "RENEWED", "CONTROLLER")}
            settings = {
                "listeners": ",".join(f"{listener}://127.0.0.1:{port}" for listener, port in ports.items()),
                "advertised.listeners": ",".join(
                    f"{listener}://127.0.0.1:{port}" for listener, port in ports.items() if listener != "CONTROLLER"
                ),
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": f"1@127.0.0.1:{ports['CONTROLLER']}",
                "listener.security.protocol.map": (
                    "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LASTING:SASL_PLAINTEXT,RENEWED:SASL_PLAINTEXT"
                ),
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                "connection.failed.authentication.delay.ms": "0",
            }
            for listener in ("lasting", "renewed"):
                prefix = f"listener.name.{listener}"
                users = 'username="a" password="a" user_alice="alice-secret" user_bob="bob-secret"'
                settings[f"{prefix}.plain.sasl.jaas.config"] = f"{PLAIN_MODULE} required {users};"
                for mechanism in ("scram-sha-256", "scram-sha-512"):
                    settings[f"{prefix}.{mechanism}.sasl.jaas.config"] = f"{SCRAM_MODULE} required;"
                for mechanism in ("plain", "scram-sha-256", "scram-sha-512"):
                    lifetime_ms = RENEWED_S * 1000 if listener == "renewed" else 0
                    settings[f"{prefix}.{mechanism}.connections.max.reauth.ms"] = str(lifetime_ms)
            port = ports["PLAINTEXT"]
            made: NodeProcess = Node(directory / name, settings, port)
            if name == "kafka":
                made = RealKafka(directory / name, settings, port, tools=tools)
            made.format(
                secrets.token_urlsafe(16),
                "--add-scram=SCRAM-SHA-256=[name=alice,password=alice-secret]",
                "--add-scram=SCRAM-SHA-512=[name=alice,password=alice-secret]",
            )
            self.nodes.append(made)
            self.ports.append(ports)

    def seen(self, play: Callable[[Stranger], object], listener: str = "LASTING") -> list[list[Seen]]:
        """What a stranger sees of ours, and what of Kafka."""
        found = []
        for ports in self.ports:
            stranger = Stranger(ports[listener])
            play(stranger)
            stranger.socket.close()
            found.append(stranger.seen)
        return found


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, kafka_tools: KafkaTools) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("pair"), kafka_tools)
    with made.nodes[0], made.nodes[1]:

        def is_known() -> bool:
            ours, kafka = made.seen(plays(lambda s: s.scram("SCRAM-SHA-512"), S.metadata))
            return ours == kafka

        eventually(is_known, 60)
        yield made


@pytest.mark.kafka
@pytest.mark.parametrize("case", CASES)
def test_stranger_sees_the_same(pair: Pair, case: str) -> None:
    ours, kafka = pair.seen(CASES[case])
    assert ours == kafka


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("play", "listener"),
    [
        (plays(S.handshake, S.metadata), "LASTING"),
        (plays(S.handshake, S.authenticate, lambda s: s.handshake("SCRAM-SHA-256")), "RENEWED"),
    ],
    ids=["another API after the handshake", "re-authentication by another mechanism"],
)
def test_connection_ends_one_step_sooner(pair: Pair, play: Callable[[Stranger], object], listener: str) -> None:
    ours, kafka = pair.seen(play, listener)
    assert ours[:-1] == kafka[:-1]
    assert ours[-1][1] == "closed"
    ours, kafka = pair.seen(plays(play, S.authenticate), listener)
    assert ours[-1] == kafka[-1] == ("authenticate", "closed")


@pytest.mark.kafka
@pytest.mark.parametrize("case", BETTER)
def test_what_is_answered_better_fails(pair: Pair, case: str) -> None:
    ours, kafka = pair.seen(BETTER[case])
    assert ours != kafka
    assert ours[-1][:2] == ("authenticate", 58)


@pytest.mark.kafka
@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
def test_listener_without_sasl_refuses_and_goes_on(pair: Pair, listener: str) -> None:
    ours, kafka = pair.seen(
        plays(S.versions, S.handshake, lambda s: s.handshake("PLAIN", 0), S.authenticate, S.versions), listener
    )
    assert ours == kafka


def past_the_end(_stranger: Stranger) -> None:
    """Wait until the log-in does not count any more."""
    over = time.monotonic() + RENEWED_S + 0.5
    while time.monotonic() < over:
        time.sleep(0.05)


RENEWALS: dict[str, Callable[[Stranger], None]] = {
    "at once": plays(S.handshake, S.authenticate, S.handshake, S.authenticate, S.metadata),
    "as another user": plays(
        S.handshake, S.authenticate, S.handshake, lambda s: s.authenticate(b"\0bob\0bob-secret"), S.is_closed
    ),
    "with a wrong password": plays(
        S.handshake, S.authenticate, S.handshake, lambda s: s.authenticate(WRONG), S.is_closed
    ),
    "never": plays(S.handshake, S.authenticate, past_the_end, S.metadata),
    "never, in version 0": plays(S.handshake, lambda s: s.authenticate(LOGIN, 0), past_the_end, S.metadata),
    "late": plays(*(S.handshake, S.authenticate, past_the_end, S.handshake, S.authenticate, S.metadata)),
    "by SCRAM": plays(lambda s: s.scram("SCRAM-SHA-256"), lambda s: s.scram("SCRAM-SHA-256"), S.metadata),
    "by SCRAM with another nonce": plays(
        lambda s: s.scram("SCRAM-SHA-256"),
        lambda s: s.scram_altered(lambda message: message.replace(b"r=", b"r=a", 1)),
        S.is_closed,
    ),
    "by what is no message": plays(
        S.handshake, S.authenticate, S.handshake, lambda s: s.authenticate(b"\xff"), S.is_closed
    ),
}


@pytest.mark.kafka
@pytest.mark.parametrize("case", RENEWALS)
def test_renewal_is_seen_alike(pair: Pair, case: str) -> None:
    ours, kafka = pair.seen(RENEWALS[case], "RENEWED")
    assert ours == kafka


@pytest.mark.kafka
@pytest.mark.parametrize("is_renewal", [False, True])
def test_what_cannot_be_read_is_answered_where_kafka_is_silent(pair: Pair, is_renewal: bool) -> None:
    log_in = (S.handshake, S.authenticate) if is_renewal else ()
    ours, kafka = pair.seen(plays(*log_in, S.handshake, S.unreadable, S.is_closed), "RENEWED")
    assert ours[-2:] == [("unreadable", (7, 58)), ("ends", True)]
    assert kafka[-2:] == [("unreadable", "closed"), ("ends", True)]
